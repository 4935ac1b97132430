"""The level `graph`: the model as the interpreter runs it after every pass on ops of the stepwell dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from mlir import ir

from ...dialects import interpreter
from ...dialects.interpreter import Around, EvaluationError
from ...driver import route
from ...driver.compile.compilation import phase_of
from ...driver.state import state_for
from ...passes.graph.constants.evaluate_init import evaluate_init
from ...passes.infra.base import Pass
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.state import DEFAULT_TARGET, RewriteLimit
from ...passes.ir.functions import main_function
from ...passes.ir.locations import names_in
from ...runtime.program import Shape
from ...support.wording import quantity
from .comparison import Difference, Tolerance, compare, noise_of, worst
from .counts import outputs_of
from .range_view import RangeView
from .result import Fault, Level


@dataclass(frozen=True)
class Stage:
    """The model between two passes.

    Attributes:
        name: the name of the pass that produced it.
        step: that pass; None for the imported model.
        module: the module, a copy that does not change.
        parameters: the module's parameters.
        view: how the module, which serves a range of sizes, is used at some sizes; None if it serves one.
        target: the target's name.
    """

    name: str
    step: Pass | None
    module: ir.Operation
    parameters: Mapping[str, np.ndarray]
    view: RangeView | None = None
    target: str = DEFAULT_TARGET

    def outputs(self, inputs: Sequence[np.ndarray], around: Around | None = None) -> list[np.ndarray]:
        """Computes the results of the model at this stage; `around` wraps every operation of `@main`.

        Raises:
            EvaluationError: the module cannot be evaluated, or refuses the inputs.
        """
        with self.module.context, ir.Location.unknown():
            module = self.module.clone()
            parameters = evaluate_init(module, self.parameters)
            results = interpreter.evaluate(module, "main", self.inputs(inputs), parameters, around)
            return self.cropped(outputs_of(main_function(module), results))

    def inputs(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Returns the inputs of the module's @main for the model's inputs."""
        return arrays if self.view is None else self.view.inputs(self.module, arrays)

    def cropped(self, outputs: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the model's outputs for those of the module's @main."""
        return outputs if self.view is None else self.view.outputs(outputs)


def stages_of(
    module: ir.Module,
    parameters: Mapping[str, np.ndarray],
    shapes: Sequence[Shape] | None,
    target: str,
    without: Sequence[str],
    view: RangeView | None = None,
) -> list[Stage]:
    """Returns a model after every pass that changed it, down to kernels of stepwell ops.

    Args:
        module: the model as it was imported; it is changed.
        parameters: its parameters.
        shapes: the shapes of its inputs; None if they are those of the module.
        target: the target's name.
        without: passes to leave out.
        view: how the module is used at some sizes, if it serves a range; None otherwise.
    """
    state = state_for(target, parameters=dict(parameters), shapes=shapes, without=without)
    start = "import" if view is None else "binding to the range"
    stages = [Stage(start, None, module.operation.clone(), dict(parameters), view, target)]

    def run(elements: Sequence[object]) -> None:
        for step in elements:
            assert isinstance(step, Pass)
            Pipeline((step,)).run(module, verify=False, state=state)
            copy = module.operation.clone()
            if str(copy) != str(stages[-1].module):
                stages.append(Stage(step.name, step, copy, dict(state.parameters or {}), view, target))

    if phase_of(module, target) == "import":
        run(route.steps(route.phase("graph", target), state).elements)
    run(route.form_kernels_pipeline(target).elements)
    return stages


def check_graph(
    stages: Sequence[Stage],
    inputs: Sequence[np.ndarray],
    tolerance: Tolerance,
    level: Level,
    step: Callable[[str], None] = lambda text: None,
) -> tuple[list[np.ndarray], list[np.ndarray] | None, Fault | None]:
    """Returns the expected outputs, their noise if it was needed, and the first pass after which the outputs differ.

    Args:
        stages: the model after every pass; the first is the reference.
        inputs: the model's inputs.
        tolerance: the error that counts as rounding.
        level: counts the comparisons.
        step: called with the name of each pass that is examined.
    """
    step("the model as it was imported")
    want = stages[0].outputs(inputs)
    step("the model as kernels")
    last = _difference(stages[-1], inputs, want, tolerance, None)
    noise = None
    if last.is_wrong and not last.reason:
        noise = noise_of(stages[0].outputs, inputs)
        last = _difference(stages[-1], inputs, want, tolerance, noise)
    level.see(last, stages[-1].name)
    level.checked = len(stages) - 1
    if not last.is_wrong:
        return want, noise, None
    good, bad, difference = 0, len(stages) - 1, last
    while bad - good > 1:
        middle = (good + bad) // 2
        step(f"after {stages[middle].name}")
        found = _difference(stages[middle], inputs, want, tolerance, noise)
        good, bad, difference = (good, middle, found) if found.is_wrong else (middle, bad, difference)
    fault = Fault("graph", difference, pass_name=stages[bad].name)
    fault.before, fault.after = stages[good].module, stages[bad].module
    fault.parameters = dict(stages[good].parameters)
    fault.inputs = {f"input{index}": array for index, array in enumerate(stages[good].inputs(inputs))}
    fault.expected = {f"output{index}": array for index, array in enumerate(want)}
    step(f"the rewrites of {stages[bad].name}")
    _find_pattern(fault, stages[good], stages[bad], lambda stage: _difference(stage, inputs, want, tolerance, noise))
    return want, noise, fault


def _difference(
    stage: Stage,
    inputs: Sequence[np.ndarray],
    want: Sequence[np.ndarray],
    tolerance: Tolerance,
    noise: Sequence[np.ndarray] | None,
) -> Difference:
    try:
        got = stage.outputs(inputs)
    except EvaluationError as error:
        return Difference(np.inf, np.inf, reason=f"it cannot be evaluated: {error}")
    if len(got) != len(want):
        return Difference(np.inf, np.inf, reason=f"{quantity(len(got), 'output')}, expected {len(want)}")
    noises = noise or [None] * len(want)
    return worst([compare(mine, theirs, tolerance, size) for mine, theirs, size in zip(got, want, noises, strict=True)])


def _find_pattern(fault: Fault, before: Stage, after: Stage, difference: Callable[[Stage], Difference]) -> None:
    """Records in a fault which rewrite of the pass causes it, if the pass consists of rewrites."""
    if after.step is None:
        return

    def rewritten(most: int) -> tuple[Stage, list[tuple[str, ir.Location]]]:
        module = before.module.clone()
        state = state_for(after.target, parameters=dict(before.parameters), limit=(limit := RewriteLimit(most)))
        Pipeline((after.step,) if after.step else ()).run(module, verify=False, state=state)
        return replace(after, module=module, parameters=state.parameters or {}), limit.done

    total = len(rewritten(1 << 60)[1])
    good, bad = 0, total
    if not total or difference(rewritten(0)[0]).is_wrong:
        _find_op(fault, before, after)
        return
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if difference(rewritten(middle)[0]).is_wrong else (middle, bad)
    fault.pattern, location = rewritten(bad)[1][-1]
    fault.nodes = tuple(names_in(location))
    fault.note = f"rewrite {bad} of {total} in the pass"


# Elements that are kept of each value, so that the values of all ops fit into memory: a choice.
_SAMPLE = 1 << 16


def _find_op(fault: Fault, before: Stage, after: Stage) -> None:
    """Records in a fault the first op with values that no op from the same node had before the pass."""
    given = list(fault.inputs.values())
    known: dict[tuple[str, str], list[np.ndarray]] = {}
    found: list[ir.Operation] = []
    tolerance = Tolerance()

    def key(operation: ir.Operation) -> tuple[str, str]:
        return ",".join(names_in(operation.location)), str(operation.results[0].type)

    def remember(operation, operands, compute):
        results = compute()
        if operation.name.startswith("stepwell."):
            known.setdefault(key(operation), []).append(_sample(results[0]))
        return results

    def look(operation, operands, compute):
        results = compute()
        if operation.name.startswith("stepwell.") and not found and key(operation) in known:
            sample = _sample(results[0])
            if all(compare(sample, array, tolerance).is_wrong for array in known[key(operation)]):
                found.append(operation)
        return results

    for stage, around in ((before, remember), (after, look)):
        module = stage.module.clone()
        try:
            interpreter.evaluate(module, "main", given, evaluate_init(module, stage.parameters), around=around)
        except EvaluationError as error:
            fault.nodes = tuple(names_in(error.location)) if error.location else ()
            return
    if found:
        fault.nodes, fault.op_type = tuple(names_in(found[0].location)), found[0].name


def _sample(array: np.ndarray) -> np.ndarray:
    flat = np.asarray(array).reshape(-1)
    return flat[:: max(1, flat.size // _SAMPLE)].copy()

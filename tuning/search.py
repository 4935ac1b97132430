"""The search of one model on this machine: decisions on its graph first, then the schedules of the kernels it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..driver.setup import Setup
from ..driver.sources.source import Importable
from ..runtime.program import Shape
from ..targets.registry import is_cpu
from .choices import tuning_of
from .database import Database
from .estimates import EstimatedTrials
from .graph.model import graph_model
from .graph.trials import GraphTrials
from .measurement import TOLERANCE
from .model import tunable_model
from .options import TuningOptions
from .session import SearchProgress, SearchResult, TuningSession


@dataclass(frozen=True)
class ModelSearch:
    """The searches of a model: decisions, then schedules.

    Attributes:
        source: the model.
        shapes: the shape of each input.
        inputs: inputs of the calls that are measured.
        database: keeps the trials.
        options: how to search.
        listener: called with the progress.
        profile: seconds of each kernel in real calls, by its name; None to measure them.
    """

    source: Importable
    shapes: Mapping[str, Shape]
    inputs: Sequence[np.ndarray]
    database: Database
    options: TuningOptions
    listener: Callable[[SearchProgress], None] = lambda progress: None
    profile: Mapping[str, float] | None = None

    def graph(self, setup: Setup) -> SearchResult | None:
        """Searches for decisions; None if the options or the graph leave nothing to decide.

        Raises:
            TuningError: the model cannot be compiled or run with default decisions.
        """
        options = self.options.for_graph()
        if options is None or not is_cpu(setup.target):  # decisions on a graph are measured
            return None
        model = graph_model(self.source, self.shapes, setup, {}, may_round=options.error is not None)
        if not model.space.axes:
            return None
        error = TOLERANCE if options.error is None else options.error
        trials = GraphTrials(model, self.inputs, options.threads, options.turns, error)
        session = (model.as_kernel, self.inputs, self.database, options, self.listener)
        return TuningSession(*session, trials=trials).run()

    def run(self, setup: Setup) -> tuple[SearchResult | None, SearchResult | None]:
        """Searches for decisions, then for schedules; None for a search that was not made.

        Args:
            setup: the target, the options and a cache for the code of candidates.

        Raises:
            TuningError: the model cannot be compiled or run.
        """
        graph, options = self.graph(setup), self.options
        if graph is not None:
            setup = setup.changed(tuning=tuning_of(graph.winners.values(), {}))
            options = options.for_kernels(graph.seconds, graph.trials)
            if graph.is_interrupted:
                return graph, None
        with tunable_model(self.source, self.shapes, setup, {}) as model:
            searched = (model, self.inputs, self.database, options, self.listener, self.profile)
            trials = None if is_cpu(setup.target) else EstimatedTrials(model)
            return graph, TuningSession(*searched, trials=trials).run()

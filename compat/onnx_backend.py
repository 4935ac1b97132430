"""ONNX's backend interface, as `onnx.backend.base` declares it, implemented by Stepwell.

    from stepwell.frontend.onnx import backend

    outputs = backend.prepare(model).run([x])

Tools that take backends take this module, for example `onnx.backend.test.BackendTest(backend, __name__)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from ..support.errors import OptionError

if TYPE_CHECKING:
    from ..driver.options import Options
    from ..runtime.executable import Executable


class StepwellBackendRep(BackendRep):
    """A compiled model.

    Attributes:
        executable: the model in Stepwell's own interface.
    """

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self._outputs = namedtupledict("Outputs", [info.name for info in executable.outputs])

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model.

        Args:
            inputs: the model's inputs, in its order or by name; for a model with one input also the array itself.
            kwargs: settings of other backends, ignored.

        Returns:
            The outputs, accessible by index, by name and as attributes.

        Raises:
            InputError: the inputs do not match the model's inputs.
        """
        if isinstance(inputs, Mapping):
            outputs = self.executable(**inputs)
        elif isinstance(inputs, Sequence):
            outputs = self.executable(*inputs)
        else:
            outputs = self.executable(inputs)
        return self._outputs(*(outputs if len(self.executable.outputs) > 1 else (outputs,)))


class StepwellBackend(Backend):
    """Compiles ONNX models for this machine's CPU."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Returns whether models can run on the device; `prepare` reports what a model needs beyond that."""
        return cls.supports_device(device)

    @classmethod
    def prepare(
        cls,
        model: onnx.ModelProto,
        device: str = "CPU",
        *,
        threads: int | None = None,
        options: Options | None = None,
        **kwargs: Any,
    ) -> StepwellBackendRep:
        """Compiles a model.

        Args:
            model: the model.
            device: "CPU".
            threads: number of threads of a run; by default one for each core.
            options: compile options.
            kwargs: settings of other backends, ignored.

        Raises:
            OptionError: there is no such device.
            ModelError: the model is damaged or cannot be compiled; the message names the node.
        """
        # The only import of the compiler in the frontend: tools expect a backend beside its models' formats.
        from ..driver.api import compile

        if not cls.supports_device(device):
            raise OptionError(f"models run on the CPU only, not on '{device}'")
        return StepwellBackendRep(compile(model, threads=threads, options=options))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node.

        Args:
            node: the node.
            inputs: its inputs: arrays, lists of them for sequences, None for omitted ones.
            device: "CPU".
            outputs_info: element type and shape of each output; by default as inferred by ONNX.
            kwargs: `opset_version`, and settings of other backends, ignored.

        Raises:
            ModelError: the node is invalid, or Stepwell cannot compile it.
        """
        values = dict(zip(node.input, inputs, strict=False))
        values = {name: value for name, value in values.items() if name and value is not None}
        model = _model_of(node, values, outputs_info, kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        return cls.prepare(model, device, **kwargs).run(values)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Returns whether models can run on a device: "CPU" or "CPU:0"."""
        return device.partition(":")[0] == "CPU" and Device(device).type == DeviceType.CPU


def _model_of(
    node: onnx.NodeProto,
    values: Mapping[str, Any],
    outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None,
    opset: int,
) -> onnx.ModelProto:
    """Returns a model of one node, for inputs with the types of these."""
    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    del alone.input[:]
    alone.input.extend(name if name in values else "" for name in node.input)
    inputs = [helper.make_value_info(name, _type_of(value)) for name, value in values.items()]
    if outputs_info is None:
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    else:
        types = [helper.make_tensor_type_proto(_element_type(dtype), shape) for dtype, shape in outputs_info]
        outputs = [helper.make_value_info(name, kind) for name, kind in zip(node.output, types, strict=False) if name]
    imported = [helper.make_opsetid("", opset)]
    if node.domain not in ("", "ai.onnx"):
        known = onnx.defs.has(node.op_type, node.domain)
        version = onnx.defs.get_schema(node.op_type, node.domain).since_version if known else 1
        imported.append(helper.make_opsetid(node.domain, version))
    graph = helper.make_graph([alone], node.name or node.op_type, inputs, outputs)
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imported))


def _type_of(value: Any) -> onnx.TypeProto:
    if isinstance(value, list):
        element = _type_of(value[0]) if value else helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        return helper.make_sequence_type_proto(element)
    array = np.asarray(value)
    return helper.make_tensor_type_proto(_element_type(array.dtype), array.shape)


def _element_type(dtype: np.dtype) -> int:
    kind = np.dtype(dtype)
    return onnx.TensorProto.STRING if kind.kind in "OSU" else helper.np_dtype_to_tensor_dtype(kind)


is_compatible = StepwellBackend.is_compatible
prepare = StepwellBackend.prepare
run_model = StepwellBackend.run_model
run_node = StepwellBackend.run_node
supports_device = StepwellBackend.supports_device

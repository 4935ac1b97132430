"""The part of `cuda.bindings.driver` that the runtime uses, on simulated memory."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from stepwell.runtime.cuda.errors import PtxError
from stepwell.runtime.launch_plan import BufferSlice, TensorMap
from stepwell.targets.nvidia.simulator.batch import GridGeometry
from stepwell.targets.nvidia.simulator.memory import GlobalMemory
from stepwell.targets.nvidia.simulator.simulate import SimulatedModule
from stepwell.targets.nvidia.simulator.tensor_maps import encode

OK = SimpleNamespace(name="CUDA_SUCCESS")


class _Names:
    """An enumeration whose members are their own names."""

    def __getattr__(self, name: str) -> str:
        return name


class FakeDriver:
    """A driver with one device of `capacity` bytes.

    Attributes:
        calls: names of the functions called so far.
    """

    CUresult = SimpleNamespace(CUDA_SUCCESS=OK)
    CUdevice_attribute = CUstream_flags = CUevent_flags = CUfunction_attribute = CUjit_option = _Names()
    CUstreamCaptureMode = CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = _Names()
    CUmemorytype = CUtensorMapL2promotion = CUtensorMapFloatOOBfill = CUlaunchAttributeID = _Names()
    cuuint32_t = cuuint64_t = CUstream = int

    def __init__(self, capacity: int = 1 << 24) -> None:
        self.calls: list[str] = []
        self.memory = GlobalMemory()
        self._capacity, self._sizes = capacity, {}
        self._handles = itertools.count(16)
        self._recording: list[Callable[[], object]] | None = None
        self._clock = 0.0

    def CUlaunchConfig(self) -> SimpleNamespace:
        return SimpleNamespace()

    def CUlaunchAttribute(self) -> SimpleNamespace:
        return SimpleNamespace()

    def CUlaunchAttributeValue(self) -> SimpleNamespace:
        return SimpleNamespace(clusterDim=SimpleNamespace())

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("cu") and not name.startswith("cuuint"):
            self.calls.append(name)
        return super().__getattribute__(name)

    def _do(self, act: Callable[[], object]) -> tuple:
        act() if self._recording is None else self._recording.append(act)
        return (OK,)

    def cuDeviceGetCount(self) -> tuple:
        return OK, 1

    def cuDeviceGet(self, number: int) -> tuple:
        return OK, number

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple:
        return OK, "context"

    def cuDeviceGetName(self, length: int, device: int) -> tuple:
        return OK, b"Fake\0\0"

    def cuDeviceGetAttribute(self, kind: str, device: int) -> tuple:
        return OK, {"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 9}.get(kind, 0)

    def cuCtxSetCurrent(self, context: str) -> tuple:
        return (OK,)

    def cuStreamCreate(self, flags: str) -> tuple:
        return OK, next(self._handles)

    def cuStreamSynchronize(self, stream: int) -> tuple:
        assert self._recording is None
        return (OK,)

    def cuMemAlloc(self, nbytes: int) -> tuple:
        if sum(self._sizes.values()) + nbytes > self._capacity:
            return SimpleNamespace(name="CUDA_ERROR_OUT_OF_MEMORY"), None
        address = self.memory.allocate(nbytes)
        self._sizes[address] = nbytes
        return OK, address

    def cuMemGetInfo(self) -> tuple:
        return OK, self._capacity - sum(self._sizes.values()), self._capacity

    def cuMemFree(self, address: int) -> tuple:
        del self._sizes[address]
        self.memory.free(address)
        return (OK,)

    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> tuple:
        return self._do(lambda: self.memory.write(target, ctypes.string_at(source, nbytes)))

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> tuple:
        return self._do(lambda: ctypes.memmove(target, self.memory.read(source, nbytes).tobytes(), nbytes))

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> tuple:
        return self._do(lambda: self.memory.write(target, self.memory.read(source, nbytes)))

    def CUDA_MEMCPY3D(self) -> SimpleNamespace:
        return SimpleNamespace()

    def cuMemcpy3DAsync(self, what: SimpleNamespace, stream: int) -> tuple:
        assert what.srcPitch >= what.WidthInBytes and what.srcHeight >= what.Height
        assert what.dstPitch >= what.WidthInBytes and what.dstHeight >= what.Height
        for plane, row in itertools.product(range(what.Depth), range(what.Height)):
            source = what.srcDevice + what.srcPitch * (row + what.srcHeight * plane)
            target = what.dstDevice + what.dstPitch * (row + what.dstHeight * plane)
            self.cuMemcpyDtoDAsync(target, source, what.WidthInBytes, stream)
        return (OK,)

    def cuMemsetD8Async(self, address: int, value: int, nbytes: int, stream: int) -> tuple:
        return self._do(lambda: self.memory.write(address, np.full(nbytes, value, np.uint8)))

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: list, values: list) -> tuple:
        assert image.endswith(b"\0") and count == len(options) == len(values)
        try:
            return OK, SimulatedModule(image.rstrip(b"\0").decode(), self.memory)
        except PtxError as error:
            values[0][: len(str(error))] = str(error).encode()
            return SimpleNamespace(name="CUDA_ERROR_INVALID_PTX"), None

    def cuModuleGetFunction(self, module: SimulatedModule, name: bytes) -> tuple:
        if name.decode() not in module.module.entries:
            return SimpleNamespace(name="CUDA_ERROR_NOT_FOUND"), None
        return OK, (module, name.decode())

    def cuFuncSetAttribute(self, function: tuple, kind: str, value: int) -> tuple:
        return (OK,)

    def cuLaunchKernelEx(self, config: SimpleNamespace, function: tuple, pointers: int, extra: int) -> tuple:
        module, entry = function
        parameters = module.module.entries[entry].parameters
        table = (ctypes.c_void_p * len(parameters)).from_address(pointers)
        given = [ctypes.string_at(table[place], item.bytes) for place, item in enumerate(parameters)]
        grid = config.gridDimX, config.gridDimY, config.gridDimZ
        block = config.blockDimX, config.blockDimY, config.blockDimZ
        cluster = (1, 1, 1)
        if config.numAttrs:
            dims = config.attrs[0].value.clusterDim
            cluster = dims.x, dims.y, dims.z
        geometry = GridGeometry(grid, block, cluster, config.sharedMemBytes)
        return self._do(lambda: module.launch(entry, geometry, given))

    def cuTensorMapEncodeTiled(self, element: str, rank: int, address: int, *rest: Any) -> tuple:
        sizes, strides, box, steps, _, swizzle, _, fill = rest
        span = swizzle.removeprefix("CU_TENSOR_MAP_SWIZZLE_").removesuffix("B")
        kind = element.removeprefix("CU_TENSOR_MAP_DATA_TYPE_").lower()
        pattern = 0 if span == "NONE" else int(span)
        tensor = TensorMap(
            kind, tuple(sizes), tuple(strides), tuple(box), pattern,
            "nan" if "NAN" in fill else "zero", steps=tuple(steps), buffer=BufferSlice("input", 0, 0, 0),
        )  # fmt: skip
        holder = ctypes.create_string_buffer(encode(tensor, address), 128)
        return OK, SimpleNamespace(getPtr=lambda: ctypes.addressof(holder))

    def cuStreamBeginCapture(self, stream: int, mode: str) -> tuple:
        self._recording = []
        return (OK,)

    def cuStreamEndCapture(self, stream: int) -> tuple:
        graph, self._recording = self._recording, None
        return OK, graph

    def cuGraphInstantiate(self, graph: list, flags: int) -> tuple:
        return OK, list(graph)

    def cuGraphDestroy(self, graph: list) -> tuple:
        return (OK,)

    def cuGraphLaunch(self, graph: list, stream: int) -> tuple:
        for act in graph:
            act()
        return (OK,)

    def cuEventCreate(self, flags: str) -> tuple:
        return OK, SimpleNamespace(at=0.0)

    def cuEventRecord(self, event: SimpleNamespace, stream: int) -> tuple:
        self._clock += 1
        event.at = self._clock
        return (OK,)

    def cuStreamWaitEvent(self, stream: int, event: SimpleNamespace, flags: int) -> tuple:
        return (OK,)

    def cuEventElapsedTime(self, start: SimpleNamespace, end: SimpleNamespace) -> tuple:
        return OK, end.at - start.at

    def cuEventDestroy(self, event: SimpleNamespace) -> tuple:
        return (OK,)

"""An NVIDIA GPU, through the driver API of the package cuda-bindings."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..launch_plan import Launch, TensorMap
from .boxes import BoxCopy
from .device import KernelArguments, KernelLauncher, StreamId, ptx_of
from .errors import DeviceError, DeviceMemoryError

_DEFAULT_DYNAMIC_BYTES = 48 * 1024
"""Shared memory of a block beyond which a kernel must ask for it (CUDA C++ Programming Guide, "Shared Memory")."""
_LOG_BYTES = 8192
"""Room for the assembler's messages: a choice; the driver cuts longer ones."""
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
_PROMOTIONS = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}
_REASONS = {
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the driver is older than the PTX: update it, or compile where ptxas is "
    "installed, so that the artefact holds machine code",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the code is for another architecture",
    "CUDA_ERROR_INVALID_PTX": "the driver's compiler rejects the PTX",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the kernel needs more registers or shared memory than a block can have",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel accessed memory outside its buffers",
}


def bindings() -> Any:
    """Returns the module `cuda.bindings.driver`, initialised.

    Raises:
        DeviceError: it is not installed, or there is no driver or no device.
    """
    try:
        from cuda.bindings import driver  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise DeviceError("the package cuda-bindings is not installed (pip install 'cuda-bindings>=13,<14')") from error
    try:
        _checked(driver, driver.cuInit(0), "start")
    except RuntimeError as error:  # the driver's library is missing
        raise DeviceError(f"there is no NVIDIA driver: {error}") from error
    return driver


@functools.cache
def device(number: int = 0) -> CudaDevice:
    """Returns a device of this machine, always the same object for the same number.

    Raises:
        DeviceError: there is no such device.
    """
    return CudaDevice(bindings(), number)


def _checked(driver: Any, results: tuple, doing: str) -> Any:
    """Returns the results of a driver call without its status.

    Raises:
        DeviceMemoryError: the device is out of memory.
        DeviceError: the call failed for another reason.
    """
    status, *values = results
    if status == driver.CUresult.CUDA_SUCCESS:
        return values[0] if len(values) == 1 else tuple(values)
    name = status.name
    if name == "CUDA_ERROR_OUT_OF_MEMORY":
        raise DeviceMemoryError(f"the device has no memory left to {doing}")
    reason = f": {_REASONS[name]}" if name in _REASONS else ""
    raise DeviceError(f"the driver cannot {doing} ({name}{reason})")


class CudaDevice:
    """One GPU, with its primary context, which other libraries in the process share."""

    def __init__(self, driver: Any, number: int = 0) -> None:
        """Opens a device.

        Args:
            driver: the initialised module `cuda.bindings.driver`.
            number: index of the device.

        Raises:
            DeviceError: there is no such device.
        """
        self._driver, self.number = driver, number
        count = self._do("count devices", driver.cuDeviceGetCount())
        if number >= count:
            raise DeviceError(f"there is no device {number}: the driver sees {count}")
        self._device = self._do("take the device", driver.cuDeviceGet(number))
        self._context = self._do("open the device", driver.cuDevicePrimaryCtxRetain(self._device))
        self._modules: dict[bytes, Any] = {}
        self._lock = threading.Lock()

    def describe(self) -> str:
        name = self._do("name the device", self._driver.cuDeviceGetName(128, self._device))
        text = name.split(b"\0", 1)[0].decode() if isinstance(name, bytes) else str(name)
        return f"{text} (sm_{self.capability})"

    @functools.cached_property
    def capability(self) -> int:
        """The compute capability, 90 for 9.0."""
        kinds = self._driver.CUdevice_attribute
        major, minor = (
            self._do("ask the device", self._driver.cuDeviceGetAttribute(kind, self._device))
            for kind in (
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        return 10 * int(major) + int(minor)

    def new_stream(self) -> StreamId:
        flags = self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        return int(self._call("make a stream", "cuStreamCreate", flags))

    def allocate(self, nbytes: int) -> int:
        try:
            return int(self._call(f"hold {nbytes} bytes", "cuMemAlloc", nbytes))
        except DeviceMemoryError:
            free, total = self._call("ask for memory", "cuMemGetInfo")
            raise DeviceMemoryError(
                f"{nbytes / 2**20:.0f} MiB of contiguous device memory are needed, but of "
                f"{int(total) / 2**20:.0f} MiB only {int(free) / 2**20:.0f} are free"
            ) from None

    def free(self, address: int) -> None:
        self._call("free memory", "cuMemFree", address)

    def discard(self, address: int, nbytes: int, *, padding: bool = False) -> None:
        pass  # a device does not track undefined bytes

    def write(self, address: int, array: np.ndarray, stream: StreamId) -> None:
        if array.nbytes:
            # For memory that is not pinned, the driver has copied the bytes when the call returns.
            self._call("copy to the device", "cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, stream)

    def read(self, address: int, array: np.ndarray, stream: StreamId) -> None:
        if array.nbytes:
            self._call("copy from the device", "cuMemcpyDtoHAsync", array.ctypes.data, address, array.nbytes, stream)

    def copy(self, target: int, source: int, nbytes: int, stream: StreamId) -> None:
        if nbytes:
            self._call("copy on the device", "cuMemcpyDtoDAsync", target, source, nbytes, stream)

    def copy_box(self, target: int, source: int, box: BoxCopy, stream: StreamId) -> None:
        driver = self._driver
        what = driver.CUDA_MEMCPY3D()
        what.srcMemoryType = what.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        what.srcDevice, what.dstDevice = source + box.source.offset, target + box.target.offset
        what.srcPitch, what.dstPitch = box.source.pitch, box.target.pitch
        what.srcHeight, what.dstHeight = box.source.rows, box.target.rows
        what.WidthInBytes, what.Height, what.Depth = box.width, box.height, box.depth
        self._call("copy on the device", "cuMemcpy3DAsync", what, stream)

    def fill(self, address: int, nbytes: int, value: int, stream: StreamId) -> None:
        if nbytes:
            self._call("fill memory", "cuMemsetD8Async", address, value, nbytes, stream)

    def prepare(self, launch: Launch, objects: Mapping[str, bytes]) -> KernelLauncher:
        function = self._function(launch, objects)
        config, doing = self._config(launch), f"launch {launch.entry}"

        def run(arguments: KernelArguments, stream: StreamId) -> None:
            holders = [ctypes.create_string_buffer(argument, len(argument)) for argument in arguments]
            pointers = (ctypes.c_void_p * len(holders))(*(ctypes.addressof(holder) for holder in holders))
            with self._lock:
                config.hStream = self._driver.CUstream(stream)
                self._call(doing, "cuLaunchKernelEx", config, function, ctypes.addressof(pointers), 0)

        return run

    def tensor_map(self, tensor: TensorMap, address: int) -> bytes:
        driver, rank = self._driver, len(tensor.sizes)
        long, short = driver.cuuint64_t, driver.cuuint32_t
        descriptor = self._call(
            "describe a tensor to the copy engine",
            "cuTensorMapEncodeTiled",
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{tensor.element.upper()}"),
            rank,
            address,
            [long(size) for size in tensor.sizes],
            [long(stride) for stride in tensor.strides],
            [short(extent) for extent in tensor.box],
            [short(step) for step in tensor.steps or (1,) * rank],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[tensor.swizzle]}"),
            getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{_PROMOTIONS[tensor.promotion]}"),
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
            if tensor.fill == "zero"
            else driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
        )
        return ctypes.string_at(int(descriptor.getPtr()), 128)

    def synchronize(self, stream: StreamId) -> None:
        self._call("finish", "cuStreamSynchronize", stream)

    def record(self, run: Callable[[StreamId], None], stream: StreamId) -> Callable[[StreamId], None] | None:
        driver = self._driver
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("record a graph", "cuStreamBeginCapture", stream, mode)
        try:
            run(stream)
        finally:
            graph = self._call("record a graph", "cuStreamEndCapture", stream)
        executable = self._call("make a graph", "cuGraphInstantiate", graph, 0)
        self._call("make a graph", "cuGraphDestroy", graph)
        return lambda stream: self._call("run a graph", "cuGraphLaunch", executable, stream)

    def times(self, runs: Sequence[Callable[[StreamId], None]], stream: StreamId) -> list[float]:
        flags = self._driver.CUevent_flags.CU_EVENT_DEFAULT
        events = [self._call("make an event", "cuEventCreate", flags) for _ in range(len(runs) + 1)]
        self._call("record an event", "cuEventRecord", events[0], stream)
        for run, event in zip(runs, events[1:], strict=True):
            run(stream)
            self._call("record an event", "cuEventRecord", event, stream)
        self.synchronize(stream)
        pairs = pairwise(events)
        seconds = [self._call("read a clock", "cuEventElapsedTime", *pair) / 1e3 for pair in pairs]
        for event in events:
            self._call("free an event", "cuEventDestroy", event)
        return seconds

    def hand_over(self, stream: StreamId, consumer: StreamId) -> None:
        """Makes later work on the stream `consumer` wait for the work enqueued on `stream` so far."""
        flags = self._driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        event = self._call("make an event", "cuEventCreate", flags)
        self._call("record an event", "cuEventRecord", event, stream)
        self._call("wait for an event", "cuStreamWaitEvent", consumer, event, 0)
        self._call("free an event", "cuEventDestroy", event)

    def _function(self, launch: Launch, objects: Mapping[str, bytes]) -> Any:
        image = objects.get(f"{launch.module}.cubin")
        if image is None:
            image = ptx_of(launch, objects).rstrip(b"\0") + b"\0"
        with self._lock:
            module = self._modules.get(image)
            if module is None:
                module = self._modules[image] = self._load(image, launch.module)
        name = launch.entry.encode()
        function = self._call(f"find the kernel {launch.entry}", "cuModuleGetFunction", module, name)
        kinds = self._driver.CUfunction_attribute
        if launch.shared_bytes > _DEFAULT_DYNAMIC_BYTES:
            kind = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            doing = f"give {launch.entry} its {launch.shared_bytes} bytes of shared memory"
            self._call(doing, "cuFuncSetAttribute", function, kind, launch.shared_bytes)
        if np.prod(launch.cluster) > 8:
            kind = kinds.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            self._call("allow a large cluster", "cuFuncSetAttribute", function, kind, 1)
        return function

    def _load(self, image: bytes, name: str) -> Any:
        options = self._driver.CUjit_option
        log = bytearray(_LOG_BYTES)
        try:
            return self._call(
                f"load {name}",
                "cuModuleLoadDataEx",
                image,
                2,
                [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
                [log, _LOG_BYTES],
            )
        except DeviceMemoryError:
            raise
        except DeviceError as error:
            log_text = bytes(log).split(b"\0", 1)[0].decode(errors="replace").strip()
            raise DeviceError(f"{self.describe()}: {error}{': ' if log_text else ''}{log_text}") from None

    def _config(self, launch: Launch) -> Any:
        driver = self._driver
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
        config.sharedMemBytes = launch.shared_bytes
        if launch.cluster == (1, 1, 1):
            config.numAttrs = 0
            return config
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        value = driver.CUlaunchAttributeValue()
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = launch.cluster
        attribute.value = value
        config.attrs, config.numAttrs = [attribute], 1
        return config

    def _call(self, doing: str, name: str, *arguments: Any) -> Any:
        """Calls the driver with the device's context current, since other libraries may have set another one."""
        self._do("use the device", self._driver.cuCtxSetCurrent(self._context))
        return self._do(doing, getattr(self._driver, name)(*arguments))

    def _do(self, doing: str, results: tuple) -> Any:
        return _checked(self._driver, results, doing)

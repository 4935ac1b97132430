"""Devices, their memory and their allocators, as programs name them; all of them mean the CPU."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

PROVIDER = "CPUExecutionProvider"

_TYPES = {"cpu": 0, "cuda": 1, "gpu": 1, "cann": 3, "npu": 3, "dml": 4, "webgpu": 5}


class OrtDeviceVendorId(enum.IntEnum):
    """The vendor of a device."""

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtAllocatorType(enum.IntEnum):
    """The kind of a memory allocator; here the compiler plans memory."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    """The purpose of memory."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(enum.IntEnum):
    """The accessibility of a device's memory."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtHardwareDeviceType(enum.IntEnum):
    """The kind of a hardware device."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtDevice:
    """A device: a kind, a kind of memory, and a number."""

    def __init__(self, device_type: int, memory_type: int = 0, device_id: int = 0, vendor_id: int = 0) -> None:
        self._type, self._memory, self._id, self._vendor = device_type, memory_type, device_id, vendor_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """Returns a device, given its name.

        Raises:
            Exception: there is no such kind of device; of this class, as in ONNX Runtime.
        """
        return OrtDevice(get_ort_device_type(ort_device_name), 0, device_id, max(vendor_id, 0))

    @staticmethod
    def cpu() -> int:
        """Returns the number of this kind of device."""
        return _TYPES["cpu"]

    @staticmethod
    def cuda() -> int:
        """Returns the number of this kind of device."""
        return _TYPES["cuda"]

    @staticmethod
    def default_memory() -> int:
        """Returns the number of the default kind of memory."""
        return 0

    def device_type(self) -> int:
        """Returns the number of the kind of device."""
        return self._type

    def device_mem_type(self) -> int:
        """Returns the number of the kind of memory."""
        return self._memory

    def device_id(self) -> int:
        """Returns the device's number among those of its kind."""
        return self._id

    def device_vendor_id(self) -> int:
        """Returns the number of the vendor."""
        return self._vendor

    def _get_c_device(self) -> OrtDevice:
        return self


def get_ort_device_type(device_type: str) -> int:
    """Returns the number of a kind of device.

    Raises:
        Exception: there is no such kind of device; of this class, as in ONNX Runtime.
    """
    if device_type not in _TYPES:
        raise Exception(f"Unsupported device type: {device_type}")
    return _TYPES[device_type]


def check_device(device: str | OrtDevice) -> None:
    """Checks that a device is the CPU.

    Raises:
        RuntimeError: it is not.
    """
    kind = device.device_type() if isinstance(device, OrtDevice) else get_ort_device_type(device)
    if kind != OrtDevice.cpu():
        name = next(name for name, number in _TYPES.items() if number == kind) if kind in _TYPES.values() else kind
        raise RuntimeError(f"Can't allocate memory on the device: there is no device '{name}' here, only 'cpu'")


@dataclass(frozen=True)
class OrtMemoryInfo:
    """A kind of memory, identified by the name of its allocator."""

    name: str
    allocator_type: int = OrtAllocatorType.ORT_ARENA_ALLOCATOR
    device_id: int = 0
    mem_type: int = OrtMemType.DEFAULT


class OrtArenaCfg:
    """Settings of an arena's growth, ignored here: the compiler plans all memory."""

    def __init__(self, *settings: Any, **named: Any) -> None:
        self.settings = {**(settings[0] if settings and isinstance(settings[0], dict) else {}), **named}


@dataclass(frozen=True)
class OrtHardwareDevice:
    """A hardware device of the machine."""

    type: OrtHardwareDeviceType = OrtHardwareDeviceType.CPU
    vendor_id: int = 0
    vendor: str = ""
    device_id: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OrtEpDevice:
    """A device together with its execution provider."""

    ep_name: str = PROVIDER
    ep_vendor: str = "Stepwell"
    ep_metadata: dict[str, str] = field(default_factory=dict)
    ep_options: dict[str, str] = field(default_factory=dict)
    device: OrtHardwareDevice = field(default_factory=OrtHardwareDevice)


CPU_MEMORY = OrtMemoryInfo("Cpu")


def get_ep_devices() -> list[OrtEpDevice]:
    """Returns the available devices: the CPU."""
    return [OrtEpDevice()]


def create_and_register_allocator(memory_info: OrtMemoryInfo, config: OrtArenaCfg | None = None) -> None:
    """Accepts the request without effect: memory is planned when a model is compiled."""


def create_and_register_allocator_v2(
    provider: str, memory_info: OrtMemoryInfo, options: dict[str, str], config: OrtArenaCfg | None = None
) -> None:
    """Accepts the request without effect: memory is planned when a model is compiled."""

"""Programs on a device: on a fake of the driver's API, and on the simulator."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from stepwell.runtime.cuda import devices
from stepwell.runtime.cuda.device import Device
from stepwell.runtime.cuda.dlpack import DeviceArray, adopt, on_device
from stepwell.runtime.cuda.driver import CudaDevice
from stepwell.runtime.cuda.errors import DeviceError, DeviceMemoryError, SimulationError
from stepwell.runtime.cuda.executor import DeviceProgram
from stepwell.runtime.launch_plan import BufferSlice, DeviceCopy, Fill, Launch, LaunchPlan, Scalar, TensorMap
from stepwell.runtime.program import CodeTarget, Program, TensorInfo
from stepwell.sizes.bounds import Bounds
from stepwell.sizes.ranges import Range
from stepwell.support.errors import InputError
from stepwell.targets.nvidia.simulator.device import SimulatedDevice

from ...targets.nvidia.simulator.conftest import kernel
from .fake_driver import FakeDriver

F32 = np.dtype(np.float32)
BYTES = 64 * 4
ADD = kernel(
    """mad.wide.u32 %rd0, %r0, 4, %rd0; mad.wide.u32 %rd1, %r0, 4, %rd1; mad.wide.u32 %rd2, %r0, 4, %rd2;
    ld.global.f32 %f0, [%rd0]; ld.global.f32 %f1, [%rd1]; add.f32 %f0, %f0, %f1; st.global.f32 [%rd2], %f0;""",
    3,
).replace("entry k", "entry add")
SCALE = """.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 128 .b8 tile[];
.visible .entry scale(.param .align 64 .b8 map[128], .param .f32 factor, .param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; @!%p0 bra READY;
mbarrier.init.shared::cta.b64 [tile+256], 1; fence.mbarrier_init.release.cluster;
READY: bar.sync 0; @!%p0 bra WAIT; mov.u64 %rd0, map; mov.u32 %r1, 0; mov.u32 %r2, tile; add.u32 %r3, %r2, 256;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;
cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0, {%r1}], [%r3];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [tile+256], 0; @!%p1 bra WAIT;
mov.u32 %r2, tile; mad.lo.u32 %r2, %r0, 4, %r2; ld.shared.f32 %f0, [%r2]; ld.param.f32 %f1, [factor];
mul.f32 %f0, %f0, %f1; ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r0, 4, %rd1; st.global.f32 [%rd1], %f0;
ret;
}
"""


def part(space: str, index: int = 0, offset: int = 0) -> BufferSlice:
    return BufferSlice(space, index, offset, BYTES)


def program(objects: Mapping[str, str] | None = None) -> Program:
    """A program that returns 3 (a + b), where b is a parameter, and a itself padded with zeros."""
    box = TensorMap("float32", (64,), (), (64,), buffer=part("arena"))
    steps = (
        Launch(
            (1, 1, 1),
            (64, 1, 1),
            module="add",
            entry="add",
            arguments=(part("input"), part("parameter"), part("arena")),
        ),
        Launch(
            (1, 1, 1),
            (64, 1, 1),
            shared_bytes=264,
            module="scale",
            entry="scale",
            arguments=(box, Scalar("float32", 3.0), part("output")),
        ),
        DeviceCopy(part("input"), part("output", 1)),
        Fill(part("output", 1, BYTES)),
    )
    texts = {"add.ptx": ADD, "scale.ptx": SCALE, **(objects or {})}
    return Program(
        inputs=(TensorInfo("a", F32, (64,)),),
        outputs=(TensorInfo("sum", F32, (64,)), TensorInfo("padded", F32, (2, 64))),
        parameters={"b": np.arange(64, dtype=np.float32)},
        arena_bytes=BYTES,
        target=CodeTarget("nvptx64-nvidia-cuda", "sm_90a", device="cuda"),
        objects={name: text.encode() for name, text in texts.items()},
        launches=LaunchPlan(steps, BYTES),
    )


def outputs() -> list[np.ndarray]:
    return [np.empty(64, F32), np.empty((2, 64), F32)]


def check(results: list[np.ndarray], a: np.ndarray) -> None:
    np.testing.assert_array_equal(results[0], 3 * (a + np.arange(64, dtype=F32)))
    np.testing.assert_array_equal(results[1], [a, np.zeros(64, F32)])


@pytest.fixture
def fake() -> FakeDriver:
    return FakeDriver()


@pytest.mark.parametrize("kind", ["driver", "simulator"])
def test_a_plan_runs_again_and_again(kind: str, fake: FakeDriver) -> None:
    device: Device = CudaDevice(fake) if kind == "driver" else SimulatedDevice()
    loaded = DeviceProgram(program(), device)
    for call in range(3):
        a, results = np.full(64, call, F32), outputs()
        loaded.run([a], results)
        check(results, a)


def test_repeated_calls_run_as_a_graph(fake: FakeDriver) -> None:
    loaded = DeviceProgram(program(), CudaDevice(fake))
    counts = []
    for _ in range(4):
        fake.calls.clear()
        loaded.run([np.ones(64, F32)], outputs())
        counts.append((fake.calls.count("cuLaunchKernelEx"), fake.calls.count("cuGraphLaunch")))
    assert counts == [(2, 0), (2, 1), (0, 1), (0, 1)]


def test_parameters_are_uploaded_once(fake: FakeDriver) -> None:
    loaded = DeviceProgram(program(), CudaDevice(fake))
    fake.calls.clear()
    loaded.run([np.ones(64, F32)], outputs())
    assert fake.calls.count("cuMemcpyHtoDAsync") == 1
    assert fake.calls.count("cuModuleLoadDataEx") == 0


def test_tensors_on_the_device_are_neither_copied_in_nor_out(fake: FakeDriver) -> None:
    device = CudaDevice(fake)
    loaded = DeviceProgram(program(), device)
    source = device.allocate(BYTES)
    device.write(source, np.full(64, 2, F32), device.new_stream())
    given = DeviceArray(source, (64,), F32, 0, None)
    fake.calls.clear()
    first = loaded.run_on_device([given])
    check([loaded.fetched(array) for array in first], np.full(64, 2, F32))
    assert "cuMemcpyHtoDAsync" not in fake.calls
    second = loaded.run_on_device([given])
    addresses = {array.address for array in (*first, *second)}
    assert len(addresses) == 4
    del first
    again = loaded.run_on_device([given])
    assert {array.address for array in again} < addresses
    check([loaded.fetched(array) for array in again], np.full(64, 2, F32))


def test_tensors_go_to_other_libraries_and_come_back(fake: FakeDriver) -> None:
    device = CudaDevice(fake)
    loaded = DeviceProgram(program(), device)
    source = device.allocate(BYTES)
    device.write(source, np.full(64, 2, F32), device.new_stream())
    result, _ = loaded.run_on_device([DeviceArray(source, (64,), F32, 0, None)])
    assert on_device(result) and not on_device(np.zeros(1))
    taken = adopt(result, "x")
    assert (taken.address, taken.shape, taken.dtype, taken.number) == (result.address, (64,), F32, 0)
    with pytest.raises(InputError, match="cannot be read on the host"):
        np.asarray(result)


def test_an_unused_capsule_releases_its_tensor() -> None:
    from stepwell.runtime.cuda import dlpack

    held = len(dlpack._lent)
    capsule = DeviceArray(4096, (2, 3), F32, 0, None).__dlpack__(stream=-1)
    assert len(dlpack._lent) == held + 1
    del capsule
    assert len(dlpack._lent) == held
    taken = adopt(DeviceArray(4096, (2, 3), np.dtype(np.int64), 0, None), "x")
    assert len(dlpack._lent) == held + 1 and taken.dtype == np.int64
    del taken
    assert len(dlpack._lent) == held


@pytest.mark.parametrize("kind", ["driver", "simulator"])
def test_a_program_for_ranges_takes_and_gives_less(kind: str, fake: FakeDriver) -> None:
    device: Device = CudaDevice(fake) if kind == "driver" else SimulatedDevice()
    ranged = replace(program(), bounds=Bounds({"n": Range(1, 64)}))
    loaded, random = DeviceProgram(ranged, device), np.random.default_rng(0)
    for size in (64, 5, 5, 17, 3, 64):
        a, results = random.random(size, np.float32), [np.empty(size, F32), np.empty((2, size), F32)]
        loaded.run([a], results)
        np.testing.assert_array_equal(results[0], 3 * (a + np.arange(size, dtype=F32)))
        np.testing.assert_array_equal(results[1], [a, np.zeros(size, F32)])
        whole = outputs()
        loaded.run([a], whole)  # the padding around the data is zero
        np.testing.assert_array_equal(whole[1][0], np.pad(a, (0, 64 - size)))


def test_each_step_is_timed(fake: FakeDriver) -> None:
    seconds = DeviceProgram(program(), CudaDevice(fake)).run_timed([np.ones(64, F32)], outputs())
    assert seconds == [0.001] * 4


def test_out_of_memory_errors_name_the_program_s_needs() -> None:
    device = CudaDevice(FakeDriver(capacity=700))
    loaded = DeviceProgram(program(), device)
    with pytest.raises(
        DeviceMemoryError, match=r"only 0 are free.*for the \w+ of a program that needs 0.0 MiB of inputs"
    ):
        loaded.run([np.ones(64, F32)], outputs())


def test_code_that_the_driver_refuses_is_reported_with_its_reason(fake: FakeDriver) -> None:
    broken = program({"scale.ptx": SCALE.replace("ret;", "ret")})
    with pytest.raises(DeviceError, match=r"Fake \(sm_90\): .*load scale \(CUDA_ERROR_INVALID_PTX: .*: PTX line"):
        DeviceProgram(broken, CudaDevice(fake))


def test_a_plan_with_missing_code_is_refused(fake: FakeDriver) -> None:
    complete = program()
    lacking = replace(complete, objects={"add.ptx": complete.objects["add.ptx"]})
    for device in (CudaDevice(fake), SimulatedDevice()):
        with pytest.raises(DeviceError, match="no code for the module 'scale'"):
            DeviceProgram(lacking, device)


def test_a_missing_device_is_reported(fake: FakeDriver) -> None:
    with pytest.raises(DeviceError, match="no device 3: the driver sees 1"):
        CudaDevice(fake, 3)


def test_a_missing_simulator_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    monkeypatch.setitem(sys.modules, SimulatedDevice.__module__, None)
    with pytest.raises(DeviceError, match=r"needs the module 'stepwell\.targets\.nvidia.* is not installed; install"):
        devices.current()


def test_out_of_bounds_accesses_are_reported_by_the_simulator() -> None:
    wild = program({"add.ptx": ADD.replace("[%rd2], %f0", "[%rd2+65536], %f0")})
    with pytest.raises(SimulationError, match=r"add: PTX line \d+: st.global.f32 .*out of bounds"):
        DeviceProgram(wild, SimulatedDevice()).run([np.ones(64, F32)], outputs())


def test_the_bindings_have_all_that_is_called() -> None:
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    missing = [name for name in vars(FakeDriver) if name.startswith(("cu", "CU")) and not hasattr(driver, name)]
    assert not missing

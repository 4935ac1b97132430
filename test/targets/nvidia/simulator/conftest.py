"""Runs single PTX instructions on the simulator."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from stepwell.targets.nvidia.simulator.batch import GridGeometry
from stepwell.targets.nvidia.simulator.harness import simulate

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
Compute = Callable[..., np.ndarray]


def kernel(body: str, parameters: int, directives: str = "", outside: str = "") -> str:
    """A kernel `k` with this many pointers, loaded into %rd0, %rd1, ...; the thread's index is in %r0."""
    listed = ", ".join(f".param .u64 p{place}" for place in range(parameters))
    loads = "".join(f"ld.param.u64 %rd{place}, [p{place}];\n" for place in range(parameters))
    registers = "".join(
        f".reg .{kind} %{name}<64>;\n"
        for kind, name in (("pred", "p"), ("b16", "h"), ("b32", "r"), ("f32", "f"), ("b64", "rd"), ("f64", "fd"))
    )
    return (
        f"{HEAD}{outside}\n.visible .entry k({listed})\n{directives}\n{{\n{registers}{loads}"
        f"mov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n"
    )


@pytest.fixture
def compute() -> Compute:
    """Gives each thread an element of every source, runs instructions on %a, %b, %c, and returns %d of all threads."""

    def run(
        text: str, sources: Sequence[np.ndarray], result: np.dtype | type, threads: int | None = None
    ) -> np.ndarray:
        count = threads or len(sources[0])
        output = np.zeros(count, result)
        names, body = "abcd", ""
        for place, array in enumerate([*sources, output]):
            bits = 8 * array.dtype.itemsize
            body += f".reg .b{bits} %{'d' if place == len(sources) else names[place]};\n"
            body += f"mad.wide.u32 %rd{place}, %r0, {array.dtype.itemsize}, %rd{place};\n"
            if place < len(sources):
                body += f"ld.global.b{bits} %{names[place]}, [%rd{place}];\n"
        body += f"{text}\nst.global.b{8 * output.dtype.itemsize} [%rd{len(sources)}], %d;"
        given = [np.ascontiguousarray(source) for source in sources]
        simulate(
            kernel(body, len(sources) + 1), "k", GridGeometry((1, 1, 1), (count, 1, 1)), [*given, output], [len(given)]
        )
        return output

    return run

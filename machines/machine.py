"""`Machine`: the description of a CPU by which schedules are chosen and reports estimate.

A description has a text, `NAME` or `NAME+field=value+field=value`: the name of one of `families.FAMILIES`, and the
fields that differ from it. Passes take it as an option.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Machine:
    """A CPU, or a level of CPUs, in numbers. Rates and latencies are those of one core unless they say otherwise.

    Attributes:
        name: the name in `families`.
        architecture: first part of LLVM's triple, `x86_64` or `aarch64`.
        is_level: whether it stands for all machines of an instruction-set level. Only the vectors are then its own; the
            other numbers are those of `families.REFERENCE`, and so are all paces.
        cores: number of cores of a usual machine.
        clock: sustained clock in GHz of scalar code.
        wide_clock: sustained clock in GHz of code that multiplies the widest vectors.
        vector_bytes: width of a vector register in bytes.
        vector_registers: number of vector registers.
        vector_units: vector operations of any kind per cycle, of full width.
        fma_units: vector multiply-adds per cycle, of full width.
        fma_latency: cycles from a multiply-add to the next one that adds to the same sum.
        double_rate, half_rate, byte_rate: multiply-adds of float64, of float16, and of bytes summed in 32 bits,
            relative to those of float32.
        loads, stores: vector loads and stores per cycle, of full width.
        line_bytes: size of a cache line.
        page_bytes: size of a page; addresses this far apart share few lines of the first-level cache.
        l1_bytes, l2_bytes, l3_bytes: sizes of the data caches.
        l2_cores, l3_cores: number of cores that share the cache.
        l1_rate, l2_rate, l3_rate: sustained bytes per cycle of reads from the cache.
        memory_rate, memory_total: sustained bytes per nanosecond of reads from memory by one core, and by all.
        l1_latency, l2_latency, l3_latency: cycles of a dependent load.
        memory_latency: nanoseconds of a dependent load from memory.
        wake_ns: nanoseconds to wake a sleeping thread on another core.
        handover_ns: nanoseconds for a line to reach a waiting core and an answer to return.
        call_ns: nanoseconds to enter and leave a kernel.
        brain_rate: multiply-adds of bfloat16 summed in float32, relative to those of float32; 0 if there are none.
        matrix_rate: multiply-adds of bytes per cycle of a matrix unit, twice those of bfloat16; 0 if there is none.
        sources: origin of each number, by field.
    """

    name: str
    architecture: str
    is_level: bool
    cores: int
    clock: float
    wide_clock: float
    vector_bytes: int
    vector_registers: int
    vector_units: int
    fma_units: int
    fma_latency: int
    double_rate: float
    half_rate: float
    byte_rate: float
    loads: int
    stores: int
    line_bytes: int
    page_bytes: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    l2_cores: int
    l3_cores: int
    l1_rate: float
    l2_rate: float
    l3_rate: float
    memory_rate: float
    memory_total: float
    l1_latency: float
    l2_latency: float
    l3_latency: float
    memory_latency: float
    wake_ns: float
    handover_ns: float
    call_ns: float
    brain_rate: float = 0.0
    matrix_rate: float = 0.0
    sources: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    def source(self, name: str) -> str:
        """Returns the origin of the number in a field."""
        return dict(self.sources)[name]

    def lanes(self, element_bytes: int) -> int:
        """Returns the number of elements per vector register."""
        return self.vector_bytes // element_bytes

    def relative_rate(self, element: str) -> float:
        """Returns the peak of multiply-adds of a type relative to those of float32.

        Args:
            element: f64, f32, f16, bf16, or i8 for bytes. The units of other types compute in float32.
        """
        rates = {
            "f64": self.double_rate,
            "f16": self.half_rate,
            "bf16": max(1.0, self.brain_rate, self.tile_rate / 2),
            "i8": max(self.byte_rate, self.tile_rate),
        }
        return rates.get(element, 1.0)

    @property
    def tile_rate(self) -> float:
        """Multiply-adds of bytes by the matrix unit, relative to those of float32 by vectors."""
        return self.matrix_rate / (self.lanes(4) * self.fma_units)

    @property
    def flops(self) -> float:
        """Peak of float32 operations per nanosecond of one core, two per multiply-add."""
        return 2 * self.lanes(4) * self.fma_units * self.wide_clock

    @property
    def elements(self) -> float:
        """Lanes of float32 that pass one vector unit in a nanosecond."""
        return self.lanes(4) * self.wide_clock

    @property
    def l2_bytes_per_ns(self) -> float:
        """Bytes per nanosecond of reads from the second-level cache by one core."""
        return self.l2_rate * self.clock

    @property
    def l3_bytes_per_ns(self) -> float:
        """Bytes per nanosecond of reads from the last-level cache by one core."""
        return self.l3_rate * self.clock

    @property
    def multiplies_by_lane(self) -> bool:
        """True if multiply-adds can take one lane of a vector for all lanes, so that a broadcast need not be a load."""
        return self.architecture == "aarch64"

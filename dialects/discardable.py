"""The discardable attributes `stepwell.*`, by which passes annotate modules, functions, calls, loops and linalg ops.

Only this module contains their names; other modules use the descriptors, as in `discardable.KERNEL.read(op)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import forms
from .discardable_attribute import ARGUMENT, RESULT, DiscardableAttribute, T
from .forms import AttributeForm

PREFIX = "stepwell."
"""Prefix of the names: the namespace of the dialect that owns them."""

_MODULE = ("builtin.module",)
_FUNCTION = ("func.func", "llvm.func")
_CALL = ("func.call", "llvm.call")
_LINALG = ("linalg.generic", "linalg.fill")
_VIEW = ("memref.view",)
_LOOP = ("scf.forall",)

_FROM_IMPORT = ("import", "graph", "kernels", "tiled", "vector", "memref", "llvm", "gpu", "nvvm")
_FROM_KERNELS = _FROM_IMPORT[2:]
_FROM_TILED = _FROM_IMPORT[3:]
_FROM_MEMREF = _FROM_IMPORT[5:]
_IN_KERNELS = ("kernels", "tiled")
"""Phases with linalg ops."""


@dataclass(frozen=True)
class KernelFacts:
    """The known facts about a kernel.

    Attributes:
        kind: its class, which selects its schedule; "" if unknown.
        flops: floating-point operations of one call; None if unknown.
        bytes: bytes that one call moves; None if unknown.
    """

    kind: str = ""
    flops: int | None = None
    bytes: int | None = None


def _of_module(
    name: str, form: AttributeForm[T], doc: str, phases: tuple[str, ...] = _FROM_MEMREF
) -> DiscardableAttribute[T]:
    return DiscardableAttribute(name, form, doc, places=_MODULE, phases=phases)


def _of_function(
    name: str, form: AttributeForm[T], doc: str, phases: tuple[str, ...] = _FROM_KERNELS
) -> DiscardableAttribute[T]:
    return DiscardableAttribute(name, form, doc, places=_FUNCTION, phases=phases)


def _of_call(
    name: str, form: AttributeForm[T], doc: str, phases: tuple[str, ...] = _FROM_KERNELS
) -> DiscardableAttribute[T]:
    return DiscardableAttribute(name, form, doc, places=_CALL, phases=phases)


def _of_linalg(name: str, form: AttributeForm[T], doc: str) -> DiscardableAttribute[T]:
    return DiscardableAttribute(name, form, doc, places=_LINALG, phases=_IN_KERNELS)


# Modules.
PHASE = _of_module("stepwell.phase", forms.STRING, "the phase at whose end a module was printed", _FROM_IMPORT)
INTERFACE = _of_module(
    "stepwell.interface",
    forms.DICTIONARY,
    "`inputs` and `outputs` of the model with names and types, the reasons of its `guards`, and the results whose "
    "extents its `counts` hold",
    _FROM_KERNELS,
)
LIBRARY = _of_module(
    "stepwell.library",
    forms.UNIT,
    "the module has only kernels, compiled apart from the @main that calls them",
    _FROM_KERNELS,
)
PARAMETERS = _of_module(
    "stepwell.parameters", forms.DICTIONARIES, "the parameters that @main takes, in order: `name` and `type`"
)
ARENA_BYTES = _of_module("stepwell.arena_bytes", forms.I64, "size of the arena that @main takes")
ARENA_LOWER_BOUND = _of_module(
    "stepwell.arena_lower_bound", forms.I64, "bytes that live at once at least: no arena can be smaller"
)
LIFETIMES = _of_module(
    "stepwell.lifetimes",
    forms.DICTIONARIES,
    "the buffers in the arena: `name`, `node`, `offset`, `bytes`, and the `first` and `last` step of use",
)
IS_SHORT = _of_module(
    "stepwell.is_short", forms.UNIT, "a call takes less time than waking a worker: only awake workers take part"
)
TABLE = _of_module("stepwell.table", forms.JSONS, "the table of extents: expressions over symbolic sizes", _FROM_IMPORT)
RANGES = _of_module("stepwell.ranges", forms.RANGES, "minimum, maximum and step of each symbolic size", _FROM_IMPORT)
TYPICAL_SIZES = _of_module(
    "stepwell.typical_sizes", forms.JSONS, "representative values of the symbolic sizes in a call", _FROM_IMPORT
)
DECISIONS = _of_module(
    "stepwell.decisions",
    forms.STRINGS_BY_NAME,
    "what passes on the graph decide otherwise than by the cost function, by the site of the decision",
    _FROM_IMPORT,
)

RECOMPUTATION = _of_module(
    "stepwell.recomputation",
    forms.JSONS,
    "what a training step within a budget of memory keeps and computes again, for its report: at most one record",
    _FROM_IMPORT,
)

# Arguments and results of functions.
LAYOUT = DiscardableAttribute(
    "stepwell.layout",
    forms.I64S,
    "of an input that is read as it lies in the caller's memory: table entries of its strides, and of the number of "
    "elements to copy",
    places=(ARGUMENT,),
    phases=_FROM_KERNELS,
)
APPENDED_TO = DiscardableAttribute(
    "stepwell.appended_to",
    forms.I64,
    "of an output that is an input with data appended: the index of the input, whose memory it may share",
    places=(RESULT,),
    phases=_FROM_KERNELS,
)
NAME = DiscardableAttribute(
    "stepwell.name",
    forms.STRING,
    "name of an input, an output or a parameter",
    places=(ARGUMENT, RESULT),
    phases=_FROM_IMPORT,
)
DIMS = DiscardableAttribute(
    "stepwell.dims",
    forms.DIMS,
    "the dimensions of an input or an output: a number, or the name of a symbolic size",
    places=(ARGUMENT, RESULT),
    phases=_FROM_IMPORT,
)
GUARD = DiscardableAttribute(
    "stepwell.guard",
    forms.STRING,
    "marks a result that tells whether a call must be refused, and gives the reason",
    places=(RESULT,),
    phases=_FROM_IMPORT,
)
COUNT = DiscardableAttribute(
    "stepwell.count",
    forms.I64S,
    "marks a result that holds the run-time extent of other results, and lists these as pairs of result and dimension",
    places=(RESULT,),
    phases=_FROM_IMPORT,
)
DTYPE = DiscardableAttribute(
    "stepwell.dtype",
    forms.TYPE,
    "original element type of an input or an output that later phases store as bytes",
    places=(ARGUMENT, RESULT),
    phases=_FROM_KERNELS,
)
STRIDES = DiscardableAttribute(
    "stepwell.strides",
    forms.I64S,
    "strides in elements of a kernel's argument or result that is part of a larger tensor",
    places=(ARGUMENT, RESULT),
    phases=_FROM_KERNELS,
)
ALIGNMENT = DiscardableAttribute(
    "stepwell.alignment",
    forms.I64,
    "alignment in bytes of a kernel's argument or result, if that is less than a whole tensor's",
    places=(ARGUMENT, RESULT),
    phases=_FROM_KERNELS,
)
OFFSET = DiscardableAttribute(
    "stepwell.offset",
    forms.I64,
    "index of the first element of a launch's argument that is a view",
    places=(ARGUMENT,),
    phases=_FROM_KERNELS,
)

# Kernels.
KERNEL = _of_function(
    "stepwell.kernel",
    forms.record(
        KernelFacts,
        "a dictionary with a class, flops and bytes",
        {"kind": ("class", forms.STRING), "flops": ("flops", forms.I64), "bytes": ("bytes", forms.I64)},
    ),
    "marks a function as a kernel; its `class`, `flops` and `bytes` moved, as far as they are known",
)
SCHEDULE = _of_function(
    "stepwell.schedule",
    forms.SCHEDULE,
    "the schedule of a kernel or a launch: `name` and parameters, or the symbol of a transform sequence",
)
LAUNCH = _of_function("stepwell.launch", forms.UNIT, "marks a function as one launch of a GPU", _FROM_TILED)
LAUNCHES = _of_function(
    "stepwell.launches",
    forms.DICTIONARIES,
    "the launches of a kernel: `entry`, `grid`, `block`, `cluster`, `shared_bytes` and `arguments`",
    _FROM_MEMREF,
)
TENSOR_MAPS = DiscardableAttribute(
    "stepwell.tensor_maps",
    forms.I64,
    "number of tensor maps that an entry point takes",
    places=(*_FUNCTION, "gpu.func"),
    phases=_FROM_MEMREF,
)
WORKSPACE_BYTES = _of_function(
    "stepwell.workspace_bytes",
    forms.I64,
    "size of the workspace that a kernel takes as its last argument",
    _FROM_MEMREF,
)
PHASES = _of_function(
    "stepwell.phases",
    forms.I64S,
    "ends of a kernel's runs of blocks; the blocks of a run may be computed concurrently",
    _FROM_MEMREF,
)
EXTENTS = DiscardableAttribute(
    "stepwell.extents",
    forms.I64S,
    "table entry of the live extent of each dimension of the result, -1 for all of it",
    places=(*_FUNCTION, RESULT, ARGUMENT),
    phases=_FROM_IMPORT,
)
TABLE_ARGUMENT = _of_function(
    "stepwell.table_argument",
    forms.I64,
    "index of the kernel's argument that is the table of extents; the destination is the next one",
)
KEYS = _of_function(
    "stepwell.keys",
    forms.I64S,
    "table entry of the number of keys that a kernel's attention needs, and the number of all keys",
)
SKIPPED = _of_function(
    "stepwell.skipped",
    forms.I64S,
    "argument, dimension and table entry of each mask that a reduction reads its operands through",
)
MASKS = _of_function(
    "stepwell.masks",
    forms.I64S,
    "argument and table entry of each mask of a reduction that keeps all elements before the entry, and no others",
)
KEPT = _of_function(
    "stepwell.kept", forms.I64S, "table entry from which on the result is 0 along each dimension, or -1"
)
TYPICAL = _of_function(
    "stepwell.typical", forms.EXTENTS, "live extents of the result at each of the module's representative sizes"
)
UNBOUNDED = _of_function(
    "stepwell.unbounded", forms.STRINGS, "why a kernel computes dimensions in full although only a part is live"
)
READS_PADDING = _of_function(
    "stepwell.reads_padding", forms.UNIT, "elements beyond the data in the tensors of a kernel are undefined"
)
TILE_ROWS = _of_function(
    "stepwell.tile_rows", forms.I64S, "rows in the tiles of a version of a kernel along the last two loops over rows"
)

# Calls of kernels.
OPS = _of_call("stepwell.ops", forms.STRINGS, "nodes of the model that a kernel computes, the dominant one first")
WORK = _of_call("stepwell.work", forms.I64S, "share of each of these nodes in the kernel's work")
STEP = _of_call(
    "stepwell.step", forms.I64, "position of a call in @main, which lifetimes of buffers refer to", _FROM_MEMREF
)
VERSIONS = _of_call("stepwell.versions", forms.SYMBOLS, "versions of a kernel that a call may run, the callee first")
CHOICE = _of_call("stepwell.choice", forms.I64, "entry of the table of extents that selects the version")
SHARED = _of_call("stepwell.shared", forms.UNIT, "marks a call whose blocks threads of the pool share", _FROM_MEMREF)
SHARED_KERNEL = _of_call(
    "stepwell.shared_kernel", forms.SYMBOL, "the kernel that a call of the thread pool runs", _FROM_MEMREF
)

# Ops of the model.
ROWS = DiscardableAttribute(
    "stepwell.rows",
    forms.I64,
    "table entry of the number of rows with data, on an op that reads a row",
    places=("stepwell.row", "tensor.extract_slice"),
    phases=("graph", *_FROM_KERNELS),
)

# Linalg ops, by which schedules find them.
POSITION = _of_linalg("stepwell.position", forms.I64, "position of an op among the linalg ops of its kernel")
CONTRACTION = _of_linalg(
    "stepwell.contraction", forms.I64, "number of the column group whose sums of products an op computes"
)
PACKING = _of_linalg("stepwell.packing", forms.I64, "number of the column group whose panels an op packs")
ROOT = _of_linalg("stepwell.root", forms.I64, "number of the column group whose last op this is")
GRAIN = _of_linalg(
    "stepwell.grain",
    forms.I64,
    "number of bytes that one instruction multiplies and adds: the extent of the innermost loop",
)
BLOCK_BITS = _of_linalg(
    "stepwell.block_bits",
    forms.I64,
    "bits of a number of a weight that has a scale per block; the three innermost loops are those of a block",
)
UNROLL = _of_linalg("stepwell.unroll", forms.I64, "how often the innermost loop of a contraction is unrolled")
FEWEST = _of_linalg(
    "stepwell.fewest", forms.I64S, "iterations of each loop over tiles at the representative sizes, at least"
)
ENDS = _of_linalg(
    "stepwell.ends",
    forms.I64S,
    "where each loop over tiles ends in a call: entry of the table or -1, positions per unit of it, and maximum",
)
STEPS = _of_linalg("stepwell.steps", forms.I64, "steps of a contraction per iteration of its innermost loop")
PREFETCH = _of_linalg("stepwell.prefetch", forms.I64, "whether a contraction prefetches what it reads next: 0 or 1")
ROLE = _of_linalg("stepwell.role", forms.STRING, "role of an op in attention")
LOOPS = _of_linalg("stepwell.loops", forms.STRING, "letters of an op's loops in attention, one for each")
BAND = _of_linalg("stepwell.band", forms.I64S, "how many keys before and after its own a query of attention sees")
PART = _of_linalg("stepwell.part", forms.I64, "number of keys in each part of attention that is split along its keys")
WINOGRAD = _of_linalg(
    "stepwell.winograd", forms.STRING, "step of a Winograd convolution: `input`, `output` or `epilogue`"
)
MATERIALIZE = _of_linalg(
    "stepwell.materialize", forms.UNIT, "the result of an op must be stored between launches of a GPU"
)
WHOLE = _of_linalg("stepwell.whole", forms.UNIT, "an op is the last of a launch of its own")

# Loops and buffers.
SLOTS = DiscardableAttribute(
    "stepwell.slots",
    forms.I64,
    "number of memory slots of a parallel loop, one for each range of its iterations",
    places=_LOOP,
    phases=_FROM_MEMREF,
)
SLOT_BYTES = DiscardableAttribute(
    "stepwell.slot_bytes",
    forms.I64,
    "distance in bytes between two slots, on the loop and on the views of the workspace inside it",
    places=(*_LOOP, *_VIEW),
    phases=_FROM_MEMREF,
)
SEQUENTIAL = DiscardableAttribute(
    "stepwell.sequential",
    forms.I64,
    "rank of a parallel loop that is to become sequential loops",
    places=_LOOP,
    phases=("vector", "memref"),
)
TILES = DiscardableAttribute(
    "stepwell.tiles",
    forms.I64S,
    "elements of a kernel's result per iteration of a loop over all its tiles, along each dimension",
    places=_LOOP,
    phases=("tiled", "vector", "memref"),
)
ROUNDS = DiscardableAttribute(
    "stepwell.rounds",
    forms.I64S,
    "number of a parallel loop; on an op that computes its live rounds, also the dimension",
    places=(*_LOOP, "arith.minsi", "llvm.intr.smin"),
    phases=("memref", "llvm"),
)
BUFFER = DiscardableAttribute(
    "stepwell.buffer",
    forms.I64,
    "number of a buffer of the arena that may still be moved",
    places=_VIEW,
    phases=("memref",),
)
TENSOR_MAP = DiscardableAttribute(
    "stepwell.tensor_map",
    forms.DICTIONARY,
    "description of a tensor map: `sizes`, `strides`, `box`, `steps`, `swizzle`, `promotion`, `element`, `fill`",
    places=("builtin.unrealized_conversion_cast",),
    phases=_FROM_MEMREF,
)

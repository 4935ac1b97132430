"""Movement ops: result elements are operand elements at other positions (resize may combine several of them)."""

from .appending import AppendOp
from .dynamic import DynamicBroadcastToOp, DynamicPadOp, DynamicReshapeOp, DynamicSliceOp
from .padding import PadOp
from .resizing import DynamicResizeOp, ResampleOp, ResizeOp
from .rows import RowOp, TakeRowsOp, WithRowOp
from .sampling import SampleOp
from .scattering import ScatterOp
from .static import (
    BroadcastToOp,
    ConcatOp,
    ExpandDimsOp,
    GatherOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    SqueezeOp,
    TileOp,
    TransposeOp,
)

__all__ = [
    "AppendOp",
    "BroadcastToOp",
    "ConcatOp",
    "DynamicBroadcastToOp",
    "DynamicPadOp",
    "DynamicReshapeOp",
    "DynamicResizeOp",
    "DynamicSliceOp",
    "ExpandDimsOp",
    "GatherOp",
    "PadOp",
    "ResampleOp",
    "ReshapeOp",
    "ResizeOp",
    "ReverseOp",
    "RowOp",
    "SampleOp",
    "ScatterOp",
    "SliceOp",
    "SqueezeOp",
    "TakeRowsOp",
    "TileOp",
    "TransposeOp",
    "WithRowOp",
]

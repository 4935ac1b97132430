"""Addresses of operands' elements: merged dimensions, windows, padding, and the width of an access."""

from stepwell.targets.nvidia.instructions.integers import Int
from stepwell.targets.nvidia.kernels.contraction.access import Dim, IndexGuard, OperandAccess, merged


def convolution(channels, padding):
    """Rows (oh, ow) and depth (kh, kw, c) of a 3x3 window over [8, 10, channels]."""
    line = 10 * channels
    rows = (Dim(8, line, (1, 0)), Dim(10, channels, (0, 1)))
    depth = (Dim(3, line, (1, 0)), Dim(3, channels, (0, 1)), Dim(channels, 1, (0, 0)))
    start = -padding * (line + channels)
    return OperandAccess(4, (), rows, depth, start, (IndexGuard(-padding, 8), IndexGuard(-padding, 10)))


def test_a_matrix_is_read_along_its_lines():
    assert OperandAccess.matrix(2, 64, 128).by_depth
    assert not OperandAccess.matrix(2, 64, 128, transposed=True).by_depth
    assert OperandAccess.matrix(2, 64, 128).vector == 8
    assert OperandAccess.matrix(4, 64, 30).vector == 2
    assert OperandAccess.matrix(2, 64, 128, pitch=131).vector == 1


def test_dimensions_merge_where_one_stride_serves():
    assert merged([Dim(4, 60), Dim(5, 12), Dim(12, 1)]) == (Dim(240, 1),)
    assert merged([Dim(4, 64), Dim(5, 12), Dim(1, 7)]) == (Dim(4, 64), Dim(5, 12))
    assert merged([Dim(4, 12, (1,)), Dim(12, 1, (0,))]) == (Dim(4, 12, (1,)), Dim(12, 1, (0,)))


def test_a_place_is_the_sum_of_its_parts():
    access = convolution(channels=16, padding=0)
    row, depth = 2 * 10 + 3, (1 * 3 + 2) * 16 + 5
    place = access.origin() + access.place(access.rows, Int(row)) + access.place(access.depth, Int(depth))
    assert place.offset.known == (2 + 1) * 160 + (3 + 2) * 16 + 5
    assert [part.known for part in place.guarded] == [3, 5]


def test_padding_moves_the_start_and_is_guarded():
    access = convolution(channels=16, padding=1)
    first = access.origin() + access.place(access.rows, Int(0)) + access.place(access.depth, Int(0))
    assert first.offset.known == -(160 + 16)
    assert [part.known for part in first.guarded] == [-1, -1]


def test_windows_are_read_by_channels():
    assert convolution(16, 1).vector == 4
    assert convolution(6, 1).vector == 2
    assert convolution(3, 1).vector == 1

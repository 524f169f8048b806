"""The planes of `core46` on a CPU, written in one pass."""

from __future__ import annotations

from keisei.compiled.kernels import kernel


@kernel(entry=True)
def write_core46(positions, scalars, one, planes):
    """Fill planes [B, 81, 46] from positions [B, 100] int8 and the last planes' values [B, 18].

    Channels last, as convolutions want them. Numbers are bits of any type whose zero is 0, and
    `one` is its one.
    """
    rows, squares, channels = planes.shape
    pieces = channels - scalars.shape[1]
    for row in range(rows):
        for square in range(squares):
            for plane in range(pieces):
                planes[row, square, plane] = 0
            for plane in range(pieces, channels):
                planes[row, square, plane] = scalars[row, plane - pieces]
            piece = positions[row, square]
            if piece > 0:
                planes[row, square, piece - 1] = one
            elif piece < 0:
                planes[row, square, pieces // 2 - piece - 1] = one

"""float32 in kernels beyond what Numba knows: bits, bfloat16, sums in any order, and rounded once.

bfloat16 is the upper half of a float32. Kernels see such a tensor as uint16; `widened` and
`narrowed` let one kernel serve arrays of either kind.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

_INT32, _FLOAT32 = ir.IntType(32), ir.FloatType()


@intrinsic
def float_of_bits(typing: Any, bits: Any) -> Any:
    """The float32 that these bits (int32) are."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _FLOAT32)

    return types.float32(types.int32), code


@intrinsic
def bits_of_float(typing: Any, value: Any) -> Any:
    """The bits (int32) of a float32."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _INT32)

    return types.int32(types.float32), code


@intrinsic
def widened(typing: Any, element: Any) -> Any:
    """An element of an array of floating-point numbers as it is, and one of bfloat16 as float32."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if isinstance(element, types.Float):
            return arguments[0]
        upper = builder.shl(builder.zext(arguments[0], _INT32), _INT32(16))
        return builder.bitcast(upper, _FLOAT32)

    return (element if isinstance(element, types.Float) else types.float32)(element), code


@intrinsic
def narrowed(typing: Any, value: Any, like: Any) -> Any:
    """A number as the element `like` is: as it is, or rounded to the nearest bfloat16."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if isinstance(like, types.Float):
            return arguments[0]
        bits = builder.bitcast(arguments[0], _INT32)
        last = builder.and_(builder.lshr(bits, _INT32(16)), _INT32(1))  # ties go to even
        rounded = builder.add(bits, builder.add(last, _INT32(0x7FFF)))
        return builder.trunc(builder.lshr(rounded, _INT32(16)), ir.IntType(16))

    return like(like if isinstance(like, types.Float) else types.float32, like), code


@intrinsic
def fused(typing: Any, left: Any, right: Any, addend: Any) -> Any:
    """Left * right + addend in float32, rounded once: the same bits however it is compiled."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), code


if config.DISABLE_JIT:  # the kernels as plain Python, which knows no bfloat16

    def widened(element: Any) -> Any:
        """As it is."""
        return element

    def narrowed(value: Any, like: Any) -> Any:
        """As it is."""
        return value

    def fused(left: Any, right: Any, addend: Any) -> Any:
        """Rounded twice."""
        return left * right + addend


@intrinsic
def sum_in_any_order(typing: Any, total: Any, value: Any) -> Any:
    """The sum of both, where the compiler may add up a loop's values as vectors.

    The order is fixed when it compiles. One kernel that summed in a callee rounded otherwise where
    it was just compiled than where it came from the cache: compare both before processes have to
    agree on a sum to the last bit.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments, flags=("reassoc", "nsz"))

    return value(value, value), code

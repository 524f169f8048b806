"""LLVM code for kernels whose sums have to stay in the processor's registers.

Numba keeps what a loop adds up in memory. Here are its parts: vectors of 16 float32, to which the
products of pairs of bfloat16 are added, 32 in one instruction (`vdpbf16ps`), loops, and addresses,
which are numbers of bytes. `has_pair_products` says whether the processor can do it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.core import cgutils

LANES = 16
INT32, INT64 = ir.IntType(32), ir.IntType(64)
FLOATS = ir.VectorType(ir.FloatType(), LANES)
PAIRS = ir.VectorType(INT32, LANES)
PAIR = FLOAT = 4
"""The bytes of a pair of bfloat16 and of a float32."""
HALF = 2
"""Those of a bfloat16."""


class _BFloat16(ir.types.Type):  # type: ignore[misc]
    """LLVM's type, which llvmlite does not know."""

    null = "0.0"

    def __str__(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat16)

    def __hash__(self) -> int:
        return hash(_BFloat16)


_HALVES = ir.VectorType(_BFloat16(), 2 * LANES)
NOTHING = ir.Constant(FLOATS, [0.0] * LANES)


def has_pair_products() -> bool:
    """Whether this processor adds up products of bfloat16, 32 in an instruction.

    No if Numba was told (`NUMBA_CPU_NAME`, ...) to compile for another one, or not at all.
    """
    another = config.CPU_NAME is not None or config.CPU_FEATURES is not None
    compiles_for_it = bool(config.ENABLE_AVX) and not (config.DISABLE_JIT or another)
    features = llvm.get_host_cpu_features()
    return compiles_for_it and bool(features.get("avx512bf16") and features.get("avx512f"))


def constant(literal: Any) -> int:
    """The value of an argument that is one."""
    assert isinstance(literal, types.IntegerLiteral), "widths and sides have to be constants"
    return int(literal.literal_value)


def divided(builder: Any, number: Any, by: int) -> tuple[Any, Any]:
    """Quotient and remainder."""
    return builder.udiv(number, INT64(by)), builder.urem(number, INT64(by))


def moved(builder: Any, address: Any, count: Any, size: int) -> Any:
    """The address so many things of a size further on."""
    return builder.add(address, builder.mul(count, INT64(size)))


def data_of(context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    """The address of an argument that is an array."""
    array = context.make_array(signature.args[number])(context, builder, arguments[number])
    return builder.ptrtoint(array.data, INT64)


def load(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    """What stands at an address."""
    return builder.load(_pointer(builder, address, offset, kind), align=FLOAT)


def store(builder: Any, address: Any, offset: int, value: Any) -> None:
    """Put it at an address."""
    builder.store(value, _pointer(builder, address, offset, value.type), align=FLOAT)


def _pointer(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    return builder.inttoptr(builder.add(address, INT64(offset)), kind.as_pointer())


def add_pair_products(builder: Any, total: Any, pairs: Any, pair: Any) -> Any:
    """Total [16] + the products of pairs [16, 2] with one pair, each summed up."""
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(FLOATS, [FLOATS, _HALVES, _HALVES]),
        "llvm.x86.avx512bf16.dpbf16ps.512",
    )
    nothing = ir.Constant(PAIRS, ir.Undefined)
    one = builder.insert_element(nothing, pair, INT32(0))
    everywhere = builder.shuffle_vector(one, nothing, ir.Constant(PAIRS, [0] * LANES))
    return builder.call(
        function, [total, builder.bitcast(pairs, _HALVES), builder.bitcast(everywhere, _HALVES)]
    )


def loop(
    builder: Any, times: int, before: Sequence[Any], body: Callable[[Any, Sequence[Any]], list[Any]]
) -> list[Any]:
    """What `body` makes of the number of the pass and the values before it, after all passes."""
    entry = builder.block
    inside, behind = builder.append_basic_block("loop"), builder.append_basic_block("behind")
    builder.branch(inside)
    builder.position_at_end(inside)
    number, *values = (builder.phi(kind) for kind in (INT64, *(value.type for value in before)))
    after = body(number, values)
    following = builder.add(number, INT64(1))
    for phi, first, next_one in zip(
        (number, *values), (INT64(0), *before), (following, *after), strict=True
    ):
        phi.add_incoming(first, entry)
        phi.add_incoming(next_one, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, INT64(times)), inside, behind)
    builder.position_at_end(behind)
    return after


def loop_over_bits(
    builder: Any, bits: Any, before: Sequence[Any], body: Callable[[Any, Sequence[Any]], list[Any]]
) -> list[Any]:
    """The same for the number of each bit that is set, from the lowest on."""
    entry = builder.block
    asks, inside, behind = (builder.append_basic_block(name) for name in ("asks", "bit", "behind"))
    builder.branch(asks)
    builder.position_at_end(asks)
    left, *values = (builder.phi(kind) for kind in (INT64, *(value.type for value in before)))
    builder.cbranch(builder.icmp_signed("!=", left, INT64(0)), inside, behind)
    builder.position_at_end(inside)
    after = body(builder.cttz(left, ir.IntType(1)(1)), values)
    fewer = builder.and_(left, builder.sub(left, INT64(1)))
    for phi, first, next_one in zip((left, *values), (bits, *before), (fewer, *after), strict=True):
        phi.add_incoming(first, entry)
        phi.add_incoming(next_one, builder.block)
    builder.branch(asks)
    builder.position_at_end(behind)
    return values


def rectified(builder: Any, value: Any) -> Any:
    """What is no number stays none."""
    return builder.select(builder.fcmp_ordered("<=", value, NOTHING), NOTHING, value)


def load_widened(builder: Any, address: Any, offset: int) -> Any:
    """16 numbers of bfloat16 as float32."""
    halves = load(builder, address, offset, ir.VectorType(ir.IntType(16), LANES))
    shift = ir.Constant(PAIRS, [16] * LANES)
    return builder.bitcast(builder.shl(builder.zext(halves, PAIRS), shift), FLOATS)


def store_narrowed(builder: Any, address: Any, offset: int, value: Any) -> None:
    """16 numbers of float32, rounded to the nearest bfloat16."""
    kind = ir.VectorType(_BFloat16(), LANES)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(kind, [FLOATS]),
        "llvm.x86.avx512bf16.cvtneps2bf16.512",
    )
    store(builder, address, offset, builder.call(function, [value]))

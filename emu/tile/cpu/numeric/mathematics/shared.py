"""Parts that the functions share: code that lies outside of the caller, and floats scaled by powers of two.

The coefficients in these modules are minimax fits (Remez exchange in 40 digits, then rounded); what is
said beside them is the relative error that they leave in the function over the interval. The functions
of f32 that are called most are computed in f32; the others in f64, which leaves one rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from emu.tile.cpu.native import has_feature
from emu.tile.cpu.numeric.vector_builder import (
    BIT,
    DOUBLE,
    FLOAT,
    I32,
    I64,
    Literal,
    VectorBuilder,
    declare,
    mangle,
    number,
    vector,
)
from emu.tile.llvm import Register

ROUND_32 = 1.5 * 2.0**23
"""Added to a small f32, it leaves the nearest integer in the last bits."""
ROUND_64 = 1.5 * 2.0**52
"""Added to a small f64, it leaves the nearest integer in the last bits."""

_MOST_INLINED = 4
"""How many calls of a function are inlined: two loops, with masks and without, and twice in each."""


def outlined(
    lanes: VectorBuilder,
    name: str,
    body: Callable[..., Register],
    values: Sequence[Register],
    *,
    inline: bool = True,
) -> Register:
    """Emit a call of a function of the module that is made by ``body``, once for each type.

    Args:
        lanes: Where the call goes.
        name: What distinguishes the function from others.
        body: ``body(lanes, *values)`` emits the code and returns the result; it may add blocks.
        values: Arguments.
        inline: Whether the first calls are inlined, so that loops keep its constants in registers.

    Returns:
        The result, of the type of the first argument.
    """
    # The symbol is all by which a function is found again: what ``body`` emits must depend on nothing but the name
    # and the type of the first argument.
    module, type_ = lanes.builder.module, values[0].type
    symbol = f"emu.{name}.{mangle(type_)}"
    if symbol not in module.globals:
        types = [value.type for value in values]
        function = ir.Function(module, ir.FunctionType(type_, types), symbol)
        function.linkage = "internal"
        if not inline:
            function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        builder.ret(body(VectorBuilder(builder, lanes.count), *function.args))
    function = module.globals[symbol]
    function.calls = getattr(function, "calls", 0) + 1
    near = inline and function.calls <= _MOST_INLINED
    return lanes.builder.call(function, list(values), attrs=("alwaysinline",) if near else ())


def by_lane(
    lanes: VectorBuilder, name: str, scalar: Callable[..., Register], values: Sequence[Register]
) -> Register:
    """Emit for each lane what there are no vectors for: a loop, in a function of the module.

    Args:
        lanes: Where the code goes.
        name: What distinguishes the function from others.
        scalar: ``scalar(builder, *one)`` emits the code of one lane and returns its result.
        values: Arguments, of one type, which is the result's as well.
    """
    if lanes.count is None:
        return scalar(lanes.builder, *values)
    count = lanes.count

    def body(inner: VectorBuilder, *vectors: Register) -> Register:
        build = inner.builder
        entry, type_ = build.block, vectors[0].type
        loop, done = build.append_basic_block("loop"), build.append_basic_block("done")
        build.branch(loop)
        build.position_at_end(loop)
        # The loop writes every lane of the result, so that it may begin as poison.
        lane, result = build.phi(I32), build.phi(type_)
        lane.add_incoming(number(I32, 0), entry)
        result.add_incoming(Literal(type_, "poison"), entry)
        value = scalar(build, *(build.extract_element(vector, lane) for vector in vectors))
        updated = build.insert_element(result, value, lane)
        following = build.add(lane, number(I32, 1))
        lane.add_incoming(following, loop)
        result.add_incoming(updated, loop)
        build.cbranch(build.icmp_unsigned("<", following, number(I32, count)), loop, done)
        build.position_at_end(done)
        return updated

    return outlined(lanes, f"each.{name}", body, values, inline=False)


def _any_lane(lanes: VectorBuilder, condition: Register) -> Register:
    """Return whether a condition holds in any lane."""
    if lanes.count is None:
        return condition
    name = f"llvm.vector.reduce.or.{mangle(condition.type)}"
    return lanes.builder.call(declare(lanes.builder, name, BIT, [condition.type]), [condition])


def unlikely(
    lanes: VectorBuilder, condition: Register, usual: Register, other: Callable[[], Register]
) -> Register:
    """Return ``usual``, or ``other()``, whose code runs only if the condition holds in any lane.

    This adds blocks: it is for the body of what is ``outlined``.
    """
    build = lanes.builder
    before = build.block
    with build.if_then(_any_lane(lanes, condition), likely=False):
        value = other()
        inside = build.block
    result = build.phi(usual.type)
    result.add_incoming(usual, before)
    result.add_incoming(value, inside)
    return result


def in_double(
    lanes: VectorBuilder, name: str, body: Callable[..., Register], values: Sequence[Register]
) -> Register:
    """Emit a function of f32 that ``body`` computes in f64."""

    def widened(inner: VectorBuilder, *arguments: Register) -> Register:
        build = inner.builder
        wide = [build.fpext(argument, inner.type(DOUBLE)) for argument in arguments]
        return build.fptrunc(body(inner, *wide), inner.type(FLOAT))

    return outlined(lanes, name, widened, values)


def nearest_32(lanes: VectorBuilder, x: Register, factor: float) -> tuple[Register, Register]:
    """Return the integer next to x * factor: as f32, and in the last bits of an i32."""
    build = lanes.builder
    shifted = lanes.fma(x, lanes.f32(factor), lanes.f32(ROUND_32))
    return build.fsub(shifted, lanes.f32(ROUND_32)), lanes.cast(shifted, I32)


def nearest_64(lanes: VectorBuilder, x: Register, factor: float) -> tuple[Register, Register]:
    """Return the integer next to x * factor: as f64, and in the last bits of an i64."""
    build = lanes.builder
    shifted = lanes.fma(x, lanes.f64(factor), lanes.f64(ROUND_64))
    return build.fsub(shifted, lanes.f64(ROUND_64)), lanes.cast(shifted, I64)


def scale_32(lanes: VectorBuilder, x: Register, nearest: Register, exponent: Register) -> Register:
    """Return x * 2**n in one rounding.

    Args:
        lanes: Where the code goes.
        x: Near 1.
        nearest: n, in -252 ... 254.
        exponent: n in the last bits of an i32.
    """
    build = lanes.builder
    if lanes.count is not None and lanes.count % 16 == 0 and has_feature("avx512f"):
        return _scale_by_instruction(lanes, x, nearest)
    # 2**n itself may be no f32. Half of n, rounded down, and the rest are normal exponents; the first product is
    # exact, since x is near 1 and n / 2 far from the subnormal exponents. (Added to the bits of x, it would spoil NaN.)
    whole = build.shl(exponent, lanes.i32(23))
    half = build.and_(build.ashr(whole, lanes.i32(1)), lanes.i32(-1 << 23))
    one = lanes.i32(0x3F800000)
    x = build.fmul(x, lanes.cast(build.add(half, one), FLOAT))
    return build.fmul(x, lanes.cast(build.add(build.sub(whole, half), one), FLOAT))


def _scale_by_instruction(lanes: VectorBuilder, x: Register, nearest: Register) -> Register:
    build, count = lanes.builder, lanes.count
    assert count is not None
    type_ = vector(FLOAT, 16)
    kinds = (type_, type_, type_, ir.IntType(16), I32)
    scale = declare(build, "llvm.x86.avx512.mask.scalef.ps.512", type_, kinds)
    parts = []
    for start in range(0, count, 16):
        order = ir.Constant(vector(I32, 16), list(range(start, start + 16)))
        one, by = (build.shuffle_vector(v, v, order) for v in (x, nearest))
        usual = [
            number(ir.IntType(16), -1),
            number(I32, 4),
        ]  # all lanes; the mode of rounding that is set
        parts.append(build.call(scale, [one, by, one, *usual]))
    return _joined(build, parts)


def _joined(build: ir.IRBuilder, parts: list[Register]) -> Register:
    """Return vectors of one length as one vector: one, two, four of them and so on."""
    while len(parts) > 1:
        count = 2 * int(parts[0].type.count)
        order = ir.Constant(vector(I32, count), list(range(count)))
        parts = [
            build.shuffle_vector(*pair, order) for pair in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def power_32(lanes: VectorBuilder, exponent: Register) -> Register:
    """Return 2**n as f32: n, in the last bits, is in -126 ... 127."""
    build = lanes.builder
    bits = build.add(build.shl(exponent, lanes.i32(23)), lanes.i32(0x3F800000))
    return lanes.cast(bits, FLOAT)


def power_64(lanes: VectorBuilder, exponent: Register) -> Register:
    """Return 2**n as f64: n, in the last bits, is in -1022 ... 1023."""
    build = lanes.builder
    bits = build.add(build.shl(exponent, lanes.i64(52)), lanes.i64(0x3FF0000000000000))
    return lanes.cast(bits, DOUBLE)


def without_multiple(
    lanes: VectorBuilder, x: Register, count: Register, parts: Sequence[Register]
) -> tuple[Register, Register]:
    """Return x plus ``count`` times a constant of three parts, as a sum of two registers.

    The first product leaves an exact rest. Near multiples of the constant the second takes nearly all of that, so that
    what is lost by rounding it, and by the sum, counts.
    """
    build = lanes.builder
    rest = lanes.fma(count, parts[0], x)
    product = build.fmul(count, parts[1])
    low = lanes.fma(count, parts[1], build.fneg(product))
    high = build.fadd(rest, product)
    moved = build.fsub(high, rest)
    low = build.fadd(low, build.fsub(rest, build.fsub(high, moved)))
    low = build.fadd(low, build.fsub(product, moved))
    return high, lanes.fma(count, parts[2], low)


def angle(
    lanes: VectorBuilder,
    y: Register,
    x: Register,
    arc: Callable[[Register], Register],
    less: Callable[[int, Register], Register],
) -> Register:
    """Return the angle of the points (x, y) of f64, with the special cases of C.

    Args:
        lanes: Where code is appended.
        y, x: The coordinates.
        arc: Emits the arc tangent of 0 to 1.
        less: Emits a number of quarter turns less an angle.
    """
    build = lanes.builder
    height, width = lanes.abs(y), lanes.abs(x)
    steep = build.fcmp_ordered(">", height, width)
    top = build.select(steep, width, height)
    bottom = build.select(steep, height, width)
    ratio = build.fdiv(top, bottom)
    # 0 / 0 is no angle, inf / inf is the diagonal
    same = build.fcmp_ordered("==", top, bottom)
    ratio = build.select(same, lanes.f64(1.0), ratio)
    zero = build.fcmp_ordered("==", top, lanes.f64(0.0))
    value = arc(build.select(zero, top, ratio))
    value = build.select(steep, less(1, value), value)
    left = build.icmp_signed("<", lanes.cast(x, I64), lanes.i64(0))
    value = build.select(left, less(2, value), value)
    value = lanes.copysign(value, y)
    unordered = build.fcmp_unordered("uno", x, y)
    return build.select(unordered, build.fadd(x, y), value)

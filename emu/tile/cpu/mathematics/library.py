"""Functions of doubles: the C library's, lane by lane, in a loop that lies outside the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from emu.tile.cpu.registers import (
    DOUBLE,
    I32,
    Lanes,
    Literal,
    declare,
    intrinsic,
    mangle,
    number,
    scalar_of,
    vector,
)
from emu.tile.ops import Code


def double(lanes: Lanes) -> Any:
    """Return the register type of doubles."""
    return lanes.type(DOUBLE)


def emit(lanes: Lanes, code: Code, values: Sequence[Any]) -> Any:
    """Emit a function of doubles.

    Args:
        lanes: Where the code goes, and how many lanes.
        code: From ``exp`` to ``sigmoid``, ``pow`` or ``atan2``.
        values: Registers of double.

    Returns:
        The register of the result.
    """
    build = lanes.builder
    if code is Code.SQRT:
        return intrinsic(build, "sqrt", values)
    if code is Code.RSQRT:
        return build.fdiv(lanes.f64(1.0), intrinsic(build, "sqrt", values))
    if code is Code.SIGMOID:
        # 1 / (1 + exp(-x)), without the overflow that would lose small results
        x = values[0]
        power = call(lanes, "exp", [build.fneg(lanes.abs(x))])
        negative = build.fcmp_ordered("<", x, lanes.f64(0.0))
        top = build.select(negative, power, lanes.f64(1.0))
        return build.fdiv(top, build.fadd(power, lanes.f64(1.0)))
    return call(lanes, code.name.lower(), values)


def call(lanes: Lanes, name: str, values: Sequence[Any]) -> Any:
    """Emit calls of a function of libm, of floats or of doubles, for each lane."""
    build, count = lanes.builder, lanes.count
    scalar = scalar_of(values[0].type)
    function = declare(build, name, scalar, [scalar] * len(values))
    if count is not None:
        function = _looped(build.module, name, function, vector(scalar, count))
    return build.call(function, list(values))


def _looped(module: Any, name: str, scalar: Any, type_: Any) -> Any:
    """Return the function of vectors that calls the function of scalars for each lane."""
    symbol = f"emu.{name}.{mangle(type_)}"
    if symbol in module.globals:
        return module.globals[symbol]
    count = type_.count
    arguments = [type_] * len(scalar.args)
    function = ir.Function(module, ir.FunctionType(type_, arguments), symbol)
    function.linkage = "internal"
    function.attributes.add("noinline")
    entry = function.append_basic_block("entry")
    loop = function.append_basic_block("loop")
    done = function.append_basic_block("done")
    build = ir.IRBuilder(entry)
    build.branch(loop)
    build.position_at_end(loop)
    lane = build.phi(I32)
    result = build.phi(type_)
    lane.add_incoming(number(I32, 0), entry)
    result.add_incoming(Literal(type_, "poison"), entry)
    value = build.call(scalar, [build.extract_element(a, lane) for a in function.args])
    updated = build.insert_element(result, value, lane)
    following = build.add(lane, number(I32, 1))
    lane.add_incoming(following, loop)
    result.add_incoming(updated, loop)
    build.cbranch(build.icmp_unsigned("<", following, number(I32, count)), loop, done)
    build.position_at_end(done)
    build.ret(updated)
    return function

"""Quotients of many fp32 lanes by one number: one multiplication and two fused multiply-adds instead of a division.

With r, the reciprocal of the divisor s rounded to nearest, q = x * r is close to the quotient, and q - (q * s - x) * r
is the quotient rounded to nearest, bit for bit what a division gives, as long as nothing underflows or overflows.
So a run whose lanes are all of moderate size takes this way; one that holds a zero, an infinity, a NaN or a number of
extreme size is divided.
"""

from __future__ import annotations

from llvmlite import ir

from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.llvm import Register

_LARGEST = 60
"""Exponent: dividends and divisors from 2**-60 to 2**60 are of moderate size; their quotients and remainders are normal."""

_LOW, _HIGH = ((127 - _LARGEST) << 24, (127 + _LARGEST) << 24)  # bits, shifted left by the sign


class Divisor:
    """Emitter of quotients by one number.

    Args:
        builder: Where what depends on the divisor alone goes.
        divisor: A scalar fp32 register.
    """

    def __init__(self, builder: ir.IRBuilder, divisor: Register) -> None:
        self._divisor = divisor
        self._reciprocal = builder.fdiv(ir.Constant(divisor.type, 1.0), divisor)
        # Of a negative divisor, quotients of zeros would get the wrong sign; they are divided anyway. Here
        # the sign bit makes the number too large, so that no run passes.
        bits = builder.sub(builder.bitcast(divisor, r.I32), r.number(r.I32, _LOW >> 1))
        moderate = builder.icmp_unsigned("<", bits, r.number(r.I32, (_HIGH - _LOW) >> 1))
        width = r.number(r.I32, _HIGH - _LOW)
        self._width = builder.select(moderate, width, r.number(r.I32, 0))

    def emit(self, builder: ir.IRBuilder, x: Register) -> Register:
        """Return the quotient of each lane; the builder goes on in another block."""
        lanes = r.lanes_of(x.type)
        assert lanes is not None
        ints = r.vector(r.I32, lanes)
        bits = builder.bitcast(x, ints)
        place = builder.sub(builder.add(bits, bits), r.number(ints, _LOW))
        inside = builder.icmp_unsigned("<", place, r.splat(builder, self._width, lanes))
        name = f"llvm.vector.reduce.and.{r.mangle(inside.type)}"
        all_inside = builder.call(r.declare(builder, name, r.BIT, [inside.type]), [inside])
        function = builder.function
        multiplied, divided, after = (function.append_basic_block() for _ in range(3))
        builder.cbranch(all_inside, multiplied, divided)
        builder.position_at_end(divided)
        slow = builder.fdiv(x, r.splat(builder, self._divisor, lanes))
        builder.branch(after)
        builder.position_at_end(multiplied)
        fast = self._multiplied(builder, x, lanes)
        builder.branch(after)
        builder.position_at_end(after)
        quotient = builder.phi(x.type)
        quotient.add_incoming(fast, multiplied)
        quotient.add_incoming(slow, divided)
        return quotient

    def _multiplied(self, builder: ir.IRBuilder, x: Register, lanes: int) -> Register:
        divisor, reciprocal = (
            r.splat(builder, v, lanes) for v in (self._divisor, self._reciprocal)
        )
        fma = r.declare(builder, f"llvm.fma.{r.mangle(x.type)}", x.type, [x.type] * 3)
        near = builder.fmul(x, reciprocal)
        excess = builder.call(fma, [near, divisor, builder.fneg(x)])
        return builder.call(fma, [builder.fneg(reciprocal), excess, near])

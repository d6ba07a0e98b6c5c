"""The error function of f32."""

from __future__ import annotations

from emu.tile.cpu.numeric.mathematics.shared import nearest_32, power_32
from emu.tile.cpu.numeric.vector_builder import VectorBuilder
from emu.tile.llvm import Register

_SMALL = (  # erf(x) = x + x * SMALL(x**2), x**2 <= 1: 2**-27.7
    0.12837916612625122,
    -0.3761262595653534,
    0.1128358542919159,
    -0.026853810995817184,
    0.005188327748328447,
    -0.0008010193123482168,
    7.853859278839082e-05,
)
_LARGE = (  # erf(x) = 1 - 2**LARGE(x), 1 <= x <= 4: 2**-28.8
    -0.00046249982551671565,
    -1.6261649131774902,
    -0.920457124710083,
    -0.14891234040260315,
    0.03158005326986313,
    -0.00427053589373827,
    0.0002706559025682509,
)
_POWER = (  # 2**r, |r| <= 1/2; it counts for less than a fifth of the result: 2**-24.3
    1.0000001192092896,
    0.6931469440460205,
    0.24022115767002106,
    0.05550715699791908,
    0.009675770066678524,
    0.0013276246609166265,
)


def erf(lanes: VectorBuilder, x: Register) -> Register:
    """2 / sqrt(pi) times the integral of e**-t**2 from 0 to x."""
    build = lanes.builder
    square = build.fmul(x, x)
    size = lanes.abs(x)
    near = lanes.fma(size, lanes.polynomial(square, _SMALL), size)
    logarithm = lanes.polynomial(lanes.clamp(size, 0.0, 4.0), _LARGE)
    nearest, exponent = nearest_32(lanes, logarithm, 1.0)
    power = lanes.polynomial(build.fsub(logarithm, nearest), _POWER)
    scale = power_32(lanes, exponent)
    far = lanes.fma(build.fneg(power), scale, lanes.f32(1.0))
    small = build.fcmp_ordered("<", size, lanes.f32(1.0))
    return lanes.copysign(build.select(small, near, far), x)

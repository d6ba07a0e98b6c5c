"""Compiled generators of random bits, bit for bit the reference's."""

from __future__ import annotations

import numpy as np
import pytest
from stablehlo_compiled import check, function

SHAPES = [(), (1,), (7,), (3, 5), (5, 4, 3), (2, 9)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", ["ui32", "ui64", "ui8", "i16", "f32"])
@pytest.mark.parametrize(
    ("algorithm", "words"), [("THREE_FRY", 2), ("PHILOX", 2), ("PHILOX", 3), ("DEFAULT", 3)]
)
def test_bits(algorithm: str, words: int, element: str, shape: tuple[int, ...]) -> None:
    """Counters near their end carry into the next word."""
    t = "tensor<" + "".join(f"{n}x" for n in shape) + f"{element}>"
    s = f"tensor<{words}xui64>"
    body = (
        f'%0:2 = "stablehlo.rng_bit_generator"(%s) <{{rng_algorithm = #stablehlo<rng_algorithm {algorithm}>}}> : '
        f"({s}) -> ({s}, {t})\n"
        f"%1 = stablehlo.bitcast_convert %0#1 : ({t}) -> {t.replace('f32', 'ui32')}\n"
        f"return %0#0, %1 : {s}, {t.replace('f32', 'ui32')}"
    )
    text = function(body, f"%s: {s}", f"{s}, {t.replace('f32', 'ui32')}")
    for low in (5, 2**64 - 1, 2**64 - 3):
        state = np.array([0x0123456789ABCDEF, low, 2**64 - 1][:words], np.uint64)
        check(text, state)


def test_a_state_of_words_of_32_bits() -> None:
    s, t = "tensor<4xui32>", "tensor<9xui32>"
    body = (
        '%0:2 = "stablehlo.rng_bit_generator"(%s) <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}> : '
        f"({s}) -> ({s}, {t})\nreturn %0#0, %0#1 : {s}, {t}"
    )
    check(function(body, f"%s: {s}", f"{s}, {t}"), np.array([1, 2, 2**32 - 1, 4], np.uint32))

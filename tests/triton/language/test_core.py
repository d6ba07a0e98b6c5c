"""What Triton keeps in ``tl.core``."""

from __future__ import annotations

import numpy as np
from language_harness import emit, evaluate

import emu.triton.language as tl


def test_every_public_function_is_marked_as_the_languages_own() -> None:
    for name in tl.__all__:
        assert hasattr(tl, name)
        found = getattr(tl, name)
        if callable(found) and not isinstance(found, type):
            assert tl.core.is_builtin(found), name
    assert not tl.core.is_builtin(emit)


def test_pythons_min_and_max_in_programs() -> None:
    assert tl.core.builtin_max(tl.constexpr(3), 5).value == 5
    assert tl.core.builtin_min(tl.constexpr((3, 1, 2))[0], 5).value == 3
    x = np.array(7, np.int32)
    assert evaluate(lambda t: tl.core.builtin_max(t, 3, tl.constexpr(9)), x) == 9
    assert evaluate(lambda t: tl.core.builtin_min(t, 3), x) == 3

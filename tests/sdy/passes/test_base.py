"""The registry of passes."""

from __future__ import annotations

from emu.sdy.passes.base import registered
from emu.sdy.passes.generic import Canonicalize
from emu.sdy.passes.text import parse_pipeline


def test_passes_are_known_by_name():
    assert {"canonicalize", "cse", "symbol-dce", "strip-debuginfo"} <= set(registered())
    text = "canonicalize{top-down=false enable-patterns=sdy-reshard,sdy-collective}"
    assert parse_pipeline(text) == [
        Canonicalize(top_down=False, enable_patterns=("sdy-reshard", "sdy-collective"))
    ]

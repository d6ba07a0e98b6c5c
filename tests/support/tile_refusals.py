"""Programs with one wrong operation, which the verifier must refuse."""

from __future__ import annotations

import re

import pytest

from emu.tile.text import parse_module
from emu.tile.verify import VerifyError, verify


def check_refused(line: str, message: str) -> None:
    """Check that a program with an operation is refused with a message."""
    text = f"""
func @kernel(%i: i32, %f: f32, %c: i1, %p: ptr<f32>, %q: ptr<i32>) {{
  %t = constant {{value = 1}} : tile<4x8xi32>
  %x = constant {{value = 1}} : tile<4x8xf32>
  %y = constant {{value = 1}} : tile<8x4xf32>
  {line}
  return
}}
func @helper(%i: i32) -> (i32) {{
  return %i
}}
"""
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify(parse_module(text))

"""The context of the kernel that is being compiled."""

from __future__ import annotations

import pytest
from language_harness import value

import emu.triton.language as tl
from emu.tile import ir
from emu.triton.language.context import Context, building, current


def test_nothing_can_be_called_outside_of_a_program() -> None:
    for function in (lambda: tl.program_id(0), lambda: value("int32") + 1, current):
        with pytest.raises(RuntimeError, match=r"decorated with @triton\.jit"):
            function()


def test_contexts_nest() -> None:
    outer, inner = (Context(ir.Builder(), ir.Module()) for _ in range(2))
    with building(outer):
        assert current() is outer
        with building(inner):
            assert current() is inner
            tl.program_id(0)
        assert current() is outer
    assert len(inner.builder.region.operations) == 1
    assert not outer.builder.region.operations

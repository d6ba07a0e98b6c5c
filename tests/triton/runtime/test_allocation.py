"""Allocators that programs set."""

import contextvars

import pytest

from emu import triton
from emu.triton.runtime import _allocation


def test_before_one_is_set_there_is_one_that_refuses():
    def inside():
        with pytest.raises(RuntimeError, match="no allocator is set that could give 64 bytes"):
            _allocation._allocator.get()(64, 16, None)
        given = []
        triton.set_allocator(lambda size, alignment, stream: given.append(size))
        _allocation._allocator.get()(64, 16, None)
        assert given == [64]
        triton.set_allocator(_allocation.NullAllocator())

    contextvars.Context().run(inside)  # what is set belongs to its context


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="allocator must be callable, but got NoneType"):
        triton.set_allocator(None)
    with pytest.raises(TypeError, match="allocator must be callable, but got int"):
        _allocation.set_profile_allocator(3)


def test_the_allocator_of_instrumented_kernels_can_be_removed():
    def inside():
        assert not _allocation.has_profile_allocator()
        _allocation.set_profile_allocator(lambda size, alignment, stream: None)
        assert _allocation.has_profile_allocator()
        _allocation.set_profile_allocator(None)
        assert not _allocation.has_profile_allocator()

    contextvars.Context().run(inside)

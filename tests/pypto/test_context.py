"""The state of one PE's programs: one object, back as it was after a kernel that fails."""

import pytest

import emu
from emu import pypto as p
from emu.pypto import distributed as d
from emu.pypto.context import CONTEXT, Context


def test_a_context_starts_empty():
    new = Context()
    assert (new.kernel_depth, new.vec_tile, new.cube_tile) == (0, (), ())
    assert not new.groups
    assert not new.group_sizes
    assert not new.lifetimes
    assert new.graph.idle


def test_a_failing_kernel_leaves_the_context_as_it_was():
    scope = CONTEXT.graph.scope

    @p.jit(schedule="random", seed=1)
    def fails():
        _ = p.ones([2, 2]) + 1.0
        assert CONTEXT.kernel_depth == 1
        assert CONTEXT.graph.pending == 1
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fails()
    assert CONTEXT.kernel_depth == 0
    assert CONTEXT.graph.scope is scope
    assert CONTEXT.graph.idle
    assert CONTEXT.graph.pending == 0


def count_creates():
    p.set_vec_tile_shapes(2, 2)

    @p.jit
    def kernel():
        d.create_shmem_tensor("tp", 2, p.DT_FP32, [2, 2])
        d.create_shmem_signal("tp", 2)

    for _ in range(3):
        kernel()
        emu.world().barrier()
    lifetimes = CONTEXT.lifetimes[CONTEXT.groups["tp"].name] if "tp" in CONTEXT.groups else None
    assert lifetimes is not None
    return lifetimes.created, len(lifetimes._retired), CONTEXT.group_sizes


def test_creates_are_counted_per_group_and_their_slots_given_back():
    for created, retired, sizes in emu.launch(count_creates, 2, timeout=60):
        assert created == 6
        assert retired <= 2  # those of the last kernel wait for the next create
        assert sizes == {"tp": 2}

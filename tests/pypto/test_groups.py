"""Groups by name."""

from __future__ import annotations

import pytest

import emu


def make_groups() -> None:
    import emu.pypto as p

    world = emu.world()
    if world.my_pe == 0:
        world.group("first", [0])
        p.distributed.create_shmem_tensor("first", 1, p.DT_FP32, [2, 2])
        with pytest.raises(p.ArgumentError, match="equal for every create"):
            p.distributed.create_shmem_tensor("first", 2, p.DT_FP32, [2, 2])
    world.barrier()
    if world.my_pe == 1:
        with pytest.raises(p.GroupError, match="must be a member of group 'first'"):
            p.distributed.my_symbolic_pe("first")
    assert p.distributed.my_symbolic_pe("everyone") == world.my_pe
    t = p.distributed.create_shmem_tensor("everyone", 2, p.DT_FP32, [2, 2])
    assert t.n_pes == 2


def test_groups_by_name():
    emu.launch(make_groups, 2, timeout=20)

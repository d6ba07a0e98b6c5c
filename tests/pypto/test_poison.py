"""Poisoned memory: data shows it, signals do not."""

from __future__ import annotations

import numpy as np

import emu
from emu import pypto


def fresh_data_and_added_signal() -> tuple[bool, bool]:
    pypto.set_vec_tile_shapes(4, 4)
    world = emu.world()
    memory = pypto.distributed.create_shmem_tensor("tp", world.n_pes, pypto.DT_FP32, [4, 4])
    before = np.asarray(pypto.distributed.shmem_load(memory, world.my_pe))
    signalled = pypto.distributed.shmem_signal(
        memory, 0, 1, target_pe=-1, sig_op=pypto.AtomicType.ADD
    )
    arrived = pypto.distributed.shmem_wait_until(memory, 0, world.n_pes, pred=[signalled])
    return bool(np.isnan(before).all()), np.asarray(arrived) is not None


def test_poison_reaches_data_but_not_signals() -> None:
    found = emu.launch(fresh_data_and_added_signal, 3, poison=True, timeout=10)
    assert found == [(True, True)] * 3

"""Programs of front ends under faults end with a report, and not with a hang."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import emu

pytestmark = pytest.mark.slow  # they compile kernels


def fails(fn: Callable[[], None], spec: str) -> ExceptionGroup:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(fn, 2, faults=emu.Faults(spec), timeout=20)
    return caught.value


def died(group: ExceptionGroup, pe: int) -> bool:
    (error,) = group.exceptions
    return isinstance(error, emu.PEDiedError) and error.pe == pe


# --- PyPTO -----------------------------------------------------------------------------------


def exchanges_tiles() -> None:
    import emu.pypto as p

    me = emu.world().my_pe
    p.set_vec_tile_shapes(4, 8)
    data = p.distributed.create_shmem_tensor("tp", 2, p.DT_FP32, [8, 16])
    p.distributed.shmem_signal(data, me, 1, target_pe=1 - me)
    p.distributed.shmem_wait_until(data, 1 - me, 1)
    p.synchronize()


def test_pypto_without_a_signal_names_the_tile() -> None:
    emu.launch(exchanges_tiles, 2)
    group = fails(exchanges_tiles, "drop-signal:from=0,to=1,nth=1")
    assert group.split(emu.DeadlockError)[1] is None
    assert "src_pe 0: 1 of 4 tiles missing: tile (0, 0) of the grid 2 x 2" in str(group)


def test_pypto_without_a_pe_names_it() -> None:
    assert died(fails(exchanges_tiles, "kill:pe=1,at=signal_op:2"), 1)


# --- torch.distributed -----------------------------------------------------------------------


def sends_a_tensor() -> None:
    from distributed_tensors import begin

    torch, dist, _ = begin()
    x = torch.ones(4, device="cuda")
    if dist.get_rank() == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    dist.all_reduce(x)


def test_torch_without_a_signal_names_who_receives() -> None:
    pytest.importorskip("torch.distributed")
    group = fails(sends_a_tensor, "drop-signal:from=0,to=1,nth=1")
    assert group.split(emu.DeadlockError)[1] is None
    assert "PE 1 waits in wait_until for torch.distributed: messages that came" in str(group)


def test_torch_without_a_pe_names_it() -> None:
    pytest.importorskip("torch.distributed")
    assert died(fails(sends_a_tensor, "kill:pe=1,at=all_reduce:1"), 1)


# --- Hccl ------------------------------------------------------------------------------------


def gathers_after_a_signal() -> None:
    from emu.mc2 import Hccl

    world = emu.world()
    flag = world.alloc(1, np.int64, name="ready")
    x, out = np.zeros(8, np.float32), np.zeros(16, np.float32)
    with Hccl() as hccl:
        if world.my_pe == 0:
            world.signal_op(flag, 1, 1)
        else:
            world.wait_until(flag, emu.Cmp.EQ, 1)
        hccl.Wait(hccl.AllGather(x, out, 2, commit=True))


def test_hccl_without_a_signal_names_the_task() -> None:
    emu.launch(gathers_after_a_signal, 2)
    group = fails(gathers_after_a_signal, "drop-signal:from=0,to=1,nth=1")
    assert group.split(emu.DeadlockError)[1] is None
    assert "PE 0 waits in Hccl.Wait(0) of AllGather" in str(group)
    assert "PE 1 waits in wait_until for ready[0] EQ 1" in str(group)


def test_hccl_without_a_pe_names_it() -> None:
    assert died(fails(gathers_after_a_signal, "kill:pe=1,at=wait_until:1"), 1)
    for at in ("post_task:1", "wait_for_task:1"):
        assert died(fails(gathers_after_a_signal, f"kill:pe=1,at={at}"), 1)

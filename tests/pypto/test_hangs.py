"""Programs that hang: the report names the op, the tiles, what came instead, and what is held up."""

from __future__ import annotations

import numpy as np
import pytest

import emu
import emu.pypto as p
from emu.check.deadlock import Kind, deadlock_of
from emu.comm.errors import DeadlockError

pytestmark = pytest.mark.slow

d = p.distributed
ADD, SET = p.AtomicType.ADD, p.AtomicType.SET
FP32 = p.DT_FP32


def report_of(function, n_pes=2, args=()) -> str:
    """Launch what must hang; return the report."""
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(function, n_pes, args=args, timeout=3.0)
    assert caught.value.split(DeadlockError)[0] is not None
    return str(caught.value)


def all_at_once() -> None:
    """Let every op so far be done on all PEs before the next: what a wait sees is no race."""
    p.synchronize()
    emu.world().barrier()


def data_of(n_pes, shape=(8, 16)):
    p.set_vec_tile_shapes(4, 8)
    return d.create_shmem_tensor("tp", n_pes, FP32, list(shape))


def other_tiles() -> None:
    data = data_of(2)
    if emu.world().my_pe == 1:
        p.set_vec_tile_shapes(2, 8)
        d.shmem_signal(data, 1, 1, target_pe=0)
    else:
        d.shmem_wait_until(data, 1, 1)


def test_other_tile_shapes_than_the_waiter_expects():
    report = report_of(other_tiles)
    assert (
        "shmem1 view [8, 16] at [0, 0] in tiles of [4, 8], src_pe 1: 4 of 4 tiles missing" in report
    )
    assert (
        "tile (0, 0) of the grid 2 x 2, rows 0..3, columns 0..7; tile (0, 1), rows 0..3, columns 8..15; "
        "tile (1, 0), rows 4..7, columns 0..7; tile (1, 1), rows 4..7, columns 8..15"
    ) in report
    assert "signalled in other tiles, of [2, 8] instead of [4, 8]" in report
    assert "a grid of 4 x 2 tiles where this wait looks at 2 x 2" in report
    assert "8 of 8 tiles of src_pe 1 hold 1, 1, 1, 1, …, last writer: PE 1 (SET)" in report
    assert (
        "shmem_wait_until: shmem1 tiles (0, 0), (0, 1), (1, 0), (1, 1) of the grid 2 x 2 of src_pe 1 == 1"
        in report
    )


def neighbouring_slot() -> None:
    data = data_of(3)
    if emu.world().my_pe == 1:
        d.shmem_signal(data, 0, 7, target_pe=2)  # its own row is 1
    if emu.world().my_pe == 2:
        d.shmem_wait_until(data, 1, 7)


def test_a_signal_in_a_neighbouring_slot():
    report = report_of(neighbouring_slot, 3)
    assert "signalled in a neighbouring slot, with src_pe=0 instead of 1" in report
    assert "4 of 4 tiles of src_pe 0 hold 7, 7, 7, 7, last writer: PE 1 (SET)" in report


def neighbouring_word() -> None:
    data = d.create_shmem_signal("tp", 2)
    if emu.world().my_pe == 1:
        d.shmem_signal(data, 0, 3, target_pe=0)
    else:
        d.shmem_wait_until(data, 1, 3)


def test_a_neighbouring_slot_of_a_tensor_of_signals():
    report = report_of(neighbouring_word)
    assert "shmem1 (signals only), src_pe 1: 1 of 1 slots missing" in report
    assert "signalled in a neighbouring slot, with src_pe=0 instead of 1" in report
    assert "the slot of src_pe 0 holds 3, last writer: PE 1 (SET)" in report


def overtaken() -> None:
    data = d.create_shmem_signal("tp", 3)
    if emu.world().my_pe:
        d.shmem_signal(data, 0, 1, target_pe=0, sig_op=ADD)
    all_at_once()
    if emu.world().my_pe == 0:
        d.shmem_wait_until(data, 0, 1)


def test_an_equal_wait_overtaken_by_a_second_add():
    report = report_of(overtaken, 3)
    assert "its slot holds 2 and has passed 1, which EQ never matches again" in report
    assert "(ADD) came last: wait for the sum of all ADDs" in report


def set_instead_of_add() -> None:
    data = d.create_shmem_signal("tp", 3)
    if emu.world().my_pe:
        d.shmem_signal(data, 0, 1, target_pe=0)
    else:
        d.shmem_wait_until(data, 0, 2)


def test_set_where_signals_are_counted():
    report = report_of(set_instead_of_add, 3)
    assert "its slot holds 1 where 2 is wanted" in report
    assert (
        "(SET) came last: SET replaces what others have signalled, sig_op=ADD counts them" in report
    )


def one_add_missing() -> None:
    data = d.create_shmem_signal("tp", 3)
    if emu.world().my_pe == 1:
        d.shmem_signal(data, 0, 1, target_pe=0, sig_op=ADD)
    if emu.world().my_pe == 0:
        d.shmem_wait_until(data, 0, 2)


def test_a_count_that_is_not_reached():
    assert "its slot holds 1 of 2, PE 1 (ADD) came last" in report_of(one_add_missing, 3)


def other_value() -> None:
    data = d.create_shmem_signal("tp", 2)
    if emu.world().my_pe:
        d.shmem_signal(data, 0, 5, target_pe=0)
    else:
        d.shmem_wait_until(data, 0, 3)


def test_another_value_than_the_one_waited_for():
    report = report_of(other_value)
    assert "its slot holds 5, which is not EQ 3; PE 1 (SET) wrote it" in report


def other_offset() -> None:
    data = data_of(2)
    me = emu.world().my_pe
    if me == 1:
        d.shmem_signal(data, me, 1, [4, 16], [0, 0], target_pe=0)
    else:
        d.shmem_wait_until(data, 1, 1, [4, 16], [4, 0])


def test_an_offset_that_nobody_signals():
    report = report_of(other_offset)
    assert "view [4, 16] at [4, 0] in tiles of [4, 8], src_pe 1: 2 of 2 tiles missing" in report
    assert (
        "tile (0, 0) of the grid 1 x 2, rows 4..7, columns 0..7; tile (0, 1), rows 4..7, columns 8..15"
        in report
    )
    assert "signalled at other offsets, [0, 0] instead of [4, 0]" in report
    assert "no PE has signalled these slots, neither here nor on another PE" in report_of(nobody)


def nobody() -> None:
    data = data_of(2)
    if emu.world().my_pe == 0:
        d.shmem_wait_until(data, 1, 1)


def other_shape() -> None:
    data = data_of(2)
    if emu.world().my_pe == 1:
        d.shmem_signal(data, 1, 1, [4, 16], [0, 0], target_pe=0)
    else:
        d.shmem_wait_until(data, 1, 1)


def test_another_shape_at_the_same_corner():
    assert "signalled with another shape, [4, 16] instead of [8, 16]" in report_of(other_shape)


def wrong_target() -> None:
    data = data_of(3)
    if emu.world().my_pe == 1:
        d.shmem_signal(data, 1, 1, target_pe=2)
    if emu.world().my_pe == 0:
        d.shmem_wait_until(data, 1, 1)


def test_a_signal_to_another_pe():
    report = report_of(wrong_target, 3)
    assert "the same slots were signalled on PE 2 of the group" in report
    assert "last writer: PE 1 (SET)), not here: look at target_pe" in report


def never_issued() -> None:
    """Each PE stores only when it has been stored to: nobody begins."""
    data, me = data_of(2), emu.world().my_pe
    arrived = d.shmem_wait_until(data, 1 - me, 1)
    mine = d.shmem_get(data, me, pred=[arrived])
    stored = d.shmem_put(p.add(mine, 1.0), [0, 0], data, 1 - me)
    d.shmem_signal(data, me, 1, target_pe=1 - me, pred=[stored])


def test_the_put_that_was_never_issued():
    report = report_of(never_issued)
    for me in range(2):
        assert "not started: 4 ops behind what is waited for" in report
        assert f"[8, 16] of shmem1 at [0, 0] on PE {me}" in report
        assert f"[8, 16] to shmem1 at [0, 0] on PE {1 - me}" in report
        assert f"SET 1 to PE {1 - me}; shmem1 view [8, 16]" in report
    assert report.count(", behind op 1") == 8
    line = never_issued.__code__.co_firstlineno
    assert f"shmem_wait_until (op 1, test_hangs.py:{line + 3})" in report
    assert f"shmem_put (op 4, test_hangs.py:{line + 5})" in report


def two_waits() -> None:
    """Each of two results needs its own wait, and a third both."""
    data, me = data_of(2), emu.world().my_pe
    first = d.shmem_wait_until(data, 0, 1)
    second = d.shmem_wait_until(data, 1, 1)
    x = d.shmem_get(data, me, pred=[first])
    y = d.shmem_get(data, me, pred=[second])
    d.shmem_put(p.add(x, y), [0, 0], data, 1 - me)


def test_which_op_is_behind_which_wait():
    report = report_of(two_waits)
    line = two_waits.__code__.co_firstlineno
    start = f"test_hangs.py:{line + 5}): [8, 16] of shmem1 at [0, 0] on PE 0, behind op 1\n"
    assert f"shmem_get (op 3, {start}" in report
    assert (
        f"(op 4, test_hangs.py:{line + 6}): [8, 16] of shmem1 at [0, 0] on PE 0, behind op 2\n"
        in report
    )
    assert f"add (op 5, test_hangs.py:{line + 7}), behind ops 1 and 2" in report


def one_row_missing() -> None:
    data = d.create_shmem_tensor("tp", 2, FP32, [10, 40])
    p.set_vec_tile_shapes(4, 8)
    if emu.world().my_pe == 1:
        d.shmem_signal(data, 1, 1, target_pe=0)
    p.synchronize()
    emu.world().barrier()
    if emu.world().my_pe == 0:
        slots, n_tiles = data.slots(None, None, "")
        assert n_tiles == 15
        slots.local[1, 5:] = 0
        d.shmem_wait_until(data, 1, 1)


def test_missing_tiles_that_make_up_a_rectangle():
    report = report_of(one_row_missing)
    assert (
        "10 of 15 tiles missing: tiles (1, 0) to (2, 4) of the grid 3 x 5, rows 4..9, columns 0..39"
        in report
    )


def taken() -> None:
    data = d.create_shmem_signal("tp", 2)
    if emu.world().my_pe == 1:
        d.shmem_signal(data, 1, 1, target_pe=0)
        return
    first = d.shmem_wait_until(data, 1, 1, clear_signal=True)
    d.shmem_wait_until(data, 1, 1, clear_signal=True, pred=[first])


def test_a_signal_that_an_earlier_wait_has_cleared():
    report = report_of(taken)
    assert (
        "holds 0: an earlier wait with clear_signal or a shmem_clear_signal took the signal"
        in report
    )


def other_tensor() -> None:
    me = emu.world().my_pe
    first, second = d.create_shmem_signal("tp", 2), d.create_shmem_signal("tp", 2)
    if me == 1:
        d.shmem_signal(first, 1, 1, target_pe=0)
    else:
        d.shmem_wait_until(second, 1, 1)


def test_a_signal_on_another_tensor():
    report = report_of(other_tensor)
    assert "signalled on another tensor, shmem1 instead of shmem2" in report


def barriers_apart() -> None:
    first, second = data_of(2), data_of(2)
    d.shmem_barrier_all(second if emu.world().my_pe else first)


def test_barriers_of_different_tensors():
    report = report_of(barriers_apart)
    assert "shmem1: 1 of 2 PEs of group 'world' have arrived" in report
    assert "1 of 2 have arrived at the barrier of shmem2 instead" in report


def barrier_of_the_world() -> None:
    """PE 1 sends only when it drains, which it never comes to."""
    me, data = emu.world().my_pe, d.create_shmem_signal("tp", 2)
    got = d.shmem_wait_until(data, 1 - me, 1)
    if me == 0:
        p.synchronize()
    d.shmem_signal(data, me, 1, target_pe=1 - me, pred=[got])
    emu.world().barrier()


def test_ops_that_are_pending_while_the_pe_waits_elsewhere():
    report = report_of(barrier_of_the_world)
    assert "PE 1 waits in barrier" in report
    assert "shmem_signal (op 2" in report.split("PE 1 waits in barrier")[1]


def late() -> None:
    world, data = emu.world(), data_of(2)
    if world.my_pe == 0:
        d.shmem_wait_until(data, 1, 1)
    else:
        while "shmem_wait_until" not in world.segment.read_text(0):
            pass  # until PE 0 has described its wait for the first time
        d.shmem_signal(data, 0, 1, target_pe=0)


def test_what_comes_after_the_wait_was_first_described():
    assert "signalled in a neighbouring slot, with src_pe=0 instead of 1" in report_of(late)


def many() -> None:
    data = d.create_shmem_tensor("tp", 2, FP32, [64, 64])
    p.set_vec_tile_shapes(1, 1)
    for row in range(64):
        d.shmem_wait_until(data, 1, 1, [1, 64], [row, 0])
    if emu.world().my_pe:
        d.shmem_put(p.zeros([2, 2]), [0, 0], data, 0)


def test_a_report_of_many_waits_fits_its_room():
    report = report_of(many)
    assert "and 61 waits more" in report
    assert report.count("view [1, 64] at [0, 0] in tiles of [1, 1]") >= 2


@p.frontend.jit(schedule="random", seed=1)
def gather_beyond(index):
    p.gather(p.zeros([2, 2]), 0, index)


def test_an_op_that_fails_later_is_named_with_its_place():
    with pytest.raises(p.ArgumentError) as caught:
        gather_beyond(np.full((2, 2), 9, np.int32))
    line = gather_beyond._function.__code__.co_firstlineno + 2
    assert f"test_hangs.py:{line}) of this PE" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("program", "n_pes", "kind"),
    [
        (other_tiles, 2, Kind.OTHER_TILES),
        (neighbouring_slot, 3, Kind.OTHER_INDEX),
        (neighbouring_word, 2, Kind.OTHER_INDEX),
        (overtaken, 3, Kind.OVERTAKEN),
        (set_instead_of_add, 3, Kind.SET_NOT_ADD),
        (one_add_missing, 3, Kind.TOO_FEW),
        (other_value, 2, Kind.OTHER_VALUE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_explained_is_the_named_cause(program, n_pes, kind):
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(program, n_pes, timeout=60)
    found = deadlock_of(caught.value)
    assert found.is_proved
    assert found.causes[0].kind is kind

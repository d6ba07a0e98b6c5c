"""The steps of a turn, executed for all members by one process: no waits, only addresses and bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variants import thorough

from emu.comm.engine import steps
from emu.comm.engine.records import KEPT, MEMBER, NONE, PULL, PUSHED, REDUCTION, STAGE, words
from emu.comm.layout import LINE
from emu.kernels.reduce import CODES, SCRATCH_BYTES, SUM

PLAN = words(*REDUCTION)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def aligned(nbytes: int) -> np.ndarray:
    memory = np.zeros(nbytes + LINE, np.uint8)
    start = -address(memory) % LINE
    return memory[start : start + nbytes]


def plan_of(**fields: int) -> np.record:
    plan = np.zeros(1, PLAN)
    for name, value in fields.items():
        plan[name] = value
    return plan.view(np.recarray)[0]


@settings(max_examples=30, deadline=None)
@given(
    total=st.integers(0, 300),
    count=st.integers(1, 120),
    n_pes=st.integers(1, 5),
    itemsize=st.sampled_from([1, 2, 4, 8]),
)
def test_slices_of_all_members_are_the_turn_and_are_cut_at_cache_lines(
    total: int, count: int, n_pes: int, itemsize: int
) -> None:
    plan = plan_of(total=total, count=count, n_pes=n_pes, itemsize=itemsize, sliced=1)
    for turn in range(total // count + 2):
        end = 0
        for member in range(n_pes):
            first, elements = steps.slice_of(plan, member, turn)
            assert first == end
            assert elements == 0 or first * itemsize % LINE == 0
            end = first + elements
        assert end == max(0, min(count, total - turn * count))


@pytest.mark.parametrize("delivery", [KEPT, PUSHED, NONE])
@pytest.mark.parametrize("in_place", [(), (1,), (0, 1, 2)])
@pytest.mark.parametrize(
    ("total", "count"), thorough([(1, 96), (96, 96), (250, 96), (1000, 333)], (1, 96), (250, 96))
)
def test_turns_of_a_reduction_in_slices_give_everyone_the_sum(
    delivery: int, in_place: tuple[int, ...], total: int, count: int
) -> None:
    n_pes, size = 3, 4
    random = np.random.default_rng(total)
    inputs = [random.integers(-99, 99, total).astype(np.int32) for _ in range(n_pes)]
    outputs = [np.zeros(total, np.int32) for _ in range(n_pes)]
    slot_bytes, result_bytes = 2048, 1024
    staging = [aligned(2 * slot_bytes) for _ in range(n_pes)]
    results = [aligned(2 * result_bytes) for _ in range(n_pes)]
    scratch, addresses = aligned(SCRATCH_BYTES), np.zeros(2 * n_pes + 1, np.int64)
    plans, stages, members = [], [], []
    for my in range(n_pes):
        fields = {
            "my": my, "n_pes": n_pes, "itemsize": size, "dtype_code": CODES[np.dtype(np.int32)],
            "op": SUM, "count": count, "total": total, "sliced": 1, "output": address(outputs[my]),
            "delivery": delivery, "staging": address(staging[my]), "slot_bytes": slot_bytes,
            "results": address(results[my]), "result_bytes": result_bytes, "scratch": address(scratch),
        }  # fmt: skip
        plans.append(plan_of(**fields))
        row = (address(inputs[my]), total * size, 0, count * size, 0)
        stages.append(np.array([] if my in in_place else [row], STAGE).view(np.recarray))
        table = np.zeros(n_pes, MEMBER)
        for pe in range(n_pes):
            direct = pe == my or pe in in_place
            table[pe] = (
                address(inputs[pe] if direct else staging[pe]),
                0 if direct else slot_bytes,
                address(results[pe] if delivery == KEPT else outputs[pe]),
                result_bytes if delivery == KEPT else 0,
            )
        members.append(table.view(np.recarray))
    for turn in range(-(-total // count)):
        slot = (turn + 1) & 1
        for my in range(n_pes):
            steps.stage_turn(plans[my], stages[my], turn, slot, 0)
        for my in range(n_pes):
            steps.reduce_slice(plans[my], members[my], addresses, turn, slot, 0)
        if delivery != PUSHED:
            for my in range(n_pes):
                for member in range(n_pes):
                    if member != my:
                        steps.collect_slice(plans[my], members[my], member, turn, slot, 0)
    for output in outputs:
        np.testing.assert_array_equal(output, sum(inputs))


@pytest.mark.parametrize("nbytes", [0, 1, 100, 300, 301])
def test_staged_and_direct_blocks_arrive_whole_piece_by_piece(nbytes: int) -> None:
    block = np.arange(nbytes).astype(np.uint8)
    staging, own = np.zeros(2 * 512, np.uint8), np.zeros(nbytes, np.uint8)
    staged, direct = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    plan = plan_of(staging=address(staging), slot_bytes=512)
    stage = np.array([(address(block), nbytes, 64, 100, address(own))], STAGE).view(np.recarray)
    rows = [
        (address(staging) + 64, address(staged), nbytes, 512, 100),
        (address(block), address(direct), nbytes, 0, 100),
    ]
    pull = np.array(rows, PULL).view(np.recarray)
    for turn in range(4):
        steps.stage_turn(plan, stage, turn, turn & 1, 0)
        for row in pull:
            steps.pull_piece(row, turn, turn & 1, 0)
    for result in (own, staged, direct):
        np.testing.assert_array_equal(result, block)

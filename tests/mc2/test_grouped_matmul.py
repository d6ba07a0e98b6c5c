"""alltoallv_gmm and gmm_alltoallv against loops over experts, bit for bit, on 1 to 8 PEs."""

from __future__ import annotations

import mc2_moe_reference as reference
import numpy as np
import pytest
from variants import thorough

import emu
from emu.comm.errors import ArgumentError
from emu.mc2 import alltoallv_gmm, gmm_alltoallv

BF16, FP16, INT8 = reference.BF16, reference.FP16, reference.INT8


class Case:
    """All ranks' operands of one call, the same wherever it is made."""

    def __init__(self, ranks, seed):
        rng = np.random.default_rng([ranks, seed])
        self.dtype = (FP16, BF16, INT8)[seed % 3]
        self.out = self.dtype if self.dtype != INT8 else (FP16, BF16)[seed // 3 % 2]
        self.e = int(rng.choice([1, 2, 3, 5]))
        self.h, self.n = int(rng.choice([1, 16, 33, 64])), int(rng.choice([1, 8, 40, 65]))
        style = reference.STYLES[seed % len(reference.STYLES)]
        self.counts = reference.make_counts(rng, style, ranks, self.e)
        self.turn = int(rng.integers(0, self.e + 1))
        self.trans, self.permute = bool(rng.integers(2)), bool(rng.integers(2))
        self.x = [reference.values(rng, (n, self.h), self.dtype) for n in self.counts.sum((1, 2))]
        self.w = [reference.values(rng, (self.e, self.h, self.n), self.dtype) for _ in self.x]
        self.w_scale = [rng.random((self.e, self.n), np.float32) * 1e-3 for _ in self.x]
        self.x_scale = [rng.random(len(x), np.float32) for x in self.x]
        self.by_token = self.dtype == INT8 and bool(rng.integers(2))
        self.mm = bool(rng.integers(2))
        self.mm_x = [reference.values(rng, (4, 20), self.dtype) for _ in self.x]
        self.mm_w = [reference.values(rng, (20, 7), self.dtype) for _ in self.x]

    def options(self, me, x_scale):
        int8 = self.dtype == INT8
        options = {"trans_gmm_weight": self.trans, "comm_turn": self.turn}
        if int8:
            options |= {"gmm_weight_scale": self.w_scale[me], "output_dtype": self.out}
            if self.by_token:
                options["gmm_x_scale"] = x_scale
        if self.mm:
            weight = self.mm_w[me].T.copy() if self.trans else self.mm_w[me]
            options |= {"mm_x": self.mm_x[me], "mm_weight": weight, "trans_mm_weight": self.trans}
            if int8:
                options["mm_weight_scale"] = self.w_scale[me][0, :1].repeat(7)
                options["mm_x_scale"] = self.w_scale[me][0, :1].repeat(4)
        return options

    def weight(self, me):
        return self.w[me].swapaxes(1, 2).copy() if self.trans else self.w[me]

    def products(self, me, rows, scales):
        int8 = self.dtype == INT8
        return reference.products(
            rows, self.counts, me, self.w[me], scales[me] if self.by_token else None,
            self.w_scale[me] if int8 else None, self.out,
        )  # fmt: skip

    def check_mm(self, me, mm_y):
        if not self.mm:
            assert mm_y is None
            return
        one = self.w_scale[me][0, 0]
        scales = (one.repeat(4), one.repeat(7)) if self.dtype == INT8 else (None, None)
        reference.same(mm_y, reference.product(self.mm_x[me], self.mm_w[me], *scales, self.out))


def check_cases(
    seeds,
):
    """Run and check one call of each operator a seed; return how many."""
    there, back = alltoallv_gmm, gmm_alltoallv
    world = emu.world()
    ranks, me = world.n_pes, world.my_pe
    for seed in seeds:
        case = Case(ranks, seed)
        owned, held = case.counts[me].reshape(-1), case.counts[:, me].reshape(-1)
        rows = reference.by_expert(case.x, case.counts)
        scales = reference.by_expert(case.x_scale, case.counts)
        options = case.options(me, case.x_scale[me])
        given = case.x[me].copy()
        result = there(given, case.weight(me), owned, held, permute_out=case.permute, **options)
        assert (given == case.x[me]).all()
        reference.same(result.gmm_y, case.products(me, rows[me], scales))
        case.check_mm(me, result.mm_y)
        if case.permute:
            reference.same(result.permute_out, rows[me])
        else:
            assert result.permute_out is None

        options = case.options(me, scales[me])
        result = back(rows[me], case.weight(me), held.tolist(), owned.tolist(), **options)
        every = [case.products(r, rows[r], scales) for r in range(ranks)]
        reference.same(result.y, reference.by_rank(every, case.counts)[me])
        case.check_mm(me, result.mm_y)
    return len(seeds)


@pytest.mark.parametrize("ranks", thorough([1, 2, 3, 4, 8], 1, 3))
def test_grouped_products_are_the_unfused_sequence_bit_for_bit(ranks):
    seeds = tuple(range(60 if ranks < 8 else 24))
    done = emu.launch(check_cases, ranks, args=(seeds,), timeout=20)
    assert done == [len(seeds)] * ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_rows_that_are_late_change_no_bit(ranks):
    # Over a slow link a rank multiplies its own rows while it waits for those of the others.
    link = emu.Link(bandwidth=1e7, latency=5e-4)
    done = emu.launch(check_cases, ranks, args=(tuple(range(30)),), timeout=20, link=link)
    assert done == [30] * ranks


WRONG = (
    ({"gmm_weight": np.zeros((2, 5, 3), np.float16)}, "gmm_weight must have shape [e, 4, n]"),
    (
        {"gmm_weight": np.zeros((2, 4, 3), BF16)},
        "gmm_weight must have dtype float16, but got bfloat16",
    ),
    ({"gmm_weight": np.zeros((0, 4, 3), np.float16)}, "gmm_weight must have at least 1 expert"),
    (
        {"gmm_x": np.zeros((4, 4), np.float32)},
        "gmm_x must have one of the dtypes float16, bfloat16, int8, but got",
    ),
    ({"gmm_x": [1]}, "gmm_x must be an ndarray or a SymmetricArray, but got list"),
    (
        {"send_counts": [1, 1, 1]},
        "send_counts must have 4 elements, one for each of 2 experts on each",
    ),
    ({"send_counts": [1, 1, 3, -1]}, "but got -1 for expert 1 of rank 1"),
    ({"send_counts": [1.0] * 4}, "send_counts must be integers, but got [1.0, 1.0"),
    ({"send_counts": [1, 1, 1, 2]}, "send_counts must add up to the 4 rows of gmm_x, but got 5"),
    ({"comm_turn": 3}, "comm_turn must be in [0, 2] with 2 experts per rank"),
    ({"comm_turn": -1}, "but got -1"),
    ({"comm_turn": "all"}, "comm_turn must be an integer, but got 'all'"),
    ({"mm_x": np.zeros((2, 2), np.float16)}, "must be given together, but got mm_x only"),
    ({"gmm_x_scale": np.ones(4, np.float32)}, "gmm_x_scale must be None unless gmm_x is int8"),
    ({"output_dtype": BF16}, "output_dtype must be float16 for float16, but got bfloat16"),
    ({"group": 7}, "group must be a Group, its name or None, but got int"),
    ({"group": ""}, "group must have 1 to 128 characters, but got 0"),
    (
        {"gmm_x": np.zeros((4, 4), np.int8), "gmm_weight": np.zeros((2, 4, 3), np.int8)},
        "gmm_weight_scale must be given for int8, but got None",
    ),
)


def refused(
    changes,
):
    """Return what each of the two operators says to each change; every PE makes the same."""
    said = []
    for operator in (alltoallv_gmm, gmm_alltoallv):
        for change in changes:
            arguments = {
                "gmm_x": np.zeros((4, 4), np.float16),
                "gmm_weight": np.zeros((2, 4, 3), np.float16),
                "send_counts": [1] * 4,
                "recv_counts": [1] * 4,
                **change,
            }
            first = [
                arguments.pop(n) for n in ("gmm_x", "gmm_weight", "send_counts", "recv_counts")
            ]
            with pytest.raises(ArgumentError) as caught:
                operator(*first, **arguments)
            said.append(str(caught.value))
    return said


def test_wrong_arguments_are_refused_before_anything_moves():
    changes = [change for change, _ in WRONG]
    for said in emu.launch(refused, 2, args=(changes,), timeout=20):
        for message, (_, text) in zip(said, 2 * WRONG, strict=True):
            assert text in message


def disagree():
    """Return what this rank is told where the ranks' arguments don't fit together."""
    there, back = alltoallv_gmm, gmm_alltoallv
    me = emu.world().my_pe
    x, w = np.zeros((3, 4), np.float16), np.zeros((1, 4, 3), np.float16)
    right = [1, 1, 1]
    calls = (
        # Rank 0 gives two rows to rank 1 and none to rank 2.
        lambda: there(x, w, [1, 2, 0] if me == 0 else right, right),
        lambda: back(x, w, [1, 2, 0] if me == 0 else right, right),
        lambda: there(x, w, right, right, comm_turn=me % 2),
        lambda: there(x[:, : 4 - me], w[:, : 4 - me], right, right),
        lambda: there(x.astype((FP16, BF16)[me % 2]), w.astype((FP16, BF16)[me % 2]), right, right),
        lambda: back(x, w[..., : me + 1], right, right),
        lambda: there(x, np.zeros((1 + me // 2, 4, 3), np.float16), [1, 1, 1] + [0] * (me // 2 * 3),
                      [1, 1, 1] + [0] * (me // 2 * 3)),
    )  # fmt: skip
    said = []
    for call in calls:
        with pytest.raises(ArgumentError) as caught:
            call()
        said.append(str(caught.value))
    # Nobody was left behind: the next call is right again.
    assert there(x, w, right, right).gmm_y.shape == (3, 3)
    return said


def test_ranks_that_disagree_all_learn_where_before_rows_move():
    for rank, said in enumerate(emu.launch(disagree, 3, timeout=20)):
        assert said[0] == (
            "recv_counts must match send_counts: for expert 0 of rank 1, rank 0 sends 2 rows to "
            "rank 1, but rank 1 was told to receive 1 (the first of 2 such counts)"
        )
        assert said[1] == (
            "recv_counts must match send_counts: for expert 0 of rank 0, rank 0 sends 2 rows to "
            "rank 1, but rank 1 was told to receive 1 (the first of 2 such counts)"
        )
        assert said[2] == "comm_turn must be the same on every rank, but got 0, 1, 0 by rank"
        assert said[3] == "h of gmm_x must be the same on every rank, but got 4, 3, 2 by rank"
        assert "the dtype of gmm_x must be the same on every rank, but got float16, bfl" in said[4]
        assert said[5] == "n of gmm_weight must be the same on every rank, but got 1, 2, 3 by rank"
        assert said[6].startswith(
            "the number of experts must be the same on every rank, but rank "
            f"{rank} has {1 + rank // 2}: "
        )


def in_symmetric_memory():
    """Operands that lie in symmetric memory, in a group of two of three PEs."""
    world = emu.world()
    if world.my_pe == 1:
        return True
    group = world.group("ends", [0, 2])
    me = group.my_pe
    x = group.alloc((4, 8), np.float16)
    x.local[...] = np.arange(32).reshape(4, 8) + 100 * me
    w = np.eye(8, dtype=np.float16)[None]
    y = alltoallv_gmm(
        x, w, [1, 3] if me == 0 else [2, 2], [1, 2] if me == 0 else [3, 2], group="ends"
    ).gmm_y
    table = np.concatenate([np.arange(32).reshape(4, 8) + 100 * r for r in (0, 1)])
    expected = table[[0, 4, 5]] if me == 0 else table[[1, 2, 3, 6, 7]]
    return bool((y == expected).all())


def test_rows_may_lie_in_symmetric_memory_and_a_group_be_named():
    assert emu.launch(in_symmetric_memory, 3, timeout=20) == [True] * 3

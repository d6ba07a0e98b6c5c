"""Dispatch and combine against loops over tokens, bit for bit, and a whole layer, on 1 to 8 PEs."""

from __future__ import annotations

import mc2_moe_reference as reference
import numpy as np
import pytest
from variants import thorough

import emu
from emu.comm.errors import ArgumentError
from emu.mc2 import alltoallv_gmm, gmm_alltoallv, moe_distribute_combine, moe_distribute_dispatch

BF16, FP16, INT8 = reference.BF16, reference.FP16, reference.INT8
ROUTINGS = ("any", "distinct", "one expert", "one rank", "none", "skewed")


class Case:
    """All ranks' tokens and their routing, the same wherever it is made."""

    def __init__(self, ranks, seed, *, quant=None):
        rng = np.random.default_rng([ranks, seed])
        self.ranks = ranks
        self.dtype = (FP16, BF16)[seed % 2]
        self.k = 1 + seed % 8
        self.local = int(rng.choice([1, 2, 3, 8]))
        self.total = self.local * ranks
        self.h = int(rng.choice([1, 8, 33, 64]))
        bs = rng.integers(0, 9, ranks)
        self.x = [reference.values(rng, (n, self.h), self.dtype) for n in bs]
        for x in self.x:
            x[: len(x) // 4] = 0  # rows of zeros
        self.routing = ROUTINGS[seed // 2 % len(ROUTINGS)]
        self.ids = [self.route(rng, n) for n in bs]
        self.gates = [rng.standard_normal((n, self.k)).astype(np.float32) for n in bs]
        self.shared = [reference.values(rng, x.shape, self.dtype) for x in self.x]
        self.with_shared = bool(rng.integers(2))
        self.mask = [None] * ranks
        self.active = [np.ones((n, self.k), bool) for n in bs]
        if self.routing == "none" or rng.integers(3) == 0:
            keep = 0.0 if self.routing == "none" else 0.6
            by_copy = bool(rng.integers(2))
            self.mask = [rng.random((n, self.k) if by_copy else n) < keep for n in bs]
            self.active = [m if by_copy else np.repeat(m[:, None], self.k, 1) for m in self.mask]
        self.quant = int(rng.integers(0, 3)) if quant is None else quant
        self.scales = None
        kind = int(rng.integers(3))
        if self.quant == 1 or (self.quant == 2 and kind):
            shape = (self.total, self.h) if kind == 2 else (self.h,)
            self.scales = (rng.random(shape) * 30).astype(np.float32)
        self.sources, self.counts = reference.dispatch(self.x, self.ids, self.active, self.total)

    def route(self, rng, n):
        shape = (n, self.k)
        ids = rng.integers(0, self.total, shape)
        if self.routing == "distinct" and self.total >= self.k:
            ids = np.array([rng.permutation(self.total)[: self.k] for _ in range(n)])
        elif self.routing == "one expert":
            ids = np.full(shape, self.total * 2 // 3)
        elif self.routing == "one rank":
            ids = rng.integers(0, self.local, shape)
        elif self.routing == "skewed":
            ids = np.minimum(ids, rng.integers(0, self.total, shape)) // 2
        return ids.reshape(shape).astype(np.int32)

    def arrivals(self, me):
        """The rows that the dispatch brings to a rank, and their scales."""
        rows, scales = np.zeros((len(self.sources[me]), self.h), self.dtype), []
        if self.quant:
            rows = rows.astype(INT8)
        for number, (owner, t, j) in enumerate(self.sources[me]):
            smooth = self.scales
            if smooth is not None and smooth.ndim == 2:
                smooth = smooth[self.ids[owner][t, j]]
            row = self.x[owner][t]
            if self.quant == 1:
                row = np.clip(np.rint(row.astype(np.float32) * smooth), -128, 127).astype(INT8)
            elif self.quant == 2:
                row, scale = reference.quantize(row, smooth)
                scales.append(scale)
            rows[number] = row
        return rows, np.array(scales, np.float32) if self.quant == 2 else None

    def dispatch(self, me, **more):
        return moe_distribute_dispatch(
            self.x[me], self.ids[me], moe_expert_num=self.total, quant_mode=self.quant,
            scales=self.scales, x_active_mask=self.mask[me], **more,
        )  # fmt: skip

    def combine(self, me, rows, result):
        return moe_distribute_combine(
            rows, self.ids[me], result.expand_idx, result.ep_recv_counts, self.gates[me],
            moe_expert_num=self.total, x_active_mask=self.mask[me],
            shared_expert_x=self.shared[me] if self.with_shared else None,
        )  # fmt: skip

    def combined(self, me, rows_of_rank):
        """What combine gives where rank r's experts made rows_of_rank[r] of their rows."""
        back = {}
        for holder, sources in enumerate(self.sources):
            for number, source in enumerate(sources):
                back[source] = rows_of_rank[holder][number]
        rows_of = [[back.get((me, t, j)) for j in range(self.k)] for t in range(len(self.x[me]))]
        shared = self.shared[me] if self.with_shared else None
        return reference.combine(
            rows_of, self.gates[me], self.active[me], self.h, self.dtype, shared
        )


def check_dispatch(seeds):
    world = emu.world()
    me = world.my_pe
    for seed in seeds:
        case = Case(world.n_pes, seed)
        kind = seed % 2
        result = case.dispatch(me, expert_token_nums_type=kind, global_bs=8 * world.n_pes * kind)
        rows, scales = case.arrivals(me)
        reference.same(result.expand_x, rows)
        if scales is None:
            assert result.dynamic_scales is None
        else:
            reference.same(result.dynamic_scales, scales)
        numbers = case.counts[:, me].sum(0)
        reference.same(result.expert_token_nums, numbers if kind else np.cumsum(numbers))
        reference.same(result.ep_recv_counts, case.counts[:, me].reshape(-1).astype(np.int32))
        sent = sum(bool(a) for a in case.active[me].reshape(-1))
        assert sorted(result.expand_idx.tolist()) == [-1] * (case.active[me].size - sent) + list(
            range(sent)
        )
    return len(seeds)


@pytest.mark.parametrize("ranks", thorough([1, 2, 3, 4, 8], 1, 3))
def test_dispatch_brings_rows_in_order_and_quantised(ranks):
    seeds = tuple(range(72 if ranks < 8 else 24))
    done = emu.launch(check_dispatch, ranks, args=(seeds,), timeout=20)
    assert done == [len(seeds)] * ranks


def check_round_trip(seeds):
    world = emu.world()
    me = world.my_pe
    for seed in seeds:
        case = Case(world.n_pes, seed, quant=0)
        result = case.dispatch(me)
        every = [case.arrivals(r)[0] for r in range(world.n_pes)]
        reference.same(case.combine(me, result.expand_x, result), case.combined(me, every))
    return len(seeds)


@pytest.mark.parametrize("ranks", thorough([1, 2, 4, 8], 1, 4))
def test_experts_that_do_nothing_give_each_token_the_sum_of_its_weights(ranks):
    seeds = tuple(range(72 if ranks < 8 else 24))
    done = emu.launch(check_round_trip, ranks, args=(seeds,), timeout=20)
    assert done == [len(seeds)] * ranks


def weights_of(case, seed, dtype):
    rng = np.random.default_rng([7, seed])
    return [reference.values(rng, (case.local, case.h, case.h), dtype) for _ in range(case.ranks)]


def check_layer(seeds):
    """Dispatch, a product for each expert, combine: against the unfused pipeline, and fp64."""
    world = emu.world()
    me = world.my_pe
    from emu.kernels.matmul import matmul

    for seed in seeds:
        case = Case(world.n_pes, seed, quant=0)
        weights = weights_of(case, seed, case.dtype)
        result = case.dispatch(me)
        rows, start = np.empty_like(result.expand_x), 0
        for expert, count in enumerate(result.expert_token_nums):
            part = slice(start, start + count)
            matmul(result.expand_x[part], weights[me][expert], out=rows[part])
            start += count
        y = case.combine(me, rows, result)
        every = [
            reference.products(case.arrivals(r)[0], case.counts, r, weights[r])
            for r in range(world.n_pes)
        ]
        reference.same(y, case.combined(me, every))
        check_close(case, me, weights, y)
        check_gmm_pair(case, me, weights, result, y)
    return len(seeds)


def check_close(case, me, weights, y):
    """Compare a layer's result with the dense formula in fp64."""
    exact, size = np.zeros(y.shape), np.zeros(y.shape)
    for t in range(len(exact)):
        for j in range(case.k):
            if case.active[me][t, j]:
                holder, expert = divmod(int(case.ids[me][t, j]), case.local)
                x = case.x[me][t].astype(np.float64)
                w = weights[holder][expert].astype(np.float64)
                gate = float(case.gates[me][t, j])
                exact[t] += gate * (x @ w)
                size[t] += abs(gate) * (np.abs(x) @ np.abs(w))
    if case.with_shared:
        exact += case.shared[me].astype(np.float64)
        size += np.abs(case.shared[me].astype(np.float64))
    step = 2.0**-11 if case.dtype == FP16 else 2.0**-8
    assert (np.abs(y.astype(np.float64) - exact) <= 2.5 * step * size + 1e-6).all()


def check_gmm_pair(case, me, weights, result, y):
    """Do the same layer with the grouped operators: rows sorted here, products there and back."""
    placed = result.expand_idx.reshape(case.ids[me].shape)
    rows = np.empty((int((placed >= 0).sum()), case.h), case.dtype)
    tokens, copies = np.nonzero(placed >= 0)
    rows[placed[tokens, copies]] = case.x[me][tokens]
    sent, came = case.counts[me].reshape(-1), case.counts[:, me].reshape(-1)
    identity = np.broadcast_to(np.eye(case.h, dtype=case.dtype), weights[me].shape)
    there = alltoallv_gmm(rows, identity, sent, came, permute_out=True)
    assert there.permute_out is not None
    reference.same(there.permute_out, result.expand_x)
    back = gmm_alltoallv(there.permute_out, weights[me], came, sent).y
    rows_of = [[back[p] if p >= 0 else None for p in row] for row in placed]
    shared = case.shared[me] if case.with_shared else None
    again = reference.combine(rows_of, case.gates[me], case.active[me], case.h, case.dtype, shared)
    reference.same(again, y)


@pytest.mark.parametrize("ranks", thorough([2, 4, 8], 4))
def test_a_layer_is_the_unfused_pipeline_bit_for_bit_and_right(ranks):
    seeds = tuple(range(48 if ranks < 8 else 16))
    done = emu.launch(check_layer, ranks, args=(seeds,), timeout=20)
    assert done == [len(seeds)] * ranks


def check_large():
    """A layer in several turns, of int8: rows of some kilobytes, 8 experts a rank."""
    world = emu.world()
    me, ranks, experts, h = world.my_pe, world.n_pes, 8, 1024
    rng = np.random.default_rng(me)
    x = reference.values(rng, (512, h), BF16)
    ids = rng.integers(0, experts * ranks, (512, 6)).astype(np.int32)
    sent = moe_distribute_dispatch(x, ids, moe_expert_num=experts * ranks, quant_mode=2)
    assert len(world_turns(sent, h)) > 1
    one = np.broadcast_to(np.eye(h, dtype=INT8), (experts, h, h))
    counts = sent.ep_recv_counts
    back = gmm_alltoallv(
        sent.expand_x, one, counts, np.bincount(ids.reshape(-1), minlength=experts * ranks),
        gmm_x_scale=sent.dynamic_scales, gmm_weight_scale=np.ones((experts, h), np.float32),
        output_dtype=BF16,
    ).y  # fmt: skip
    values = [reference.quantize(row) for row in x]
    for t in range(len(x)):
        q, scale = values[t]
        expected = (q.astype(np.float32) * scale).astype(BF16)
        for j in range(6):
            reference.same(back[sent.expand_idx[t * 6 + j]], expected)
    rows = alltoallv_gmm(
        back, np.ones((experts, h, 1), BF16), np.bincount(ids.reshape(-1), minlength=experts * ranks),
        counts, permute_out=True, comm_turn=experts,
    ).permute_out  # fmt: skip
    gates = np.full((512, 6), 0.25, np.float32)
    y = moe_distribute_combine(
        rows, ids, sent.expand_idx, counts, gates, moe_expert_num=experts * ranks
    )
    for t in range(len(x)):
        row = (values[t][0].astype(np.float32) * values[t][1]).astype(BF16).astype(np.float32)
        reference.same(y[t], (row * np.float32(1.5)).astype(BF16))
    return True


def world_turns(sent, h):
    """Return the turns that the dispatch took for its rows."""
    from emu.mc2.token_permutation import choose_turns

    return range(choose_turns(len(sent.expand_x), h, 0, 8, 4, None))


def test_a_large_int8_layer_goes_in_several_turns():
    assert emu.launch(check_large, 4, timeout=20) == [True] * 4


WRONG_DISPATCH = (
    ({"x": np.zeros((3, 4), np.float32)}, "x must have one of the dtypes float16, bfloat16, but got float32"),
    ({"x": np.zeros((3, 0), np.float16)}, "x must have rows of at least 1 element"),
    ({"x": np.zeros((2, 4), np.float16)}, "x must have 3 rows, one for each of expert_ids"),
    ({"expert_ids": np.zeros((3, 2), np.int64)}, "expert_ids must have dtype int32, but got int64"),
    (
        {"expert_ids": np.array([[0, 1], [1, 4], [0, 0]], np.int32)},
        "expert_ids must be in [0, 4), but got 4 for copy 1 of token 1",
    ),
    ({"moe_expert_num": 3}, "moe_expert_num must be a multiple of the 2 ranks of group 'world'"),
    ({"moe_expert_num": 0}, "moe_expert_num must be in [1, 1048576], but got 0"),
    ({"quant_mode": 3}, "quant_mode must be 0, 1 or 2, but got 3"),
    ({"quant_mode": 1}, "scales must be given with quant_mode 1, but got None"),
    ({"scales": np.ones((4, 4), np.float32)}, "scales must be None with quant_mode 0"),
    (
        {"quant_mode": 2, "scales": np.ones((3, 4), np.float32)},
        "scales must have shape [4, 4], but got (3, 4)",
    ),
    ({"x_active_mask": np.ones(2, bool)}, "x_active_mask must have shape [3], but got (2,)"),
    ({"x_active_mask": np.ones(3, np.int8)}, "x_active_mask must have dtype bool, but got int8"),
    ({"expert_token_nums_type": 2}, "expert_token_nums_type must be 0 or 1, but got 2"),
    ({"global_bs": 4}, "global_bs must be at least 6, 2 ranks of 3 tokens, but got 4"),
    ({"global_bs": 7}, "global_bs must be 0 or a multiple of the 2 ranks, but got 7"),
    ({"group_tp": "tp"}, "group_tp must be None or empty, since tensor-parallel groups are not"),
    ({"tp_world_size": 2}, "tp_world_size must be 0 or 1, since tensor-parallel groups are not"),
    ({"shared_expert_rank_num": 1}, "shared_expert_rank_num must be 0, since no ranks are set apart"),
    ({"expert_shard_type": 1}, "expert_shard_type must be 0, since no ranks are set apart for"),
)  # fmt: skip
WRONG_COMBINE = (
    (
        {"expand_idx": np.arange(6, dtype=np.int32)[::-1].copy()},
        "dispatch of these expert_ids and this mask returned, 0 for copy 0 of token 0, but got 5",
    ),
    ({"x_active_mask": np.arange(3) > 0}, "-1 for copy 0 of token 0, but got 0"),
    ({"ep_send_counts": [6, 0, 0, 1]}, "ep_send_counts must add up to the 6 rows of expand_x, but"),
    ({"ep_send_counts": [6, 0]}, "ep_send_counts must have 4 elements, one for each of 2 experts"),
    ({"expert_scales": np.ones((3, 2))}, "expert_scales must have dtype float32, but got float64"),
    (
        {"shared_expert_x": np.ones((3, 5), np.float16)},
        "shared_expert_x must have shape [3, 4], but got (3, 5)",
    ),
    (
        {"expand_x": np.zeros((6, 4), np.int8)},
        "expand_x must have one of the dtypes float16, bfloat16, but got",
    ),
    ({"tp_world_size": 4}, "tp_world_size must be 0 or 1"),
)


def refused(dispatches, combines):
    """Return what the operators say to each change; tokens go to experts 0 and 2."""
    said = []
    for changes, operator, names in (
        (dispatches, moe_distribute_dispatch, ("x", "expert_ids")),
        (
            combines,
            moe_distribute_combine,
            ("expand_x", "expert_ids", "expand_idx", "ep_send_counts", "expert_scales"),
        ),
    ):
        for change in changes:
            arguments = {
                "x": np.zeros((3, 4), np.float16),
                "expand_x": np.zeros((6, 4), np.float16),
                "expert_ids": np.array([[0, 2]] * 3, np.int32),
                "expand_idx": np.array([0, 3, 1, 4, 2, 5], np.int32),
                "ep_send_counts": [3, 0, 3, 0],
                "expert_scales": np.ones((3, 2), np.float32),
                "moe_expert_num": 4,
                **change,
            }
            first = [arguments[name] for name in names]
            more = {n: v for n, v in arguments.items() if n in change or n == "moe_expert_num"}
            with pytest.raises(ArgumentError) as caught:
                operator(*first, **{n: v for n, v in more.items() if n not in names})
            said.append(str(caught.value))
    return said


def test_wrong_arguments_are_refused_before_anything_moves():
    changes = [[change for change, _ in wrong] for wrong in (WRONG_DISPATCH, WRONG_COMBINE)]
    for said in emu.launch(refused, 2, args=changes, timeout=20):
        for message, (_, text) in zip(said, WRONG_DISPATCH + WRONG_COMBINE, strict=True):
            assert text in message


MISMATCH = (
    "expert_ids must match ep_send_counts: for expert 0 of rank 0, rank 0 sends 2 rows to rank 0, "
    "but rank 0 was told to receive 1 (the first of 2 such counts)"
)


def disagree():
    """Return what this rank is told where the ranks' arguments don't fit together."""
    me = emu.world().my_pe
    x, ids = np.zeros((2, 4), np.float16), np.array([[0], [1]], np.int32)
    gates = np.ones((2, 1), np.float32)
    sent = moe_distribute_dispatch(x, ids, moe_expert_num=2)
    calls = (
        lambda: moe_distribute_dispatch(x, ids, moe_expert_num=2, quant_mode=2 * me),
        lambda: moe_distribute_dispatch(x[:, me:].copy(), ids, moe_expert_num=2),
        lambda: moe_distribute_dispatch(x, ids, moe_expert_num=2, global_bs=4 + 2 * me),
        # Both ranks hold two rows, but rank 0 would give both to itself.
        lambda: moe_distribute_combine(
            x, ids, sent.expand_idx, [2, 0] if me == 0 else [1, 1], gates, moe_expert_num=2
        ),
    )
    said = []
    for call in calls:
        with pytest.raises(ArgumentError) as caught:
            call()
        said.append(str(caught.value))
    again = moe_distribute_combine(
        sent.expand_x, ids, sent.expand_idx, sent.ep_recv_counts, gates, moe_expert_num=2
    )
    assert (again == 0).all()
    return said


def test_ranks_that_disagree_all_learn_where_before_rows_move():
    for said in emu.launch(disagree, 2, timeout=20):
        assert said == [
            "quant_mode must be the same on every rank, but got 0, 2 by rank",
            "h of x must be the same on every rank, but got 4, 3 by rank",
            "global_bs must be the same on every rank, but got 4, 6 by rank",
            MISMATCH,
        ]


def not_finite():
    """Return what becomes of rows that hold an infinity or NaN."""
    x = np.ones((3, 4), np.float16)
    x[0, 1], x[1, 2] = np.inf, np.nan
    ids = np.zeros((3, 1), np.int32)
    ids[:, 0] = emu.world().my_pe
    plain = moe_distribute_dispatch(x, ids, moe_expert_num=2)
    smooth = np.ones((2, 4), np.float32)
    for scales in (None, smooth):
        sent = moe_distribute_dispatch(x, ids, moe_expert_num=2, quant_mode=2, scales=scales)
        assert sent.dynamic_scales[0] == np.inf
        assert np.isnan(sent.dynamic_scales[1])
        assert (sent.expand_x == [[0] * 4] * 2 + [[127] * 4]).all()
    fixed = moe_distribute_dispatch(x, ids, moe_expert_num=2, quant_mode=1, scales=smooth)
    assert fixed.expand_x.tolist() == [[1, 127, 1, 1], [1, 1, 0, 1], [1] * 4]
    return plain.expand_x.tobytes() == x.tobytes()


def test_an_infinity_or_nan_is_not_hidden_by_quantisation():
    assert emu.launch(not_finite, 2, timeout=20) == [True, True]

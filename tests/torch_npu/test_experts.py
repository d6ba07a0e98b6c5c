"""The mixture of experts under the names of torch_npu, for arrays and tensors, on 2 and 4 PEs."""

from __future__ import annotations

import mc2_moe_reference as unfused
import numpy as np
import pytest
from variants import thorough

import emu
from emu import mc2, torch_npu
from emu.comm.errors import ArgumentError

BF16, FP16, same = unfused.BF16, unfused.FP16, unfused.same


def tensor(array):
    """Return a torch tensor of the elements of an array."""
    import torch

    if not isinstance(array, np.ndarray):
        return array
    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def array(value):
    """Return an array of the elements of a torch tensor, and None for None."""
    import torch

    if value is None:
        return None
    assert isinstance(value, torch.Tensor)
    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().view(BF16)
    return value.numpy()


def run(function, *arguments, **options):
    """Call an operator with arrays and with tensors, which must agree; return what it gives."""
    results = function(*arguments, **options)
    again = function(*map(tensor, arguments), **{n: tensor(v) for n, v in options.items()})
    several = isinstance(results, tuple)
    assert several == isinstance(again, tuple)
    pairs = zip(results, again, strict=True) if several else [(results, again)]
    for one, other in pairs:
        if one is None:
            assert other is None
        else:
            assert type(one) is np.ndarray
            same(array(other), one)
    return results


# --- grouped products ------------------------------------------------------------------------------


def run_grouped(seeds):
    world = emu.world()
    me, ranks = world.my_pe, world.n_pes
    for seed in seeds:
        rng = np.random.default_rng([ranks, seed])
        dtype = (FP16, BF16)[seed % 2]
        e, h, n = 1 + seed % 3, 24, 10
        counts = unfused.make_counts(rng, unfused.STYLES[seed % 6], ranks, e)
        x = [unfused.values(rng, (rows, h), dtype) for rows in counts.sum((1, 2))]
        weights = [unfused.values(rng, (e, h, n), dtype) for _ in x]
        check_grouped(me, ranks, counts, x, weights, flags=seed)
    return len(seeds)


def check_grouped(me, ranks, counts, x, weights, flags):
    """Send rows to their experts and their products back, with and without each option."""
    owned, held = counts[me].reshape(-1).tolist(), counts[:, me].reshape(-1).tolist()
    rows = unfused.by_expert(x, counts)
    every = [
        unfused.products(r, counts, p, w)
        for p, (r, w) in enumerate(zip(rows, weights, strict=True))
    ]
    turned, shared, wanted = flags % 2, flags % 3 > 0, flags % 4 > 1
    weight = weights[me].swapaxes(1, 2).copy() if turned else weights[me]
    options = {"trans_gmm_weight": bool(turned)}
    mm_x, mm_w = x[me][:, :6], np.ascontiguousarray(weights[me][0, :6])
    shared = shared and len(mm_x) > 0
    if shared:
        mm_weight = mm_w.T.copy() if turned else mm_w
        options |= {"mm_x": mm_x, "mm_weight": mm_weight, "trans_mm_weight": bool(turned)}

    gmm_y, mm_y, permuted = run(
        torch_npu.npu_alltoallv_gmm, x[me], weight, "world", ranks, owned, held,
        permute_out_flag=wanted, **options,
    )  # fmt: skip
    same(gmm_y, every[me])
    assert (permuted is None) is not wanted
    if wanted:
        same(permuted, rows[me])
    check_shared(mm_y, shared, mm_x, mm_w)
    theirs = mc2.alltoallv_gmm(x[me], weight, owned, held, permute_out=wanted, **options)
    same(gmm_y, theirs.gmm_y)

    y, mm_y = run(
        torch_npu.npu_gmm_alltoallv, rows[me], weight, "world", ranks, held, owned, **options
    )
    same(y, unfused.by_rank(every, counts)[me])
    check_shared(mm_y, shared, mm_x, mm_w)
    same(y, mc2.gmm_alltoallv(rows[me], weight, held, owned, **options).y)


def check_shared(mm_y, given, x, weight):
    if given:
        same(mm_y, unfused.product(np.ascontiguousarray(x), weight))
    else:
        assert mm_y is None


@pytest.mark.parametrize(("ranks", "seeds"), thorough([(2, 6), (2, 12), (4, 12)], (2, 6)))
def test_grouped_products_are_the_unfused_sequence_bit_for_bit(ranks, seeds):
    pytest.importorskip("torch")
    assert (
        emu.launch(run_grouped, ranks, preload=["torch"], args=(range(seeds),), timeout=60)
        == [seeds] * ranks
    )


# --- dispatch and combine --------------------------------------------------------------------------


class Case:
    """All ranks' tokens and their routing, the same wherever it is made."""

    def __init__(self, ranks, seed):
        rng = np.random.default_rng([3, ranks, seed])
        self.ranks, self.dtype, self.k, self.local = ranks, (FP16, BF16)[seed % 2], 1 + seed % 3, 2
        self.total, self.h = self.local * ranks, 24
        sizes = rng.integers(0, 7, ranks)
        self.x = [unfused.values(rng, (n, self.h), self.dtype) for n in sizes]
        self.ids = [rng.integers(0, self.total, (n, self.k)).astype(np.int32) for n in sizes]
        self.gates = [rng.standard_normal((n, self.k)).astype(np.float32) for n in sizes]
        self.masks = [rng.random(n) < 0.7 if seed % 4 == 3 else None for n in sizes]
        self.active = [
            np.ones((n, self.k), bool) if m is None else np.repeat(m[:, None], self.k, 1)
            for n, m in zip(sizes, self.masks, strict=True)
        ]
        self.quant = seed % 3
        self.scales = (rng.random(self.h) * 30).astype(np.float32) if self.quant == 1 else None
        self.sources, self.counts = unfused.dispatch(self.x, self.ids, self.active, self.total)

    def arrivals(self, rank):
        """Rows that the dispatch brings to a rank, and their scales."""
        rows, scales = np.zeros((len(self.sources[rank]), self.h), self.dtype), []
        rows = rows.astype(np.int8) if self.quant else rows
        for number, (owner, t, _) in enumerate(self.sources[rank]):
            row = self.x[owner][t]
            if self.quant == 1:
                row = np.clip(np.rint(row.astype(np.float32) * self.scales), -128, 127)
            elif self.quant == 2:
                row, scale = unfused.quantize(row)
                scales.append(scale)
            rows[number] = row
        return rows, np.array(scales, np.float32)

    def combined(self, me, rows_of_rank, shared):
        back = {
            source: rows_of_rank[rank][number]
            for rank, sources in enumerate(self.sources)
            for number, source in enumerate(sources)
        }
        tokens = range(len(self.x[me]))
        rows_of = [[back.get((me, t, j)) for j in range(self.k)] for t in tokens]
        return unfused.combine(rows_of, self.gates[me], self.active[me], self.h, self.dtype, shared)


def run_layer(seeds):
    world = emu.world()
    me, ranks = world.my_pe, world.n_pes
    for seed in seeds:
        case = Case(ranks, seed)
        place = ("world", ranks, me, case.total)
        kind = seed % 2
        sent = run(
            torch_npu.npu_moe_distribute_dispatch, case.x[me], case.ids[me], *place,
            scales=case.scales, x_active_mask=case.masks[me], quant_mode=case.quant,
            global_bs=8 * ranks * kind, expert_token_nums_type=kind,
            shared_expert_num=kind, tp_world_size=kind,
        )  # fmt: skip
        rows, dynamic, index, numbers, counts, tp_counts, expand_scales = sent
        expected = case.arrivals(me)
        same(rows, expected[0])
        same(dynamic, expected[1])
        totals = case.counts[:, me].sum(0)
        same(numbers, totals if kind else np.cumsum(totals))
        same(counts, case.counts[:, me].reshape(-1).astype(np.int32))
        assert tp_counts.shape == expand_scales.shape == (0,)
        theirs = mc2.moe_distribute_dispatch(
            case.x[me], case.ids[me], moe_expert_num=case.total, scales=case.scales,
            x_active_mask=case.masks[me], quant_mode=case.quant,
        )  # fmt: skip
        same(index, theirs.expand_idx)

        every = [case.arrivals(r)[0].astype(case.dtype) for r in range(ranks)]
        shared = case.x[me][::-1].copy() if seed % 2 else None
        y = run(
            torch_npu.npu_moe_distribute_combine, every[me], case.ids[me], index, counts,
            case.gates[me], *place, tp_send_counts=tp_counts, expand_scales=expand_scales,
            x_active_mask=case.masks[me], shared_expert_x=shared, global_bs=8 * ranks * kind,
        )  # fmt: skip
        same(y, case.combined(me, every, shared))
    return len(seeds)


@pytest.mark.parametrize(("ranks", "seeds"), thorough([(2, 6), (2, 12), (4, 12)], (2, 6)))
def test_tokens_reach_their_experts_and_come_back(ranks, seeds):
    pytest.importorskip("torch")
    assert (
        emu.launch(run_layer, ranks, preload=["torch"], args=(range(seeds),), timeout=60)
        == [seeds] * ranks
    )


def run_in_groups():
    """Two groups of experts at once, with ranks of their own."""
    world = emu.world()
    me = world.my_pe
    name, members = ("even", [0, 2]) if me % 2 == 0 else ("odd", [3, 1])
    rank = world.group(name, members).my_pe
    x = np.full((2, 8), me + 1, FP16)
    ids = np.array([[0], [1]], np.int32)  # one token for each rank
    sent = torch_npu.npu_moe_distribute_dispatch(x, ids, name, 2, rank, 2)
    assert sent[0][:, 0].tolist() == [p + 1 for p in members]
    gates = np.full((2, 1), 0.5, np.float32)
    y = torch_npu.npu_moe_distribute_combine(
        sent[0], ids, sent[2], sent[4], gates, name, 2, rank, 2
    )
    assert (y == (me + 1) / 2).all()
    with pytest.raises(ArgumentError, match=f"ep_rank_id must be {rank}, the rank of this PE in"):
        torch_npu.npu_moe_distribute_dispatch(x, ids, name, 2, 1 - rank, 2)
    return True


def test_a_rank_is_that_of_the_group():
    assert all(emu.launch(run_in_groups, 4, preload=["torch"], timeout=60))


# --- what they refuse ------------------------------------------------------------------------------

X, W = np.ones((4, 6), FP16), np.ones((1, 6, 8), FP16)
IDS, GATES = np.zeros((4, 1), np.int32), np.ones((4, 1), np.float32)
GROUPED = [
    ({"send_counts_tensor": X}, "send_counts_tensor must be None, since counts are needed"),
    ({"recv_counts_tensor": X}, "recv_counts_tensor must be None"),
    ({"hcom": "who"}, "hcom must be the name of a process group of this PE, but got 'who'"),
    ({"ep_world_size": 3}, "ep_world_size must be 2"),
    ({"send_counts": [2, 1.5]}, r"send_counts\[1\] must be an integer, but got 1.5"),
    ({"send_counts": [1, 1]}, "send_counts must add up to"),
    ({"send_counts": [5, -1]}, "send_counts must not be negative"),
    ({"recv_counts": [1, 1, 1]}, "recv_counts must have 2 elements"),
    ({"recv_counts": 4}, "recv_counts must be a NumPy array or a torch tensor, but got int"),
    ({"gmm_x": None}, "gmm_x must be a NumPy array or a torch tensor, but got NoneType"),
    ({"gmm_weight": W[0]}, "gmm_weight must have shape"),
    ({"mm_x": X}, "mm_weight must be"),
]
LAYOUT = [
    ({"group_ep": "who"}, "group_ep must be the name of"),
    ({"group_ep": None}, "group_ep must be the name of a process group, but got NoneType"),
    ({"ep_world_size": 4}, "ep_world_size must be 2, the size of group 'world', but got 4"),
    ({"ep_rank_id": 2}, "ep_rank_id must be [01], the rank of this PE in group 'world', but got 2"),
    ({"moe_expert_num": 3}, "moe_expert_num must be a multiple"),
    (
        {"group_tp": "tp"},
        "group_tp must be '' or None, since tensor-parallel groups are not supported",
    ),
    ({"tp_world_size": 2}, "tp_world_size must be 0 or 1, since .*, but got 2"),
    ({"tp_rank_id": 1}, "tp_rank_id must be 0"),
    ({"tp_rank_id": 0.0}, "tp_rank_id must be 0, .* got 0.0"),
    ({"tp_rank_id": None}, "tp_rank_id must be 0, .* got None"),
    ({"expert_shard_type": 1}, "expert_shard_type must be 0, since no ranks are set apart"),
    ({"shared_expert_num": 2}, "shared_expert_num must be 1 or 0"),
    ({"shared_expert_rank_num": 1}, "shared_expert_rank_num must be 0"),
    ({"global_bs": 2}, "global_bs must be at least 8"),
    ({"expert_ids": IDS + 2}, r"expert_ids must be in \[0, 2\), but got 2"),
    ({"expert_ids": IDS.astype(np.int64)}, "expert_ids must have dtype int32, but got int64"),
    ({"x_active_mask": X}, "x_active_mask must"),
]
DISPATCH = [
    *LAYOUT,
    ({"expert_scales": GATES}, "expert_scales must be None, since the weights of copies do not"),
    ({"quant_mode": 3}, "quant_mode must be 0, 1 or 2"),
    ({"quant_mode": 1}, "scales must be given with quant_mode 1"),
    ({"scales": X[0]}, "scales must be None with quant_mode 0"),
    ({"expert_token_nums_type": 2}, "expert_token_nums_type must be 0 or 1"),
    ({"x": X[:3]}, "x must have 4 rows"),
]
COMBINE = [
    *LAYOUT,
    ({"tp_send_counts": IDS}, r"tp_send_counts must be None or empty, .* got shape \(4, 1\)"),
    ({"expand_scales": GATES}, "expand_scales must be None or empty"),
    ({"activation_scale": GATES}, "activation_scale must be None, since rows are neither"),
    ({"weight_scale": GATES}, "weight_scale must be None"),
    ({"group_list": IDS}, "group_list must be None"),
    ({"out_dtype": 1}, "out_dtype must be 0"),
    ({"comm_quant_mode": 2}, "comm_quant_mode must be 0"),
    ({"group_list_type": 1}, "group_list_type must be 0"),
    ({"expert_scales": GATES.astype(FP16)}, "expert_scales must have dtype float32"),
    ({"expand_idx": IDS[:, 0]}, "expand_idx must be what the dispatch"),
    ({"ep_send_counts": IDS[:2, 0]}, "ep_send_counts must add up to"),
    ({"shared_expert_x": X[:2]}, "shared_expert_x must have shape"),
]


def refused(function, given, broken):
    for change, text in broken:
        with pytest.raises(ArgumentError, match=text):
            function(**{**given, **change})


def run_refusals():
    world = emu.world()
    me = world.my_pe
    grouped = {
        "gmm_x": X, "gmm_weight": W, "hcom": "world", "ep_world_size": 2, "send_counts": [2, 2],
        "recv_counts": [2, 2],
    }  # fmt: skip
    for function in (torch_npu.npu_alltoallv_gmm, torch_npu.npu_gmm_alltoallv):
        refused(function, grouped, GROUPED)
        with pytest.raises(ArgumentError, match="gmm_weight must be a torch tensor"):
            function(**{**grouped, "gmm_x": tensor(X)})
    group = {"group_ep": "world", "ep_world_size": 2, "ep_rank_id": me, "moe_expert_num": 2}
    routing = {"expert_ids": IDS, **group}
    refused(torch_npu.npu_moe_distribute_dispatch, {"x": X, **routing}, DISPATCH)
    rows = np.ones((8 if me == 0 else 0, 6), FP16)  # all tokens go to expert 0
    combine = {
        "expand_x": rows, "expand_idx": np.arange(4, dtype=np.int32), "expert_scales": GATES,
        "ep_send_counts": np.array([4, 4] if me == 0 else [0, 0], np.int32), **routing,
    }  # fmt: skip
    broken = [(c, t) for c, t in COMBINE if me == 0 or "ep_send_counts" not in c]
    refused(torch_npu.npu_moe_distribute_combine, combine, broken)
    world.barrier()  # nothing has been sent: all are here
    y = torch_npu.npu_moe_distribute_combine(**combine)
    same(y, np.ones_like(X))
    return True


def test_broken_rules_are_named_before_anything_is_sent():
    pytest.importorskip("torch")
    assert all(emu.launch(run_refusals, 2, preload=["torch"], timeout=60))

"""Mixture of experts: tokens go to the PEs of their experts, and their results come back.

One expert lives on each PE. Which PE a token goes to, and to which row there, depends on the data: the
PEs first tell each other how many tokens they have for each expert, so that rows lie close together.

It needs 2 PEs or more, as each token goes to 2 of them.
Run with: emu run -n 8 examples/pypto/moe_dispatch_combine.py
"""

import sys

import numpy as np
import pypto

import emu
from emu.pypto.testing import assert_close, random_array

dist = pypto.distributed
ADD = pypto.AtomicType.ADD


def share_counts(experts, n_pes, me):
    """Return [n_pes, n_pes]: the number of tokens that each PE has for each expert."""
    hot = pypto.one_hot(pypto.reshape(experts, [-1]), n_pes)
    mine = pypto.cast(pypto.sum(hot, 0, keepdim=True), pypto.DT_INT32)
    table = dist.create_shmem_tensor("ep", n_pes, pypto.DT_INT32, [n_pes, n_pes])
    pypto.set_vec_tile_shapes(1, n_pes)
    stored = [dist.shmem_put(mine, [me, 0], table, pe) for pe in pypto.loop(n_pes)]
    row = dist.shmem_view(table, [1, n_pes], [me, 0])
    dist.shmem_signal(row, me, 1, target_pe=-1, pred=stored)
    arrived = [
        dist.shmem_wait_until(dist.shmem_view(table, [1, n_pes], [pe, 0]), pe, 1)
        for pe in pypto.loop(n_pes)
    ]
    return dist.shmem_get(table, me, pred=arrived)


@pypto.frontend.jit
def moe(x, experts, gates, weight, out, n_pes):
    tokens, hidden = x.shape
    choices = experts.shape[1]
    me = dist.my_symbolic_pe("ep")
    counts = share_counts(experts, n_pes, me)

    # Dispatch: row 0 of an expert's buffer is the first token of PE 0 for it.
    room = n_pes * tokens * choices
    there = dist.create_shmem_tensor("ep", n_pes, x.dtype, [room, hidden])
    sent = dist.create_shmem_signal("ep", n_pes)
    pypto.set_vec_tile_shapes(1, hidden)
    used = [sum(counts[pe, e] for pe in range(me)) for e in range(n_pes)]
    stored = {e: [] for e in range(n_pes)}
    place = {}
    for t in pypto.loop(tokens):
        for k in pypto.loop(choices):
            e = experts[t, k]
            place[t, k] = e, used[e]
            stored[e].append(dist.shmem_put(x[t : t + 1, :], [used[e], 0], there, e))
            used[e] += 1
    for e in pypto.loop(n_pes):
        dist.shmem_signal(sent, me, 1, target_pe=e, pred=stored[e])

    # This PE's expert: one product over all tokens it got.
    received = sum(counts[pe, me] for pe in range(n_pes))
    arrived = [dist.shmem_wait_until(sent, pe, 1) for pe in pypto.loop(n_pes)]
    batch = dist.shmem_get(there, me, valid_shape=[received, hidden], pred=arrived)
    result = pypto.matmul(batch, weight, x.dtype)

    # Combine: results go back to the rows of the token's PE, one row for each choice.
    back = dist.create_shmem_tensor("ep", n_pes, x.dtype, [room, hidden])
    returned = dist.create_shmem_signal("ep", n_pes)
    start = 0
    for pe in pypto.loop(n_pes):
        count = counts[pe, me]
        block = pypto.view(
            result, [tokens * choices, hidden], [start, 0], valid_shape=[count, hidden]
        )
        landed = dist.shmem_put(block, [me * tokens * choices, 0], back, pe)
        dist.shmem_signal(returned, me, 1, target_pe=pe, pred=[landed])
        start += count
    home = [dist.shmem_wait_until(returned, pe, 1) for pe in pypto.loop(n_pes)]
    results = dist.shmem_get(back, me, pred=home)
    first = [sum(counts[pe, e] for pe in range(me)) for e in range(n_pes)]
    for t in pypto.loop(tokens):
        total = pypto.zeros([1, hidden], x.dtype)
        for k in pypto.loop(choices):
            e, row = place[t, k]
            at = e * tokens * choices + row - first[e]
            total = total + results[at : at + 1, :] * gates[t : t + 1, k : k + 1]
        out[t:, :] = total


def check(dtype, tokens=5, hidden=8, choices=2):
    """Run it and compare; return the largest relative error."""
    world = emu.world()
    n_pes, me = world.n_pes, world.my_pe
    choices = min(choices, n_pes)  # there is one expert on each PE
    x = random_array(me, (tokens, hidden), dtype)
    gates = random_array(50 + me, (tokens, choices), dtype)
    generator = np.random.default_rng(me)
    experts = np.array(
        [generator.permutation(n_pes)[:choices] for _ in range(tokens)], np.int32
    ).reshape(tokens, choices)
    weights = [random_array(100 + e, (hidden, hidden), dtype) for e in range(n_pes)]
    out = np.zeros((tokens, hidden), dtype.np_dtype)
    moe(x, experts, gates, weights[me], out, n_pes)
    wide = [w.astype(np.float64) for w in weights]
    expected = np.zeros((tokens, hidden))
    for t in range(tokens):
        for k in range(choices):
            gate = gates[t, k].astype(np.float64)
            expected[t] += gate * (x[t].astype(np.float64) @ wide[experts[t, k]])
    return assert_close(out, expected, n_pes)


if __name__ == "__main__":
    if emu.world().n_pes < 2:
        sys.exit("2 PEs or more are needed: emu run -n 8 examples/pypto/moe_dispatch_combine.py")
    for dtype in (pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32):
        check(dtype)
    if emu.world().my_pe == 0:
        print(f"moe_dispatch_combine: {emu.world().n_pes} PEs, 4 data types: right")

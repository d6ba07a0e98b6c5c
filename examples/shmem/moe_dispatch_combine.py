"""Mixture of experts: a kernel sends each token to its expert's PE, and another one brings the results back.

Run with: emu run -n 4 examples/shmem/moe_dispatch_combine.py
"""

import numpy as np
import triton
import triton.language as tl

import emu
from emu import shmem


@triton.jit
def dispatch(x_ptr, expert_ptr, slot_ptr, inbox_ptr, filled_ptr, rooms, D: tl.constexpr):
    """Program t sends token t to the next free row that its expert has for this PE's tokens, and counts it."""
    token, me = tl.program_id(0), shmem.my_pe()
    expert, slot = tl.load(expert_ptr + token), tl.load(slot_ptr + token)
    row = inbox_ptr + (me * rooms + slot) * D
    shmem.put_signal(row, x_ptr + token * D, D * 4, filled_ptr + me, 1, expert, op="add")


@triton.jit
def compute(inbox_ptr, filled_ptr, counts_ptr, rooms, D: tl.constexpr):
    """Program p waits for all tokens of PE p, and scales them by this expert's number plus 1."""
    sender = tl.program_id(0)
    count = tl.load(counts_ptr + sender)
    shmem.wait_until(filled_ptr + sender, "eq", count)
    for slot in range(count):
        row = inbox_ptr + (sender * rooms + slot) * D + tl.arange(0, D)
        tl.store(row, tl.load(row) * (shmem.my_pe() + 1))


@triton.jit
def combine(inbox_ptr, expert_ptr, slot_ptr, out_ptr, rooms, D: tl.constexpr):
    """Program t reads the result of token t from its expert's PE."""
    token = tl.program_id(0)
    expert, slot = tl.load(expert_ptr + token), tl.load(slot_ptr + token)
    row = inbox_ptr + (shmem.my_pe() * rooms + slot) * D + tl.arange(0, D)
    tl.store(out_ptr + token * D + tl.arange(0, D), shmem.load(row, expert))


world = emu.world()
n_pes, tokens, width = world.n_pes, 48, 64
rng = np.random.default_rng(world.my_pe)
x = rng.standard_normal((tokens, width)).astype(np.float32)
expert = rng.integers(0, n_pes, tokens).astype(np.int32)
slot = np.array([np.count_nonzero(expert[:t] == e) for t, e in enumerate(expert)], np.int32)
sent = np.bincount(expert, minlength=n_pes).astype(np.int64)
counts = world.all_to_all(sent)  # how many each PE sends to this expert
inbox = world.alloc((n_pes, tokens, width), np.float32)
filled = world.alloc(n_pes, np.int64, poison=False)
out = np.empty_like(x)

dispatch[(tokens,)](x, expert, slot, inbox.local, filled.local, tokens, width)
compute[(n_pes,)](inbox.local, filled.local, counts, tokens, width)
world.barrier()  # all experts have computed
combine[(tokens,)](inbox.local, expert, slot, out, tokens, width)
world.barrier()  # nobody reads this PE's rows any more

assert np.array_equal(out, x * (expert + 1).astype(np.float32)[:, None])
print(f"{tokens} tokens a PE went to {n_pes} experts and came back")

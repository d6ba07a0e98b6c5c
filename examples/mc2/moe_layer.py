"""A mixture-of-experts layer: tokens go to their experts, through two products, and back.

Each rank has 4 experts and a batch of tokens; a router picks 2 experts for each token. The layer is done
twice: with dispatch and combine around products of one's own, then with the two grouped operators, whose
products are made while other rows are still on their way. Both give the same bits. They are compared with
the dense formula in fp64.

Run with: emu run -n 4 examples/mc2/moe_layer.py, or python examples/mc2/moe_layer.py
"""

import ml_dtypes
import numpy as np

import emu
from emu.kernels.matmul import matmul
from emu.mc2 import alltoallv_gmm, gmm_alltoallv, moe_distribute_combine, moe_distribute_dispatch

RANKS = 4  # when started with python
LOCAL, CHOICES = 4, 2  # experts of a rank, experts of a token
TOKENS, HIDDEN, INNER = 48, 128, 192
BF16 = np.dtype(ml_dtypes.bfloat16)


def make_experts(rank):
    """Return the weights of one rank's experts: up [e, hidden, inner] and down [e, inner, hidden]."""
    rng = np.random.default_rng([1, rank])
    up = rng.standard_normal((LOCAL, HIDDEN, INNER)) / np.sqrt(HIDDEN)
    down = rng.standard_normal((LOCAL, INNER, HIDDEN)) / np.sqrt(INNER)
    return up.astype(BF16), down.astype(BF16)


def route(x, total):
    """Return the experts of each token [tokens, CHOICES] and their weights, a softmax over them."""
    router = np.random.default_rng(0).standard_normal((HIDDEN, total))
    logits = x.astype(np.float64) @ router
    ids = np.argsort(-logits, axis=1)[:, :CHOICES].astype(np.int32)
    chosen = np.take_along_axis(logits, ids, 1)
    gates = np.exp(chosen - chosen.max(1, keepdims=True))
    return ids, (gates / gates.sum(1, keepdims=True)).astype(np.float32)


def relu(x):
    return np.maximum(x, np.zeros(1, x.dtype))


def with_dispatch(x, ids, gates, up, down, shared):
    """Run the layer with dispatch and combine; what lies between them is the program's own."""
    total = LOCAL * emu.world().n_pes
    sent = moe_distribute_dispatch(x, ids, moe_expert_num=total)
    rows = np.empty_like(sent.expand_x)
    ends = np.cumsum(sent.expert_token_nums)
    for expert, end in enumerate(ends):
        part = slice(end - sent.expert_token_nums[expert], end)
        inner = relu(matmul(sent.expand_x[part], up[expert]))
        matmul(inner, down[expert], out=rows[part])
    y = moe_distribute_combine(
        rows, ids, sent.expand_idx, sent.ep_recv_counts, gates,
        moe_expert_num=total, shared_expert_x=shared,
    )  # fmt: skip
    return y, sent


def with_grouped_products(x, ids, gates, up, down, shared, recv_counts, expand_idx):
    """Run the same layer with the exchange inside the products."""
    total = LOCAL * emu.world().n_pes
    send_counts = np.bincount(ids.reshape(-1), minlength=total)
    rows = np.empty((ids.size, HIDDEN), x.dtype)
    rows[expand_idx] = np.repeat(x, CHOICES, axis=0)
    inner = alltoallv_gmm(rows, up, send_counts, recv_counts).gmm_y
    back = gmm_alltoallv(relu(inner), down, recv_counts, send_counts).y
    y = np.zeros((len(x), HIDDEN), np.float32)
    copies = back[expand_idx].reshape(len(x), CHOICES, HIDDEN).astype(np.float32)
    for j in range(CHOICES):
        y += copies[:, j] * gates[:, j : j + 1]
    return (y + shared.astype(np.float32)).astype(x.dtype)


def dense_formula(x, ids, gates, shared):
    """Every token by itself, in fp64."""
    experts = [make_experts(rank) for rank in range(emu.world().n_pes)]
    y = shared.astype(np.float64)
    for t in range(len(x)):
        for j in range(CHOICES):
            rank, expert = divmod(int(ids[t, j]), LOCAL)
            up, down = (w[expert].astype(np.float64) for w in experts[rank])
            y[t] += gates[t, j] * (np.maximum(x[t].astype(np.float64) @ up, 0) @ down)
    return y


def main():
    world = emu.world()
    rng = np.random.default_rng([2, world.my_pe])
    x = rng.standard_normal((TOKENS - world.my_pe, HIDDEN)).astype(BF16)  # batches differ in size
    shared = (rng.standard_normal(x.shape) / 4).astype(BF16)
    up, down = make_experts(world.my_pe)
    ids, gates = route(x, LOCAL * world.n_pes)

    y, sent = with_dispatch(x, ids, gates, up, down, shared)
    again = with_grouped_products(
        x, ids, gates, up, down, shared, sent.ep_recv_counts, sent.expand_idx
    )
    assert y.tobytes() == again.tobytes()
    exact = dense_formula(x, ids, gates, shared)
    error = np.abs(y.astype(np.float64) - exact).max() / np.abs(exact).max()
    assert error < 2.0**-7, error
    loads = sent.expert_token_nums.tolist()
    print(f"{len(x)} tokens, rows of its experts {loads}: right, largest error {error:.4f}")


if __name__ == "__main__":
    try:
        emu.world()
    except emu.CommError:  # started with python: this process is no PE
        emu.launch(main, RANKS)
    else:
        main()

"""A transformer block, forward and backward, on 8 PEs: fully sharded weights beside tensor parallelism.

Both layouts run, and give the gradients that JAX gives on one device. FSDP divides the batch and all
weights, and gathers weights where they are used; Megatron's layout divides heads and hidden units, and adds
up activations. What a PE sends is counted in a run and predicted by emu.sdy.cost. Needs the extra "jax".

Run with: python examples/sdy/transformer_block.py
"""

import sys
from collections import Counter

import numpy as np

try:
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P
except ImportError:
    sys.exit("this example needs JAX: pip install 'tile-emu[jax]'")

import emu.sdy
from emu.stablehlo.reference import evaluate
from emu.stablehlo.reference.devices import run_on_threads

PES, BATCH, LENGTH, WIDTH, HEADS, HIDDEN = 8, 16, 32, 64, 8, 256
SHAPES = {
    "qkv": (WIDTH, 3, HEADS, WIDTH // HEADS),
    "out": (HEADS, WIDTH // HEADS, WIDTH),
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
}
LAYOUTS = {
    "FSDP": (P("pe"), {name: P("pe") for name in SHAPES}),
    "Megatron": (
        P(),
        {
            "qkv": P(None, None, "pe", None),
            "out": P("pe", None, None),
            "up": P(None, "pe"),
            "down": P("pe", None),
        },
    ),
}


def norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def block(w, x):
    q, k, v = jnp.einsum("bsd,dche->cbshe", norm(x), w["qkv"])
    scores = jnp.einsum("bqhe,bkhe->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
    mixed = jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(scores), v)
    x = x + jnp.einsum("bqhe,hed->bqd", mixed, w["out"])
    return x + jax.nn.relu(norm(x) @ w["up"]) @ w["down"]


def gradients(w, x):
    return jax.value_and_grad(lambda w: jnp.mean(block(w, x) ** 2))(w)


class Count:
    """Counts the collectives that PE 0 runs, and what it brings to them."""

    def __init__(self):
        self.runs = Counter()
        self.bytes = 0

    def enter(self, block, arguments):
        pass

    def leave(self, op, results):
        name = op.name.removeprefix("stablehlo.")
        if name in (
            "all_gather",
            "all_reduce",
            "all_to_all",
            "collective_permute",
            "reduce_scatter",
        ):
            shapes = [operand.type.static_shape for operand in op.operands]
            self.runs[name] += 1
            self.bytes += sum(4 * int(np.prod(shape)) for shape in shapes)


def counted(executable, inputs):
    """Run the program of one device on threads, and count what the first sends."""
    partitioned, count = executable.partitioned, Count()

    def run(device):
        shards = [
            p.shard(x, device.process) for p, x in zip(partitioned.inputs, inputs, strict=True)
        ]
        evaluate(
            partitioned.local, *shards, device=device, observer=None if device.process else count
        )

    run_on_threads(run, 1, PES)
    return count


def main() -> None:
    rng = np.random.default_rng(0)
    w = {
        name: rng.normal(0, WIDTH**-0.5, shape).astype(np.float32) for name, shape in SHAPES.items()
    }
    x = rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
    expected = jax.jit(gradients)(w, x)
    for name, (batch, weights) in LAYOUTS.items():
        sharded = emu.sdy.jit(
            gradients,
            mesh={"pe": PES},
            in_shardings=(weights, batch),
            out_shardings=(P(), weights),
        )
        found = sharded(w, x)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6), found, expected
        )
        count = counted(sharded.compile(w, x), jax.tree.leaves((w, x)))
        cost = emu.sdy.cost(sharded.lower(w, x))
        print(f"{name}: loss {found[0]:.6f}, the gradients are those of one device")
        print(sharded.picture(w, x).partition("\nresult")[0])
        runs = ", ".join(f"{number} {kind}" for kind, number in sorted(count.runs.items()))
        payload = sum(each.payload_bytes * each.runs for each in cost.collectives)
        print(f"counted:   {count.bytes / 1024:.0f} KiB are brought to {runs}")
        print(
            f"predicted: {payload / 1024:.0f} KiB, for which a PE sends "
            f"{cost.communication_bytes / 1024:.0f} KiB in {cost.communication_seconds * 1e6:.0f} us; "
            f"its memory holds {cost.peak_bytes / 1024:.0f} KiB at the peak"
        )
        for total in cost.by_kind:
            print(f"  {total.name}: {total.runs} runs, {total.bytes_sent / 1024:.0f} KiB")
        sharded.close()


if __name__ == "__main__":
    main()

"""Ring attention with shard_map: keys and values travel around 8 PEs, and no PE sees the whole sequence.

Each PE keeps its part of the queries. In each of 8 steps it attends to the keys that it holds, and passes
them on to its neighbour; sums and maxima are corrected as they grow. Compared with plain attention.
Needs the extra "jax"; the PEs do not load it.

Run with: python examples/sdy/ring_attention.py
"""

import sys

import numpy as np

try:
    import jax
    import jax.numpy as jnp
    from jax.sharding import AbstractMesh
    from jax.sharding import PartitionSpec as P
except ImportError:
    sys.exit("this example needs JAX: pip install 'tile-emu[jax]'")

import emu.sdy

PES, LENGTH, HEADS, WIDTH = 8, 64, 2, 8
MESH = AbstractMesh((PES,), ("ring",))
NEXT = [(pe, (pe + 1) % PES) for pe in range(PES)]


def plain_attention(q, k, v):
    scores = jnp.einsum("qhe,khe->hqk", q, k) * WIDTH**-0.5
    return jnp.einsum("hqk,khe->qhe", jax.nn.softmax(scores), v)


def part_of_ring(q, k, v):
    """Attend with this PE's queries to the keys and values of all."""

    def attend(state, _):
        k, v, largest, total, mixed = state
        scores = jnp.einsum("qhe,khe->hqk", q, k) * WIDTH**-0.5
        new_largest = jnp.maximum(largest, scores.max(-1))
        correction = jnp.exp(largest - new_largest)
        weights = jnp.exp(scores - new_largest[..., None])
        total = total * correction + weights.sum(-1)
        mixed = mixed * correction[..., None] + jnp.einsum("hqk,khe->hqe", weights, v)
        k, v = (jax.lax.ppermute(x, "ring", NEXT) for x in (k, v))
        return (k, v, new_largest, total, mixed), None

    heads = (HEADS, q.shape[0])
    start = (k, v, jnp.full(heads, -jnp.inf), jnp.zeros(heads), jnp.zeros((*heads, WIDTH)))
    (*_, total, mixed), _ = jax.lax.scan(attend, start, None, length=PES)
    return (mixed / total[..., None]).transpose(1, 0, 2)


ring_attention = jax.shard_map(
    part_of_ring, mesh=MESH, in_specs=P("ring"), out_specs=P("ring"), check_vma=False
)


def main() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(LENGTH, HEADS, WIDTH)).astype(np.float32) for _ in range(3))
    sharded = emu.sdy.jit(ring_attention, mesh=MESH)
    print(sharded.picture(q, k, v))
    print(emu.sdy.cost(sharded.lower(q, k, v)).table())
    found = sharded(q, k, v)
    error = np.abs(found - plain_attention(q, k, v)).max()
    print(f"largest difference from plain attention: {error:.1e}")
    assert error < 1e-5


if __name__ == "__main__":
    main()

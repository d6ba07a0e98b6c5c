"""Programs of JAX, as MLIR: ``python tests/sdy/costs/programs/make.py`` writes them beside this file.

They are small, for 8 devices, and kept so that the tests need no JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

HERE = Path(__file__).parent
MESH = AbstractMesh((2, 4), ("data", "model"))
RING = AbstractMesh((8,), ("ring",))


def on(*parts: Any, mesh: AbstractMesh = MESH) -> NamedSharding:
    return NamedSharding(mesh, P(*parts))


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def mlp(x, y, w, v):
    """A train step: data and tensor parallel."""

    def loss(w, v):
        return jnp.mean((jnp.tanh(x @ w) @ v - y) ** 2)

    value, (dw, dv) = jax.value_and_grad(loss, argnums=(0, 1))(w, v)
    return value, w - 0.1 * dw, v - 0.1 * dv


def transformer_block(x, wq, wk, wv, wo, w1, w2):
    """Attention and a feed-forward layer: heads and hidden units along "model"."""
    q, k, v = (jnp.einsum("btd,dhe->bhte", x, w) for w in (wq, wk, wv))
    scores = jnp.einsum("bhte,bhse->bhts", q, k) / 2.0
    attended = jnp.einsum("bhts,bhse->bhte", jax.nn.softmax(scores, axis=-1), v)
    x = x + jnp.einsum("bhte,hed->btd", attended, wo)
    return x + jnp.tanh(x @ w1) @ w2


def fully_sharded(x, layers, target):
    """A train step of layers in a scan, with weights sharded along "data" as the batch is."""

    def loss(layers):
        out, _ = lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, layers)
        return jnp.mean((out - target) ** 2)

    value, gradient = jax.value_and_grad(loss)(layers)
    return value, layers - 0.1 * gradient


def ring_attention(q, k, v):
    """Attention over a sequence that is divided: keys and values go round the ring."""

    def local(q, k, v):
        def turn(_, state):
            k, v, weighted, weights = state
            scores = jnp.exp(q @ k.T / 4.0)
            forward = [(i, (i + 1) % 8) for i in range(8)]
            return (
                lax.ppermute(k, "ring", forward),
                lax.ppermute(v, "ring", forward),
                weighted + scores @ v,
                weights + scores.sum(-1, keepdims=True),
            )

        sums = jnp.zeros_like(q), jnp.zeros_like(q[:, :1])
        _, _, weighted, weights = lax.fori_loop(0, 8, turn, (k, v, *sums))
        return weighted / weights

    rows = P("ring", None)
    return jax.shard_map(local, mesh=RING, in_specs=(rows,) * 3, out_specs=rows, check_vma=False)(
        q, k, v
    )


def zero(x, y, w):
    """A train step whose weights and gradients are divided along "data", as in FSDP."""

    def loss(w):
        return jnp.sum((jnp.tanh(x @ w) - y) ** 2)

    gradient = lax.with_sharding_constraint(jax.grad(loss)(w), on("data", None))
    return w - 0.1 * gradient


ROWS, COLUMNS = on("data", None), on(None, "model")
PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "mlp": (
        mlp,
        [floats(16, 8), floats(16, 8), floats(8, 32), floats(32, 8)],
        [ROWS, ROWS, COLUMNS, on("model", None)],
    ),
    "transformer_block": (
        transformer_block,
        [
            floats(4, 8, 16),
            *[floats(16, 4, 4)] * 3,
            floats(4, 4, 16),
            floats(16, 32),
            floats(32, 16),
        ],
        [
            on("data", None, None),
            *[on(None, "model", None)] * 3,
            on("model", None, None),
            COLUMNS,
            on("model", None),
        ],
    ),
    "fully_sharded": (
        fully_sharded,
        [floats(16, 8), floats(3, 8, 8), floats(16, 8)],
        [
            on(("data", "model"), None),
            on(None, ("data", "model"), None),
            on(("data", "model"), None),
        ],
    ),
    "zero": (zero, [floats(16, 8), floats(16, 12), floats(8, 12)], [ROWS, ROWS, ROWS]),
    "ring_attention": (ring_attention, [floats(32, 16)] * 3, [on("ring", None, mesh=RING)] * 3),
}


def main() -> None:
    for name, (function, arguments, shardings) in PROGRAMS.items():
        jitted = jax.jit(function, in_shardings=tuple(shardings))
        lowered = jitted.trace(*arguments).lower(lowering_platforms=("cpu",))
        text = lowered.as_text(debug_info=True).replace(f"{HERE}/", "")
        (HERE / f"{name}.mlir").write_text(text)


if __name__ == "__main__":
    main()

"""Programs of more kinds, as an outsider would write them: loops in loops, several meshes, symbolic shapes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct, export, lax
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_lowering import MESH, Program, constrained, program, shaped

FLAT = AbstractMesh((8,), ("flat",))
TURNED = AbstractMesh((4, 2), ("rows", "columns"))
DATA, MODEL, BOTH = P("data"), P("model"), P("data", "model")


@program
def scan_of_scan() -> Program:
    def run(x: Any, w: Any) -> Any:
        def inner(h: Any, b: Any) -> Any:
            h = jnp.tanh(h @ w + b)
            return h, h.sum()

        def outer(h: Any, a: Any) -> Any:
            h, sums = lax.scan(inner, h, jnp.stack([a, a * 2, a * 3]))
            return h, (h, sums)

        return lax.scan(outer, jnp.zeros((6, 4)), x)

    return run, (shaped((8, 6, 4), DATA), shaped((4, 4), P(None, "model"))), {}


@program
def while_of_sharded_state() -> Program:
    def run(x: Any) -> Any:
        def goes_on(state: Any) -> Any:
            return (state[1] < 10) & (jnp.abs(state[0]).sum() < 1e4)

        def step(state: Any) -> Any:
            return constrained(state[0] * 1.5, "data", "model"), state[1] + 1

        return lax.while_loop(goes_on, step, (x, 0))

    return run, (shaped((8, 8), BOTH),), {}


@program
def vmap_of_shard_map() -> Program:
    def run(x: Any) -> Any:
        summed = jax.shard_map(
            lambda y: lax.psum(y, "model") * 2, mesh=MESH, in_specs=BOTH, out_specs=DATA
        )
        return jax.vmap(summed)(x)

    return run, (shaped((4, 8, 8), BOTH),), {}


@program
def convolution_and_batch_norm() -> Program:
    def loss(w: Any, scale: Any, shift: Any, x: Any) -> Any:
        form = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=form)
        mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
        y = jax.nn.relu((y - mean) * lax.rsqrt(variance + 1e-5) * scale + shift)
        y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (y**2).mean()

    arguments = (shaped((3, 3, 3, 8), P()), shaped((8,), MODEL), shaped((8,), MODEL))
    return (
        jax.value_and_grad(loss, argnums=(0, 1, 2)),
        (*arguments, shaped((4, 8, 8, 3), DATA)),
        {},
    )


@program
def segments() -> Program:
    def run(x: Any, i: Any) -> Any:
        i = i % 5
        reductions = (jax.ops.segment_sum, jax.ops.segment_max, jax.ops.segment_prod)
        return [reduce(x, i, 5) for reduce in reductions]

    return run, (shaped((16, 4), DATA), shaped((16,), DATA, dtype=jnp.int32)), {}


@program
def adam_in_scan() -> Program:
    def run(x: Any, w: Any) -> Any:
        def loss(w: Any) -> Any:
            return jnp.mean((jnp.tanh(x @ w) - x) ** 2)

        def step(state: Any, _: Any) -> Any:
            w, m, v = state
            gradient = jax.grad(loss)(w)
            m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient * gradient
            return (w - 1e-2 * m / (jnp.sqrt(v) + 1e-8), m, v), loss(w)

        zeros = jnp.zeros_like(w)
        return lax.scan(step, (w, zeros, zeros), jnp.arange(4))

    return run, (shaped((8, 16), DATA), shaped((16, 16), MODEL)), {}


@program
def ring_in_fori_loop() -> Program:
    def ring(a: Any, b: Any) -> Any:
        def body(_: Any, state: Any) -> Any:
            total, b = state
            return total + a @ b, lax.ppermute(b, "model", [(j, (j + 1) % 4) for j in range(4)])

        return lax.fori_loop(0, 4, body, (jnp.zeros((a.shape[0], 8)), b))[0]

    def run(x: Any, y: Any) -> Any:
        specs = (P("data", None), P("model", None))
        mapped = jax.shard_map(
            ring, mesh=MESH, in_specs=specs, out_specs=P("data"), check_vma=False
        )
        return mapped(x[:, :2], y)

    return run, (shaped((8, 8), DATA), shaped((8, 8), MODEL)), {}


@program
def three_meshes() -> Program:
    def run(x: Any) -> Any:
        y = constrained(x * 2, "data", "model")
        z = constrained(y @ y.T, "flat", mesh=FLAT)
        w = constrained(jnp.tanh(z), "columns", "rows", mesh=TURNED)
        return w, z.sum(0), constrained(w.T, ("columns", "rows"), mesh=TURNED)

    return run, (shaped((16, 8), P("flat"), mesh=FLAT),), {}


def _symbolic(*sizes: tuple[str, Any]) -> list[ShapeDtypeStruct]:
    scope = export.SymbolicScope()
    return [
        ShapeDtypeStruct(
            export.symbolic_shape(size, scope=scope),
            jnp.float32,
            sharding=None if spec is None else NamedSharding(MESH, spec),
        )
        for size, spec in sizes
    ]


@program
def symbolic_attention() -> Program:
    def run(q: Any, k: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("bsd,btd->bst", q, k) / q.shape[1])
        return weights, jnp.einsum("bst,btd->bsd", weights, k)

    return run, _symbolic(("2*b, s, 8", DATA), ("2*b, s, 8", DATA)), {"exported": True}


@program
def symbolic_orders() -> Program:
    def run(x: Any) -> Any:
        top = lax.top_k(x, x.shape[0])
        sums = jnp.cumsum(x, 0), lax.cumlogsumexp(x, 1), jnp.sort(x, 0)
        return *sums, x[: x.shape[0] // 2], x[::-1], jnp.argmax(x, 1), top

    return run, _symbolic(("2*n, 2*n", None)), {"exported": True}


@program
def symbolic_linear_algebra() -> Program:
    def run(x: Any, y: Any) -> Any:
        square = x @ jnp.swapaxes(x, -1, -2) + 4 * jnp.eye(4)
        return jnp.linalg.cholesky(square), jnp.linalg.solve(square, y), jnp.linalg.eigh(square)[0]

    return run, _symbolic(("b, 4, 4", None), ("b, 4, 2", None)), {"exported": True}

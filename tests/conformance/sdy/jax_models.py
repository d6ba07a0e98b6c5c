"""Models and their training steps: transformers, convolutions, experts, recurrences."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P
from jax_lowering import Program, U, constrained, program, shaped


def norm(x: Any, scale: Any) -> Any:
    """Root mean square normalisation."""
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def block(p: dict[str, Any], x: Any) -> Any:
    """A transformer layer: attention and a gated feed-forward part."""
    y = norm(x, p["norm1"])
    q, k, v = (jnp.einsum("bsd,dhk->bshk", y, p[w]) for w in ("q", "k", "v"))
    scores = jnp.einsum("bqhk,bshk->bhqs", q, k) * q.shape[-1] ** -0.5
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    scores = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    attended = jnp.einsum("bhqs,bshk->bqhk", scores, v)
    x = x + jnp.einsum("bqhk,hkd->bqd", attended, p["o"])
    x = constrained(x, "data", U, None)
    y = norm(x, p["norm2"])
    hidden = jax.nn.silu(y @ p["gate"]) * (y @ p["up"])
    return x + constrained(hidden, "data", None, "model") @ p["down"]


def layer_shapes(layers: int, width: int, heads: int, dtype: Any) -> dict[str, Any]:
    """Parameters of stacked layers."""
    per_head = width // heads
    specs: dict[str, tuple[tuple[int, ...], Any]] = {
        "norm1": ((width,), P(None)),
        "norm2": ((width,), P(None)),
        "q": ((width, heads, per_head), P("data", "model", None)),
        "k": ((width, heads, per_head), P("data", "model", None)),
        "v": ((width, heads, per_head), P(None, "model")),
        "o": ((heads, per_head, width), P("model", None, "data")),
        "gate": ((width, 4 * width), P("data", "model")),
        "up": ((width, 4 * width), P("data", "model")),
        "down": ((4 * width, width), P("model", "data")),
    }
    return {
        name: shaped((layers, *shape), P(None, *spec), dtype=dtype)
        for name, (shape, spec) in specs.items()
    }


def transformer(p: dict[str, Any], tokens: Any, remat: bool = False) -> Any:
    """Logits."""
    x = p["embed"][tokens]
    x = constrained(x, "data", None, None)
    step = jax.checkpoint(block) if remat else block

    def body(x: Any, layer: Any) -> tuple[Any, None]:
        return step(layer, x), None

    x, _ = lax.scan(body, x, p["layers"])
    return x @ p["embed"].T


def loss_of(p: Any, tokens: Any, remat: bool = False) -> Any:
    """Cross entropy of the next token."""
    logits = transformer(p, tokens, remat).astype(jnp.float32)[:, :-1]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
    return -picked.mean()


def adam(state: Any, grads: Any) -> Any:
    """One step of Adam on a tree."""
    p, m, v, t = state
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    scale = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    p = jax.tree.map(
        lambda p, m, v: p - (scale * m / (jnp.sqrt(v) + 1e-8)).astype(p.dtype), p, m, v
    )
    return p, m, v, t


def transformer_params(dtype: Any = jnp.float32) -> dict[str, Any]:
    """Shapes of a small model."""
    return {
        "embed": shaped((64, 16), P("model", "data"), dtype=dtype),
        "layers": layer_shapes(3, 16, 4, dtype),
    }


TOKENS = shaped((8, 12), P("data", None), dtype=jnp.int32)


@program
def transformer_forward() -> Program:
    return transformer, (transformer_params(), TOKENS), {}


@program
def transformer_forward_bf16() -> Program:
    return transformer, (transformer_params(jnp.bfloat16), TOKENS), {}


@program
def transformer_grad_remat() -> Program:
    return jax.grad(functools.partial(loss_of, remat=True)), (transformer_params(), TOKENS), {}


@program
def transformer_train() -> Program:
    def step(state: Any, tokens: Any) -> Any:
        value, grads = jax.value_and_grad(loss_of)(state[0], tokens)
        return adam(state, grads), value

    p = transformer_params()
    state = (p, p, p, shaped((), dtype=jnp.float32))
    return step, (state, TOKENS), {"donate_argnums": 0}


@program
def transformer_unrolled() -> Program:
    def run(layers: Any, x: Any) -> Any:
        for i in range(2):
            x = block(jax.tree.map(lambda w, i=i: w[i], layers), x)
        return x

    return run, (layer_shapes(2, 16, 4, jnp.float32), shaped((8, 12, 16), P("data"))), {}


def convolution(x: Any, w: Any, stride: int = 1, **more: Any) -> Any:
    """NHWC by HWIO."""
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **more
    )


def batch_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Over all but the channels."""
    mean = x.mean((0, 1, 2))
    return (x - mean) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5) * scale + shift


def conv_net(p: Any, x: Any) -> Any:
    """Two convolutions, pooling, and a classifier."""
    x = jax.nn.relu(batch_norm(convolution(x, p["c1"]), p["s1"], p["b1"]))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(convolution(x, p["c2"], 2))
    x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")
    return x.mean((1, 2)) @ p["out"]


CONV = {
    "c1": shaped((3, 3, 3, 8), P(None, None, None, "model")),
    "s1": shaped((8,), P("model")),
    "b1": shaped((8,), P("model")),
    "c2": shaped((3, 3, 8, 16), P(None, None, "model", None)),
    "out": shaped((16, 10), P("model", None)),
}
IMAGES = shaped((8, 16, 16, 3), P("data"))


@program
def conv_forward() -> Program:
    return conv_net, (CONV, IMAGES), {}


@program
def conv_grad() -> Program:
    def loss(p: Any, x: Any, y: Any) -> Any:
        return (jax.nn.log_softmax(conv_net(p, x)) * jax.nn.one_hot(y, 10)).sum()

    return (
        jax.value_and_grad(loss, (0, 1)),
        (CONV, IMAGES, shaped((8,), P("data"), dtype=jnp.int32)),
        {},
    )


@program
def conv_grouped_transposed() -> Program:
    def run(x: Any, w: Any, v: Any) -> Any:
        x = convolution(x, w, feature_group_count=4)
        x = lax.conv_transpose(x, v, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return convolution(x, jnp.ones((1, 1, 6, 4)), rhs_dilation=(2, 2))

    return (
        run,
        (
            shaped((4, 8, 8, 8), P("data", None, None, "model")),
            shaped((3, 3, 2, 8)),
            shaped((3, 3, 8, 6)),
        ),
        {},
    )


def moe(p: Any, x: Any) -> Any:
    """A mixture of experts with capacity, by one-hot dispatch."""
    gates = jax.nn.softmax(x @ p["router"])
    weight, index = lax.top_k(gates, 2)
    one_hot = jax.nn.one_hot(index, gates.shape[-1])
    place = (jnp.cumsum(one_hot.reshape(-1, gates.shape[-1]), axis=0) - 1).reshape(one_hot.shape)
    dispatch = jnp.einsum("tke,tkec->tec", one_hot, jax.nn.one_hot(place.astype(jnp.int32), 8))
    inside = constrained(jnp.einsum("tec,td->ecd", dispatch, x), "model", None, None)
    hidden = jax.nn.gelu(jnp.einsum("ecd,edf->ecf", inside, p["in"]))
    out = jnp.einsum("ecf,efd->ecd", hidden, p["out"])
    return jnp.einsum("tec,ecd->td", dispatch * weight.sum(-1)[:, None, None], out)


MOE = {
    "router": shaped((16, 4), P(None, "model")),
    "in": shaped((4, 16, 32), P("model", None, "data")),
    "out": shaped((4, 32, 16), P("model", "data")),
}


@program
def moe_forward() -> Program:
    return moe, (MOE, shaped((32, 16), P("data"))), {}


@program
def moe_grad() -> Program:
    return jax.grad(lambda p, x: (moe(p, x) ** 2).sum()), (MOE, shaped((32, 16), P("data"))), {}


@program
def moe_scatter() -> Program:
    def run(x: Any, w: Any, expert: Any) -> Any:
        order = jnp.argsort(expert)
        sizes = jnp.bincount(expert, length=4)
        y = lax.ragged_dot(x[order], w, sizes)
        return jnp.zeros_like(y).at[order].set(y), jnp.zeros((4, 32)).at[expert].add(y)

    return (
        run,
        (
            shaped((32, 16), P("data")),
            shaped((4, 16, 32), P("model")),
            shaped((32,), P("data"), dtype=jnp.int32),
        ),
        {},
    )


@program
def lstm() -> Program:
    def run(w: Any, x: Any) -> Any:
        def cell(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ w, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[1], 8))
        return lax.scan(cell, (zero, zero), x, reverse=True, unroll=2)

    return (
        jax.grad(lambda w, x: run(w, x)[1].sum()),
        (shaped((24, 32), P(None, "model")), shaped((6, 8, 16), P(None, "data"))),
        {},
    )


@program
def ssm_associative_scan() -> Program:
    def run(a: Any, b: Any) -> Any:
        def combine(l: Any, r: Any) -> Any:
            return l[0] * r[0], r[0] * l[1] + r[1]

        return lax.associative_scan(combine, (a, b), axis=1)[1]

    x = shaped((4, 12, 8), P("data", None, "model"))
    return run, (x, x), {}

"""Programs as JAX makes them, lowered to StableHLO with sdy shardings.

    PY tests/conformance/sdy/jax_programs.py DIR

with an interpreter PY that has jax writes each program as ``DIR/name.mlir``,
and once more with its locations as ``DIR/name.locations.mlir``; run
``cross.py --folder DIR`` on them. Nothing is compiled; the meshes are
`AbstractMesh`, so that one CPU device is enough.
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct, lax
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

U = P.UNCONSTRAINED
MESH = AbstractMesh((2, 4), ("data", "model"))
WIDE = AbstractMesh((16, 8), ("data", "model"))
CUBE = AbstractMesh((2, 3, 4), ("x", "y", "z"))
LINE = AbstractMesh((6,), ("x",))
ONES = AbstractMesh((1, 4), ("one", "x"))

Program = tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]
PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    """Register a program: what gives a function, its arguments and jit's options."""
    PROGRAMS[make.__name__] = make
    return make


def shaped(
    shape: Sequence[int], spec: Any = None, mesh: AbstractMesh = MESH, dtype: Any = jnp.float32
) -> ShapeDtypeStruct:
    """An argument, sharded if a spec is given."""
    if spec is None:
        return ShapeDtypeStruct(tuple(shape), dtype)
    return ShapeDtypeStruct(tuple(shape), dtype, sharding=NamedSharding(mesh, spec))


def constrained(x: Any, *spec: Any, mesh: AbstractMesh = MESH) -> Any:
    """``with_sharding_constraint``."""
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


# Models


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


# shard_map


def mapped(f: Any, ins: Any, outs: Any, mesh: AbstractMesh = MESH, **more: Any) -> Any:
    """``shard_map`` over a mesh."""
    return jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, **more)


@program
def shard_map_collectives() -> Program:
    def f(x: Any) -> Any:
        total = lax.psum(x, "model")
        every = lax.all_gather(x, "model", axis=1, tiled=True)
        part = lax.psum_scatter(every, "model", scatter_dimension=1, tiled=True)
        turned = lax.ppermute(x, "data", [(0, 1), (1, 0)])
        swapped = lax.all_to_all(x, "model", 0, 1, tiled=True)
        return (
            total,
            part,
            turned,
            swapped,
            lax.pmax(x, ("data", "model")),
            lax.axis_index("model")[None],
        )

    spec = P("data", "model")
    outs = (P("data"), spec, spec, P(("data", "model"), None), P(), P("model"))
    return mapped(f, spec, outs, check_vma=False), (shaped((16, 16), spec),), {}


@program
def shard_map_partial() -> Program:
    def f(x: Any, w: Any) -> Any:
        y = jnp.tanh(x @ w)
        return lax.psum(y, "model")

    g = mapped(f, (P(None, "model"), P("model", None)), P(), axis_names={"model"})
    return (
        lambda x, w: g(jnp.sin(x), w) * 2,
        (shaped((8, 16), P("data", "model")), shaped((16, 8), P("model"))),
        {},
    )


@program
def shard_map_grad_in_scan() -> Program:
    f = mapped(
        lambda x, w: lax.psum(x @ w, "model"),
        (P("data", "model"), P("model", None)),
        P("data", None),
    )

    def run(x: Any, ws: Any) -> Any:
        y, _ = lax.scan(lambda x, w: (jnp.tanh(f(x, w)), None), x, ws)
        return (y * y).mean()

    return jax.grad(run, 1), (shaped((8, 16), P("data")), shaped((3, 16, 16), P(None, "model"))), {}


@program
def shard_map_three_axes() -> Program:
    def f(x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            return lax.ppermute(x, "x", [(0, 1), (1, 0)]) + lax.pmean(x, "z")

        return lax.fori_loop(0, 3, step, x)

    g = mapped(
        f, P(("x", "z"), None), P(("x", "z"), None), CUBE, axis_names={"x", "z"}, check_vma=False
    )
    return lambda x: g(x).sum(0), (shaped((16, 6), P(None, "y"), CUBE),), {}


@program
def shard_map_nested() -> Program:
    def inner(x: Any) -> Any:
        return lax.psum(x, "model")

    def outer(x: Any) -> Any:
        g = jax.shard_map(
            inner, in_specs=P(None, "model"), out_specs=P(None, None), axis_names={"model"}
        )
        return g(x) + lax.axis_index("data")

    f = mapped(outer, P("data", None), P("data", None), axis_names={"data"})
    return f, (shaped((8, 8), P("data", "model")),), {}


@program
def shard_map_called_twice() -> Program:
    @jax.jit
    def helper(x: Any) -> Any:
        return mapped(lambda x: x * lax.axis_size("data"), P("data"), P("data"))(x)

    return (
        lambda x, y: helper(x) + helper(y) @ helper(y).T,
        (shaped((8, 8), P("model")), shaped((8, 8), P("data"))),
        {},
    )


# Constraints


@program
def unconstrained() -> Program:
    def run(x: Any, y: Any) -> Any:
        x = constrained(x, U, "model")
        y = constrained(y, "data", U)
        return constrained(x + y, U, U), constrained((x * y).T, ("data", "model"), None)

    return run, (shaped((8, 16)), shaped((8, 16), P(None, "model"))), {}


@program
def alike() -> Program:
    from jax.experimental.shard_alike import shard_alike

    def run(x: Any) -> Any:
        y, z = shard_alike(x, jnp.zeros_like(x))
        a, b = shard_alike(y.T, jnp.ones(x.shape[::-1]))
        return y + z, a * b

    return run, (shaped((8, 16), P("data", "model")),), {}


@program
def alike_in_scan() -> Program:
    from jax.experimental.shard_alike import shard_alike

    def run(x: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            c, other = shard_alike(c, jnp.cos(c))
            return c * other, other.sum(0)

        return lax.scan(body, x, None, length=3)

    return run, (shaped((8, 16), P("data", "model")),), {}


@program
def several_meshes() -> Program:
    other = AbstractMesh((8,), ("flat",))

    def run(x: Any, y: Any) -> Any:
        z = constrained(x, "data", None) @ y
        return constrained(z, "flat", None, mesh=other), z.sum()

    return run, (shaped((8, 16), P("data", "model")), shaped((16, 8))), {}


@program
def size_one_axes() -> Program:
    def run(x: Any, y: Any) -> Any:
        z = constrained(x @ y, "one", "x", mesh=ONES)
        return mapped(lambda z: lax.psum(z, "one"), P("one", "x"), P(None, "x"), ONES)(z)

    return run, (shaped((1, 16), P("one", "x"), ONES), shaped((16, 8), P("x"), ONES)), {}


@program
def not_divisible() -> Program:
    def run(x: Any) -> Any:
        y = constrained(jnp.concatenate([x, x]), "x", mesh=LINE)
        return y[:9].reshape(3, 3), jnp.pad(y, 5), constrained(y[1:], U, mesh=LINE)

    return run, (shaped((7,)),), {"out_shardings": None}


@program
def out_shardings() -> Program:
    def run(x: Any, w: Any) -> Any:
        return x @ w, {"sum": x.sum(), "rows": w.max(0)}

    outs = (
        NamedSharding(WIDE, P("data", "model")),
        {"sum": NamedSharding(WIDE, P()), "rows": None},
    )
    args = shaped((64, 128), P("data"), WIDE), shaped((128, 256), P(None, "model"), WIDE)
    return run, args, {"out_shardings": outs, "donate_argnums": (0,)}


@program
def functions_called() -> Program:
    @jax.jit
    def inner(x: Any) -> Any:
        return jnp.tanh(x) * 2

    @jax.jit
    def outer(x: Any, w: Any) -> Any:
        return inner(x @ w)

    def run(x: Any, w: Any) -> Any:
        for _ in range(3):
            x = outer(x, w)
        return inner(x.T), inner(constrained(x, "model", None))

    return run, (shaped((8, 16), P("data")), shaped((16, 16), P(None, "model"))), {}


# Control flow


@program
def while_loop() -> Program:
    def run(x: Any, limit: Any) -> Any:
        return lax.while_loop(
            lambda c: (c[0] < limit) & (jnp.abs(c[1]).max() < 100.0),
            lambda c: (
                c[0] + 1,
                c[1] @ c[1].T / 8.0,
                c[2] + constrained(c[1], "model", None).sum(0),
            ),
            (0, x, jnp.zeros((x.shape[1],))),
        )

    return run, (shaped((8, 8), P("data", "model")), shaped((), P(), dtype=jnp.int32)), {}


@program
def cond_and_switch() -> Program:
    def run(i: Any, x: Any, y: Any) -> Any:
        a = lax.cond(i > 1, lambda x, y: x @ y, lambda x, y: jnp.zeros((8, 8)) + x.sum(), x, y)
        b = lax.switch(i, [jnp.sin, lambda a: a.T, lambda a: constrained(a, "model", None)], a)
        return a, b

    return (
        run,
        (
            shaped((), dtype=jnp.int32),
            shaped((8, 16), P("data", "model")),
            shaped((16, 8), P("model")),
        ),
        {},
    )


@program
def map_and_vmap() -> Program:
    def run(x: Any, w: Any) -> Any:
        y = lax.map(lambda row: jnp.tanh(row @ w), x, batch_size=4)
        z = jax.vmap(lambda a, b: jnp.outer(a, b).sum(0), (0, None))(x, w[0])
        return y, z

    return run, (shaped((8, 16), P("data")), shaped((16, 16), P(None, "model"))), {}


@program
def custom_derivatives() -> Program:
    @jax.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return jnp.maximum(x @ w, 0)

    def forward(x: Any, w: Any) -> Any:
        y = f(x, w)
        return y, (x, w, y > 0)

    def backward(saved: Any, g: Any) -> Any:
        x, w, positive = saved
        g = jnp.where(positive, g, 0)
        return g @ w.T, x.T @ g

    f.defvjp(forward, backward)

    @jax.custom_jvp
    def h(x: Any) -> Any:
        return jnp.log1p(jnp.exp(x))

    h.defjvp(lambda p, t: (h(p[0]), jax.nn.sigmoid(p[0]) * t[0]))
    grad = jax.grad(lambda x, w: h(f(x, w)).sum(), (0, 1))
    return grad, (shaped((8, 16), P("data")), shaped((16, 8), P(None, "model"))), {}


@program
def callbacks() -> Program:
    def run(x: Any) -> Any:
        y = jax.pure_callback(np.sin, ShapeDtypeStruct(x.shape, x.dtype), x)
        jax.debug.print("x {x}", x=x.sum())
        return y + 1

    return run, (shaped((8, 16)),), {}


@program
def foreign_calls() -> Program:
    def run(x: Any) -> Any:
        call = jax.ffi.ffi_call(
            "my_kernel",
            (ShapeDtypeStruct(x.shape, x.dtype), ShapeDtypeStruct((4,), jnp.int32)),
            has_side_effect=True,
        )
        y, n = call(x * 2, axis=np.int32(1), name="k")
        return y @ y.T, n

    return run, (shaped((8, 16), P("data", "model")),), {}


@program
def barrier_and_checkpoint() -> Program:
    def run(x: Any, w: Any) -> Any:
        y, w = lax.optimization_barrier((x @ w, w))
        policy = jax.checkpoint_policies.dots_saveable
        f = jax.checkpoint(lambda x: jnp.sin(jnp.cos(x @ w) @ w.T), policy=policy)
        return jax.grad(lambda x: f(x).sum())(y @ w.T)

    return run, (shaped((8, 16), P("data")), shaped((16, 8), P(None, "model"))), {}


# Operations


@program
def random_numbers() -> Program:
    def run(seed: Any, x: Any) -> Any:
        key = jax.random.key(seed)
        a, b, c = jax.random.split(key, 3)
        x = x + jax.random.normal(a, x.shape)
        keep = jax.random.bernoulli(b, 0.9, x.shape)
        return jnp.where(keep, x, 0), jax.random.permutation(c, x), jax.random.categorical(c, x)

    return run, (shaped((), dtype=jnp.uint32), shaped((8, 16), P("data", "model"))), {}


@program
def random_generators() -> Program:
    def run(x: Any) -> Any:
        key = jax.random.key(7, impl="rbg")
        state, bits = lax.rng_bit_generator(np.zeros(4, np.uint32), (8, 16))
        return jax.random.uniform(key, x.shape) + x, bits, state

    return run, (shaped((8, 16), P("data", "model")),), {}


@program
def sorting() -> Program:
    def run(x: Any, keys: Any) -> Any:
        a = jnp.sort(x, axis=0)
        b = jnp.argsort(x, axis=1, descending=True)
        c = lax.sort((keys, x), num_keys=1, dimension=1)
        return a, b, c, jnp.median(x, axis=0), lax.top_k(x, 3), jnp.searchsorted(x[0], x[1])

    return (
        run,
        (shaped((8, 16), P("data", "model")), shaped((8, 16), P("data"), dtype=jnp.int32)),
        {},
    )


@program
def cumulative() -> Program:
    def run(x: Any) -> Any:
        return (
            jnp.cumsum(x, 0),
            jnp.cumprod(x, 1),
            lax.cummax(x, 1),
            lax.cumlogsumexp(x, 0),
            jnp.diff(x),
        )

    return run, (shaped((8, 16), P("data", "model")),), {}


@program
def fourier() -> Program:
    def run(x: Any) -> Any:
        y = jnp.fft.fft2(x)
        return (
            y.real,
            jnp.fft.irfft(jnp.fft.rfft(x, axis=1), axis=1),
            jnp.abs(y) + jnp.angle(y),
            y.conj().imag,
        )

    return run, (shaped((8, 16), P("data", "model")),), {}


@program
def factorisations() -> Program:
    def run(x: Any) -> Any:
        q, r = jnp.linalg.qr(x)
        s = x @ x.mT + jnp.eye(x.shape[1])
        c = jnp.linalg.cholesky(s)
        y = jax.scipy.linalg.solve_triangular(c, x, lower=True)
        return (
            q,
            r,
            c,
            y,
            jnp.linalg.eigh(s),
            jnp.linalg.svd(x),
            jnp.linalg.solve(s, x),
            jnp.linalg.det(s),
        )

    return run, (shaped((4, 8, 8), P("data")),), {}


@program
def factorisation_grads() -> Program:
    def f(x: Any) -> Any:
        c = jnp.linalg.cholesky(x @ x.T + jnp.eye(8))
        return jnp.linalg.slogdet(c)[1] + jnp.linalg.inv(c).sum()

    return jax.grad(f), (shaped((8, 8), P("data", "model")),), {}


@program
def indexing() -> Program:
    def run(x: Any, i: Any, n: Any) -> Any:
        a = x.at[i].set(1.0)
        b = x.at[i, 3].add(2.0).at[:, 2:5].multiply(0.5)
        c = x[i], x[:, ::2], x[1:-1, 4], x[i[:, None], i[None, :]], jnp.take(x, i, axis=1)
        d = lax.dynamic_slice(x, (n, 0), (4, 16)), lax.dynamic_update_slice(x, x[:2], (n, n))
        e = jnp.take_along_axis(x, i[:, None], 1), jnp.flip(x), jnp.roll(x, n, 1), x[n]
        return a, b, c, d, e, x.at[i].max(x[i] + 1, unique_indices=True, mode="drop")

    return (
        run,
        (
            shaped((8, 16), P("data", "model")),
            shaped((8,), P("data"), dtype=jnp.int32),
            shaped((), dtype=jnp.int32),
        ),
        {},
    )


@program
def indexing_grads() -> Program:
    def f(x: Any, i: Any) -> Any:
        return (jnp.take_along_axis(x, i[:, None], 1) * x[i, i][:, None]).sum() + x[i].prod()

    return (
        jax.grad(f),
        (shaped((8, 16), P("data", "model")), shaped((8,), P("data"), dtype=jnp.int32)),
        {},
    )


@program
def batched_gather() -> Program:
    def run(x: Any, i: Any, u: Any) -> Any:
        rows = jax.vmap(lambda row, i: row[i])(x, i)
        return rows, jax.vmap(lambda row, i, u: row.at[i].add(u))(x, i, u)

    return (
        run,
        (
            shaped((8, 16), P("data", "model")),
            shaped((8, 4), P("data"), dtype=jnp.int32),
            shaped((8, 4), P("data")),
        ),
        {},
    )


EINSUMS = (
    ("ij,jk->ik", (P("data", "model"), P("model"))),
    ("ij,kj->ki", (P("data"), P("model"))),
    ("bij,bjk->bik", (P("data", None, "model"), P(None, "model"))),
    ("bhqd,bkhd->bhqk", (P("data", "model"), P("data"))),
    ("ijk,k->ij", (P("data", "model"), P("model"))),
    ("i,j->ij", (P("data"), P("model"))),
    ("ij,ij->", (P("data", "model"), P("data"))),
    ("ii->i", (P("data", "model"),)),
    ("ijk->kji", (P("data", None, "model"),)),
    ("ij,jk,kl->il", (P("data"), P("model"), P(None, "data"))),
    ("abc,cd,bde->ae", (P("data", "model"), P("model"), P(None, None, "data"))),
)


@program
def einsums() -> Program:
    arguments = [
        [
            shaped((8,) * len(term), spec)
            for term, spec in zip(text.split("->")[0].split(","), specs, strict=True)
        ]
        for text, specs in EINSUMS
    ]
    texts = [text for text, _ in EINSUMS]
    return lambda *xs: [jnp.einsum(t, *x) for t, x in zip(texts, xs, strict=True)], arguments, {}


@program
def einsum_grads() -> Program:
    def f(x: Any, y: Any, z: Any) -> Any:
        return jnp.einsum("bhqd,bkhd,bk->bhq", x, y, z, precision="highest").sum()

    specs = P("data", "model"), P("data", None, "model"), P(None, "data")
    return (
        jax.grad(f, (0, 1, 2)),
        [shaped((8, 4, 8, 8), specs[0]), shaped((8, 8, 4, 8), specs[1]), shaped((8, 8), specs[2])],
        {},
    )


@program
def elements() -> Program:
    kinds = (
        jnp.bfloat16,
        jnp.float16,
        jnp.int8,
        jnp.uint8,
        jnp.int16,
        jnp.bool_,
        jnp.complex64,
        jnp.float8_e4m3fn,
        jnp.float8_e5m2,
        jnp.int4,
        jnp.uint4,
        jnp.float8_e4m3b11fnuz,
        jnp.float4_e2m1fn,
        jnp.float8_e8m0fnu,
    )

    def run(*xs: Any) -> Any:
        return [
            (x.astype(jnp.float32) if x.dtype != jnp.complex64 else x * (1 + 2j)).sum(0) for x in xs
        ], [x.reshape(4, 2, 16).T for x in xs]

    return run, [shaped((8, 16), P("data", "model"), dtype=kind) for kind in kinds], {}


@program
def integers_and_bits() -> Program:
    def run(i: Any, j: Any, b: Any) -> Any:
        k = (i << 2) ^ (j >> 1) | ~i & 7
        return (
            k // 3,
            k % 5,
            lax.population_count(k),
            lax.clz(i),
            b.any(0),
            b.all(1),
            jnp.where(b, i, j),
            i.argmax(1),
            lax.bitcast_convert_type(i, jnp.float32),
            lax.shift_right_logical(i, j),
            jnp.nonzero(b, size=4),
        )

    x = shaped((8, 16), P("data", "model"), dtype=jnp.int32)
    return run, (x, x, shaped((8, 16), P(None, "data"), dtype=jnp.bool_)), {}


@program
def quantised() -> Program:
    def run(x: Any, w: Any) -> Any:
        scale = jnp.abs(x).max(-1, keepdims=True) / 127
        q = jnp.round(x / scale).astype(jnp.int8)
        y = lax.dot_general(q, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
        eight = lax.dot_general(
            x.astype(jnp.float8_e4m3fn),
            x.astype(jnp.float8_e5m2),
            (((1,), (1,)), ((), ())),
            preferred_element_type=jnp.float32,
        )
        return y * scale, eight, lax.reduce_precision(x, 5, 2)

    return (
        run,
        (shaped((8, 16), P("data", "model")), shaped((16, 8), P("model"), dtype=jnp.int8)),
        {},
    )


@program
def reductions() -> Program:
    def run(x: Any) -> Any:
        y = lax.reduce((x, x * 2), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,))
        return (
            y,
            jnp.argmin(x, 0),
            x.std(1),
            jax.nn.logsumexp(x, 0),
            jnp.linalg.norm(x),
            jnp.histogram(x, 4)[0],
            x.max((0, 2)),
        )

    return run, (shaped((8, 4, 16), P("data", None, "model")),), {}


@program
def windows() -> Program:
    def run(x: Any) -> Any:
        y = lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 2), "VALID")
        z = jax.grad(
            lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "SAME").sum()
        )(x)
        return (
            y,
            z,
            jnp.convolve(x[0], x[1, :3]),
            lax.conv_general_dilated_patches(x[None, None], (2, 2), (1, 1), "VALID"),
        )

    return run, (shaped((8, 16), P("data", "model")),), {}


@program
def elementwise() -> Program:
    def run(x: Any) -> Any:
        unary = (
            jnp.exp,
            jnp.log,
            jnp.sin,
            jnp.arctan,
            jnp.cbrt,
            lax.erf_inv,
            lax.erf,
            jnp.expm1,
            jnp.sign,
            jnp.isfinite,
            lax.digamma,
            lax.lgamma,
            jnp.arcsinh,
            jnp.sinh,
            jax.nn.gelu,
            jnp.round,
            jnp.trunc,
            lax.bessel_i1e,
            jnp.square,
            jnp.tan,
            jnp.acosh,
            lax.logistic,
            jnp.nan_to_num,
        )
        binary = (
            jnp.arctan2,
            jnp.power,
            jnp.nextafter,
            jnp.fmod,
            jnp.hypot,
            lax.igamma,
            jnp.logaddexp,
            jax.scipy.special.zeta,
        )
        return (
            [f(x) for f in unary],
            [f(x, x + 1) for f in binary],
            jnp.clip(x, 0, 1),
            jax.nn.relu6(x),
            jnp.polyval(jnp.arange(3.0), x),
        )

    return run, (shaped((8, 16), P("data", "model")),), {}


@program
def shapes() -> Program:
    def run(x: Any) -> Any:
        return (
            x.reshape(-1),
            x.reshape(2, 4, 4, 4),
            x.reshape(16, 8),
            x[None, :, None],
            jnp.tile(x, (2, 3)),
            jnp.repeat(x, 2, 0),
            jnp.stack([x, x], 1),
            jnp.pad(x, ((1, 2), (0, 3)), mode="edge"),
            jnp.split(x, [3, 9], 1),
            jnp.tril(x),
            jnp.kron(x[:2, :2], x),
            jnp.broadcast_to(x[:, :1], (3, 8, 5)),
            jnp.moveaxis(x[None], 0, 2),
            jnp.meshgrid(x[0], x[:, 0]),
            jnp.rot90(x),
            jnp.diag(x[0]),
            jnp.trace(x),
        )

    return run, (shaped((8, 16), P("data", "model")),), {}


@program
def empty_and_scalar() -> Program:
    def run(x: Any, y: Any, s: Any) -> Any:
        return (
            x.sum(0),
            jnp.concatenate([x, x]) @ y,
            s * 2,
            jnp.zeros((0, 3)),
            x.reshape(0),
            jnp.float32(1),
            (),
        )

    return (
        run,
        (shaped((0, 16), P(None, "model")), shaped((16, 8), P("model")), shaped((), P())),
        {},
    )


@program
def cube() -> Program:
    def run(x: Any, y: Any) -> Any:
        z = jnp.einsum("abc,cd->abd", x, y)
        z = constrained(z, ("x", "z"), "y", None, mesh=CUBE)
        return (
            z.reshape(24, 6, 24),
            z.reshape(-1, 24) * 2,
            constrained(z.sum(0), "y", ("z", "x"), mesh=CUBE),
        )

    return (
        run,
        (shaped((24, 6, 24), P("x", "y", "z"), CUBE), shaped((24, 24), P(("z", "x"), "y"), CUBE)),
        {},
    )


@program
def donated_tree() -> Program:
    def run(state: Any, batch: Any) -> Any:
        return {k: v + batch.sum() for k, v in state.items()}, batch * 2

    state = {"a": shaped((8, 16), P("data")), "b": shaped((16,), P("model")), "c": shaped(())}
    return run, (state, shaped((8, 4), P("data"))), {"donate_argnums": 0, "keep_unused": True}


@program
def symbolic_shapes() -> Program:
    def run(x: Any) -> Any:
        return jnp.tanh(x) @ x.T, x.reshape(-1), jnp.arange(x.shape[0])

    from jax import export

    (n,) = export.symbolic_shape("n")
    return run, (ShapeDtypeStruct((n, 16), jnp.float32),), {"exported": True}


def lowered(make: Callable[[], Program]) -> tuple[str, str]:
    """The text of a program, without and with locations."""
    function, arguments, options = make()
    if options.pop("exported", False):
        from jax import export

        text = export.export(jax.jit(function))(*arguments).mlir_module()
        return text, text
    low = jax.jit(function, **options).trace(*arguments).lower(lowering_platforms=("cpu",))
    return low.as_text(), low.as_text(debug_info=True)


def main() -> int:
    """Write the programs; those that this jax cannot lower are named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name, make in PROGRAMS.items():
        try:
            plain, located = lowered(make)
        except Exception:  # noqa: BLE001  # the others are of use nevertheless
            sys.stderr.write(f"{name} is not lowered\n{traceback.format_exc(limit=-3)}\n")
            failed += 1
            continue
        (folder / f"{name}.mlir").write_text(plain, encoding="utf-8")
        (folder / f"{name}.locations.mlir").write_text(located, encoding="utf-8")
    sys.stdout.write(f"{len(PROGRAMS) - failed} of {len(PROGRAMS)} programs are lowered\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Programs about shardings: manual axes, constraints, calls, and control flow."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct, lax
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_lowering import CUBE, LINE, MESH, ONES, WIDE, Program, U, constrained, program, shaped

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

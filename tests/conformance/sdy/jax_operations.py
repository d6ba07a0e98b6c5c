"""Programs of operations of every kind, each on sharded arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct, lax
from jax.sharding import PartitionSpec as P
from jax_lowering import CUBE, Program, constrained, program, shaped


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

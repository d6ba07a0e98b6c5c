"""Programs of JAX on PEs, on meshes of several shapes, give what JAX gives on one device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from variants import thorough

import emu.sdy

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax
P = jax.sharding.PartitionSpec

MESHES = {
    "2x4": {"a": 2, "b": 4},
    "4x2": {"a": 4, "b": 2},
    "2x2x2": {"a": 2, "b": 2, "c": 2},
    "8": {"a": 8},
}
RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Axes:
    """The axes of a mesh that programs divide by.

    Attributes:
        mesh: Sizes by name.
        data: Axes of the batch.
        model: Axis of features; None where the mesh has one axis.
    """

    mesh: dict[str, int]

    @property
    def data(self) -> Any:
        names = [*self.mesh]
        return tuple(names[:-1]) if len(names) > 2 else names[0]

    @property
    def model(self) -> str | None:
        return [*self.mesh][-1] if len(self.mesh) > 1 else None


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(scale=shape[0] ** -0.5 if shape else 1.0, size=shape).astype(np.float32)


Program = Callable[[Axes], tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]]
PROGRAMS: dict[str, Program] = {}


def program(make: Program) -> Program:
    PROGRAMS[make.__name__.removeprefix("make_")] = make
    return make


@program
def make_mlp_adam(axes: Axes) -> Any:
    """Three steps of Adam on an MLP, one after the other in one program."""
    weights = {"w": numbers(16, 32), "v": numbers(32, 8), "b": np.zeros(32, np.float32)}
    specs = {"w": P(None, axes.model), "v": P(axes.model), "b": P(axes.model)}

    def loss(p: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jax.nn.gelu(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2)

    def train(p: Any, x: Any, y: Any) -> Any:
        def step(carry: Any, i: Any) -> Any:
            p, m, v = carry
            value, g = jax.value_and_grad(loss)(p, x, y)
            m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
            rate = 0.01 * jnp.sqrt(1 - 0.999 ** (i + 1.0)) / (1 - 0.9 ** (i + 1.0))
            p = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), p, m, v)
            return (p, m, v), value

        zeros = jax.tree.map(jnp.zeros_like, p)
        (p, _, _), losses = lax.scan(step, (p, zeros, zeros), jnp.arange(3))
        return p, losses

    return train, (weights, numbers(24, 16), numbers(24, 8)), (specs, P(axes.data), P(axes.data))


@program
def make_transformer_block(axes: Axes) -> Any:
    d, heads = 16, 8
    w = {"qkv": numbers(d, 3, heads, 4), "out": numbers(heads, 4, d), "up": numbers(d, 32), "down": numbers(32, d)}  # fmt: skip
    specs = {
        "qkv": P(None, None, axes.model),
        "out": P(axes.model),
        "up": P(None, axes.model),
        "down": P(axes.model),
    }

    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def block(w: Any, x: Any) -> Any:
        q, k, v = jnp.einsum("bsd,dche->cbshe", norm(x), w["qkv"])
        scores = jnp.einsum("bqhe,bkhe->bhqk", q, k) / 2
        scores = jnp.where(jnp.tril(jnp.ones((6, 6), bool)), scores, -1e9)
        x = x + jnp.einsum("bhqk,bkhe,hed->bqd", jax.nn.softmax(scores), v, w["out"])
        return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]

    def gradients(w: Any, x: Any) -> Any:
        return jax.value_and_grad(lambda w: (block(w, x) ** 2).mean())(w)

    return gradients, (w, numbers(8, 6, d)), (specs, P(axes.data))


@program
def make_resnet_block(axes: Axes) -> Any:
    w = {"first": numbers(3, 3, 4, 8), "second": numbers(3, 3, 8, 8), "skip": numbers(1, 1, 4, 8)}
    specs = {"first": P(None, None, None, axes.model), "second": P(), "skip": P()}

    def convolve(x: Any, k: Any, stride: int) -> Any:
        names = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, k, (stride, stride), "SAME", dimension_numbers=names)

    def normed(x: Any) -> Any:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * lax.rsqrt(var + 1e-5)

    def block(w: Any, x: Any) -> Any:
        y = jax.nn.relu(normed(convolve(x, w["first"], 2)))
        y = normed(convolve(y, w["second"], 1)) + convolve(x, w["skip"], 2)
        y = jax.nn.relu(y)
        pooled = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (pooled.mean((1, 2)) ** 2).sum()

    def gradients(w: Any, x: Any) -> Any:
        return jax.value_and_grad(block, argnums=(0, 1))(w, x)

    return gradients, (w, numbers(8, 8, 8, 4)), (specs, P(axes.data))


@program
def make_lstm_scan(axes: Axes) -> Any:
    hidden = 16
    w = {"x": numbers(8, 4, hidden), "h": numbers(hidden, 4, hidden)}
    specs = {"x": P(None, None, axes.model), "h": P(None, None, axes.model)}

    def loss(w: Any, xs: Any) -> Any:
        def cell(carry: Any, x: Any) -> Any:
            h, c = carry
            gates = jnp.einsum("bi,igh->gbh", x, w["x"]) + jnp.einsum("bi,igh->gbh", h, w["h"])
            i, f, o = jax.nn.sigmoid(gates[:3])
            c = f * c + i * jnp.tanh(gates[3])
            h = o * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((xs.shape[1], hidden))
        return (lax.scan(cell, (zeros, zeros), xs)[1] ** 2).mean()

    return jax.value_and_grad(loss), (w, numbers(5, 8, 8)), (specs, P(None, axes.data))


@program
def make_embedding(axes: Axes) -> Any:
    """Rows are looked up; the gradient adds to them, several times to some."""
    table, ids = numbers(32, 8), RNG.integers(0, 32, (16, 4)).astype(np.int32)
    ids[:, 0] = 3

    def gradients(table: Any, ids: Any) -> Any:
        def loss(table: Any) -> Any:
            return (jnp.tanh(table[ids]).sum(1) ** 2).mean()

        counts = jnp.zeros(32, jnp.int32).at[ids.reshape(-1)].add(1)
        return jax.value_and_grad(loss)(table), counts

    return gradients, (table, ids), (P(None, axes.model), P(axes.data))


@program
def make_mixture_of_experts(axes: Axes) -> Any:
    """Tokens travel to the devices of their experts and back, by all_to_all in a shard_map."""
    axis = next(iter(axes.mesh))
    experts, d, capacity = axes.mesh[axis], 8, 3
    tokens = 4 * experts

    def layer(x: Any, gate: Any, w: Any) -> Any:
        chosen = jnp.argmax(x @ gate, -1)
        one_hot = jax.nn.one_hot(chosen, experts, dtype=jnp.int32)
        place = (jnp.cumsum(one_hot, 0) * one_hot).sum(-1) - 1
        kept = place < capacity
        slots = jnp.zeros((experts, capacity, d)).at[chosen, jnp.where(kept, place, capacity)].set(
            x, mode="drop"
        )  # fmt: skip
        here = lax.all_to_all(slots, axis, 0, 0, tiled=True).reshape(experts * capacity, d)
        done = jax.nn.relu(here @ w[0]).reshape(experts, capacity, d)
        back = lax.all_to_all(done, axis, 0, 0, tiled=True)
        return jnp.where(kept[:, None], back[chosen, place], x)

    mesh = jax.sharding.AbstractMesh(tuple(axes.mesh.values()), tuple(axes.mesh))
    mapped = jax.shard_map(
        layer, mesh=mesh, in_specs=(P(axis), P(), P(axis)), out_specs=P(axis), check_vma=False
    )

    def whole(x: Any, gate: Any, w: Any) -> Any:
        """Do the same without devices: groups of tokens have their capacities by themselves."""
        groups = x.reshape(experts, -1, d)

        def group(x: Any) -> Any:
            chosen = jnp.argmax(x @ gate, -1)
            one_hot = jax.nn.one_hot(chosen, experts, dtype=jnp.int32)
            place = (jnp.cumsum(one_hot, 0) * one_hot).sum(-1) - 1
            done = jax.nn.relu(jnp.einsum("td,tde->te", x, w[chosen]))
            return jnp.where((place < capacity)[:, None], done, x)

        return jax.vmap(group)(groups).reshape(x.shape)

    arguments = (numbers(tokens, d), numbers(d, experts), numbers(experts, d, d))
    mapped.alone = whole
    return mapped, arguments, (P(axis), P(), P(axis))


@program
def make_ring_attention(axes: Axes) -> Any:
    axis = [*axes.mesh][-1]
    size = axes.mesh[axis]
    ring = [(i, (i + 1) % size) for i in range(size)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            k, v, top, total, mixed = state
            scores = q @ k.T
            new = jnp.maximum(top, scores.max(-1))
            scale, p = jnp.exp(top - new), jnp.exp(scores - new[:, None])
            k2, v2 = (lax.ppermute(x, axis, ring) for x in (k, v))
            return k2, v2, new, total * scale + p.sum(-1), mixed * scale[:, None] + p @ v

        n = q.shape[0]
        start = (k, v, jnp.full(n, -jnp.inf), jnp.zeros(n), jnp.zeros_like(v))
        _, _, _, total, mixed = lax.fori_loop(0, size, step, start)
        return mixed / total[:, None]

    mesh = jax.sharding.AbstractMesh(tuple(axes.mesh.values()), tuple(axes.mesh))
    mapped = jax.shard_map(attend, mesh=mesh, in_specs=P(axis), out_specs=P(axis), check_vma=False)
    mapped.alone = lambda q, k, v: jax.nn.softmax(q @ k.T) @ v
    return mapped, tuple(numbers(16, 4) for _ in range(3)), (P(axis),) * 3


@program
def make_top_k_sampling(axes: Axes) -> Any:
    logits = RNG.normal(size=(8, 32)).astype(np.float32)

    def sample(logits: Any, seed: Any) -> Any:
        values, places = lax.top_k(logits, 5)
        keys = jax.random.split(jax.random.key(seed), logits.shape[0])
        choice = jax.vmap(jax.random.categorical)(keys, values)
        best = jnp.argmax(logits, -1)
        return jnp.take_along_axis(places, choice[:, None], 1)[:, 0], jax.nn.softmax(values), best

    return sample, (logits, np.uint32(5)), (P(axes.data, axes.model), P())


@program
def make_factorisations(axes: Axes) -> Any:
    """LAPACK on batches of matrices, which are divided among the devices."""
    a = numbers(8, 4, 4)

    def solved(a: Any) -> Any:
        definite = a @ a.transpose(0, 2, 1) + jnp.eye(4)
        c = jnp.linalg.cholesky(definite)
        values = jnp.linalg.eigvalsh(definite)
        q, r = jnp.linalg.qr(a)
        solution = jnp.linalg.solve(definite, a)
        return c, values, q @ r, solution, jnp.linalg.slogdet(definite)[1]

    return solved, (a,), (P(axes.data),)


CASES = [(name, mesh) for name in PROGRAMS for mesh in MESHES]
QUICK = [("embedding", "4x2"), ("lstm_scan", "2x4")]


@pytest.mark.parametrize(("name", "mesh"), thorough(CASES, *QUICK))
def test_the_sharded_program_gives_what_jax_gives(name: str, mesh: str) -> None:
    sizes = MESHES[mesh]
    function, arguments, specs = PROGRAMS[name](Axes(sizes))
    sharded = emu.sdy.jit(function, mesh=sizes, in_shardings=specs)
    expected = jax.jit(getattr(function, "alone", function))(*arguments)
    found = sharded(*arguments)
    assert sharded.compile(*arguments).n_devices == 8
    assert jax.tree.structure(found) == jax.tree.structure(expected)

    def compare(path: Any, got: Any, wanted: Any) -> None:
        where = jax.tree_util.keystr(path)
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), where
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-5, err_msg=where)
        else:
            np.testing.assert_array_equal(got, wanted, err_msg=where)

    jax.tree_util.tree_map_with_path(compare, found, expected)
    sharded.close()

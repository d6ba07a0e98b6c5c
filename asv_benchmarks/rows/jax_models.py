"""Programs in JAX that are run on PEs and, as they are, by JAX: its peer. Needs JAX.

The mesh has the axes ("data", "model"). Each program is a function, its arguments (arrays), and the
PartitionSpec of each argument; its first argument is replaced by its first result at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY, BATCH, LENGTH = 4, 256, 8, 1024, 2048, 16, 128
COLLECTIVES = ("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute")


@dataclass(frozen=True)
class Model:
    """A function that is called again and again.

    Attributes:
        function: Returns (new state, more).
        arguments: The state, and what else it takes: trees of arrays.
        specs: A tree of PartitionSpec per argument.
        results: Trees of PartitionSpec of the results.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    specs: tuple[Any, ...]
    results: Any


def transformer(_mesh: Mesh, small: bool, layers: int = LAYERS) -> Model:
    """One step of Adam on the cross entropy of a transformer, sharded as Megatron does."""
    layers, batch, length = (1, 4, 16) if small else (layers, BATCH, LENGTH)
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

    column, row = P(None, "model"), P("model", None)
    layer_specs = {
        **dict.fromkeys(("q", "k", "v", "up"), column),
        **dict.fromkeys(("o", "down"), row),
        **dict.fromkeys(("norm1", "norm2"), P()),
    }
    params: dict[str, Any] = {
        "embed": weight(VOCABULARY, WIDTH),
        "norm": np.ones(WIDTH, np.float32),
    }
    specs: dict[str, Any] = {"embed": P(), "norm": P()}
    for index in range(layers):
        params[f"layer{index}"] = {
            **{name: weight(WIDTH, WIDTH) for name in ("q", "k", "v", "o")},
            "up": weight(WIDTH, HIDDEN),
            "down": weight(HIDDEN, WIDTH),
            "norm1": np.ones(WIDTH, np.float32),
            "norm2": np.ones(WIDTH, np.float32),
        }
        specs[f"layer{index}"] = layer_specs
    zeros = jax.tree.map(np.zeros_like, params)
    tokens = rng.integers(0, VOCABULARY, (batch, length + 1)).astype(np.int32)
    state = (params, zeros, zeros, np.float32(0))
    state_specs = (specs, specs, specs, P())

    def step(state: Any, tokens: Any) -> Any:
        value, grads = jax.value_and_grad(_loss)(state[0], tokens, layers)
        return _adam(state, grads), value

    return Model(step, (state, tokens), (state_specs, P("data", None)), (state_specs, P()))


def _norm(x: Any, scale: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale


def _layer(p: Any, x: Any) -> Any:
    batch, length, width = x.shape
    y = _norm(x, p["norm1"])
    q, k, v = ((y @ p[n]).reshape(batch, length, HEADS, width // HEADS) for n in ("q", "k", "v"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // HEADS) ** -0.5
    mask = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    attended = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, width)
    x = x + attended @ p["o"]
    y = _norm(x, p["norm2"])
    return x + jax.nn.gelu(y @ p["up"]) @ p["down"]


def _loss(p: Any, tokens: Any, layers: int) -> Any:
    x = p["embed"][tokens[:, :-1]]
    for index in range(layers):
        x = _layer(p[f"layer{index}"], x)
    logits = _norm(x, p["norm"]) @ p["embed"].T
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
    return -picked.mean()


def _adam(state: Any, grads: Any) -> Any:
    p, m, v, t = state
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    scale = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    p = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), p, m, v)
    return p, m, v, t


def mlp(_mesh: Mesh, small: bool) -> Model:
    """Two layers of 4096 on 4096 rows, forward and backward, and a step along the gradient."""
    size = 64 if small else 4096
    rng = np.random.default_rng(0)
    first, second = (
        rng.normal(size=(size, size), scale=size**-0.5).astype(np.float32) for _ in "ab"
    )
    x = rng.normal(size=(size, size)).astype(np.float32)

    def loss(weights: Any, x: Any) -> Any:
        return (jnp.tanh(jnp.tanh(x @ weights[0]) @ weights[1]) ** 2).mean()

    def step(weights: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(weights, x)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), value

    specs = (P(None, "model"), P("model", None))
    return Model(step, ((first, second), x), (specs, P("data", None)), (specs, P()))


def collective(mesh: Mesh, small: bool, name: str) -> Model:
    """Run a collective of all devices; 16 MiB a device on its larger side."""
    axes, devices = mesh.axis_names, mesh.size
    elements = (1 << 12 if small else 1 << 22) // devices * devices
    run: dict[str, Callable[[Any], Any]] = {
        "all_gather": lambda x: lax.all_gather(x, axes, tiled=True),
        "all_reduce": lambda x: lax.psum(x, axes),
        "reduce_scatter": lambda x: lax.psum_scatter(x, axes, tiled=True),
        "all_to_all": lambda x: lax.all_to_all(x, axes, 0, 0, tiled=True),
        "collective_permute": lambda x: lax.ppermute(
            x, axes, [(i, (i + 1) % devices) for i in range(devices)]
        ),
    }
    local = elements // devices if name == "all_gather" else elements
    x = np.ones(local * devices, np.float32)
    sharded = P(axes)
    out = P() if name == "all_gather" else sharded

    inside = jax.shard_map(run[name], mesh=mesh, in_specs=sharded, out_specs=out, check_vma=False)
    return Model(lambda x: (x, inside(x)), (x,), (sharded,), (sharded, out))


MODELS: dict[str, Callable[[Mesh, bool], Model]] = {
    "transformer": transformer,
    "mlp": mlp,
    **{name: partial(collective, name=name) for name in COLLECTIVES},
}

"""Modules of jitted JAX functions."""

from __future__ import annotations

import pytest

import emu.sdy

jax = pytest.importorskip("jax")


def test_a_mesh_larger_than_the_machine() -> None:
    jnp = jax.numpy
    spec, mesh = jax.sharding.PartitionSpec, jax.sharding.AbstractMesh((16, 16), ("data", "model"))
    rows = jax.sharding.NamedSharding(mesh, spec("data", None))
    columns = jax.sharding.NamedSharding(mesh, spec(None, "model"))

    def layer(x, w):
        return jnp.tanh(x @ w)

    x, w = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((64, 32), (32, 128)))
    module = emu.sdy.from_jax(layer, x, w, in_shardings=(rows, columns))
    assert '<["data"=16, "model"=16]>' in str(module)
    explanation = emu.sdy.explain(module)
    (tanh,) = [r for r in explanation if r.operation == "stablehlo.tanh"]
    assert [[axis.name for axis, _ in axes] for axes in tanh.axes] == [["data"], ["model"]]
    assert "test_sdy_jax.py" in tanh.place

    jitted = jax.jit(layer, in_shardings=(rows, columns))
    assert str(emu.sdy.from_jax(jitted, x, w)) == str(module)
    with pytest.raises(ValueError, match="in_shardings: the function is jitted already"):
        emu.sdy.from_jax(jitted, x, w, in_shardings=rows)

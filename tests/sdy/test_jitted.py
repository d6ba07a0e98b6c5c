"""Functions of JAX that run on PEs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import emu
import emu.sdy

jax = pytest.importorskip("jax")
jnp, P = jax.numpy, jax.sharding.PartitionSpec

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_pytrees_go_in_and_come_out() -> None:
    @emu.sdy.jit
    def function(tree: dict[str, Any], *rest: Any, scale: float = 1.0) -> Any:
        """Say what it does."""
        return {"sum": tree["a"] + rest[0][0], "none": None}, [tree["b"] * scale]

    found = function({"a": X, "b": np.int32(3)}, (X,), scale=0.5)
    assert function.__name__ == "function"
    assert function.__doc__ == "Say what it does."
    assert jax.tree.structure(found) == jax.tree.structure(({"sum": 0, "none": None}, [0]))
    assert isinstance(found[0]["sum"], np.ndarray)
    np.testing.assert_array_equal(found[0]["sum"], X + X)
    assert found[1][0] == 1.5


def test_a_sharded_function_runs_on_pes_and_is_traced_once() -> None:
    traced = []

    def function(weights: dict[str, Any], x: Any) -> Any:
        traced.append(x.shape)
        hidden = jax.lax.with_sharding_constraint(jnp.tanh(x @ weights["w"]), P("x"))
        return {"w": weights["w"] - 0.1 * jnp.sum(hidden)}, hidden

    weights = {"w": np.full((3, 4), 0.1, np.float32)}
    jitted = emu.sdy.jit(
        function,
        mesh={"x": 2},
        in_shardings=({"w": P(None, "x")}, P("x")),
        out_shardings=(None, P(None, "x")),
        donate_argnums=0,
        check="outputs",
    )
    first = jitted(weights, X)
    second = jitted(first[0], X)
    assert len(traced) == 1
    executable = jitted.compile(weights, jax.ShapeDtypeStruct(X.shape, X.dtype))
    assert len(traced) == 1
    assert executable.n_devices == 2
    hidden = np.tanh(X @ weights["w"])
    np.testing.assert_allclose(first[1], hidden, rtol=1e-5)
    np.testing.assert_allclose(first[0]["w"], weights["w"] - 0.1 * hidden.sum(), rtol=1e-5)
    assert not np.array_equal(second[0]["w"], first[0]["w"])
    assert (weights["w"] == np.float32(0.1)).all(), "arrays of the caller are never written to"
    assert 'sharding = #sdy.sharding<@mesh, [{}, {"x"}]>' in str(jitted.lower(weights, X))
    figure = jitted.picture(weights, X)
    assert "weights['w'] 3x4, in blocks of 3x2, on devices\n  | 0 | 1 |\nx 4x3, in" in figure
    assert "\nresult[1] 4x4, in blocks of 4x2, on devices" in figure
    jitted.close()
    np.testing.assert_array_equal(jitted(weights, X)[1], first[1])
    jitted.close()


def test_every_signature_has_its_program() -> None:
    traced = []

    @emu.sdy.jit(static_argnums=(1, -1))
    def function(x: Any, power: int, name: str) -> Any:
        traced.append((x.shape, x.dtype, power, name))
        return x**power

    for x in (X, X[:2], X.astype(np.int32), X, 2.0):
        np.testing.assert_array_equal(function(x, 2, "a"), np.asarray(x) ** 2)
    np.testing.assert_array_equal(function(X, 3, "a"), X**3)
    np.testing.assert_array_equal(function(X, 3, "b"), X**3)
    function(X, 3.0, "b")
    assert len(traced) == 7


def test_dtypes_are_those_of_jax() -> None:
    identity = emu.sdy.jit(lambda *x: x)
    given = (1, 2.5, True, 1j, np.float64(3), np.arange(3), jnp.ones(2, jnp.bfloat16))
    for got, wanted in zip(identity(*given), jax.jit(lambda *x: x)(*given), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, np.asarray(wanted))


def test_keys_of_random_numbers_are_keys() -> None:
    def function(key: Any) -> Any:
        return jax.random.split(key), jax.random.normal(key, (3,))

    for implementation in ("threefry2x32", "rbg"):
        key = jax.random.key(3, impl=implementation)
        keys, numbers = emu.sdy.jit(function)(key)
        assert keys.dtype == key.dtype
        expected = function(key)
        np.testing.assert_array_equal(jax.random.key_data(keys), jax.random.key_data(expected[0]))
        np.testing.assert_allclose(numbers, expected[1], rtol=1e-6)


@pytest.mark.parametrize("kind", ["concrete", "abstract", "named"])
def test_meshes_of_jax(kind: str) -> None:
    mesh: Any = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    if kind != "concrete":
        mesh = jax.sharding.AbstractMesh((1,), ("x",))
    sharding: Any = P("x")
    if kind == "named":
        mesh, sharding = None, jax.sharding.NamedSharding(mesh, sharding)
    function = emu.sdy.jit(lambda x: x + 1, mesh=mesh, in_shardings=sharding)
    assert '"x"=1' in str(function.lower(X))
    np.testing.assert_array_equal(function(X), X + 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: emu.sdy.jit(3), "function must be a function, but got 3 of type int"),
        (lambda: emu.sdy.jit(jax.jit(len)), "function must be a plain function"),
        (lambda: emu.sdy.jit(len, mesh=8), "mesh must name axes and their sizes, .* but is 8"),
        (
            lambda: emu.sdy.jit(len, mesh={"x": 0}),
            "mesh must name .* but is {'x': 0}; a mesh of JAX",
        ),
        (
            lambda: emu.sdy.jit(len, mesh={1: 2}),
            "mesh must name axes and their sizes, .* but is {1: 2}",
        ),
        (lambda: emu.sdy.jit(len, in_shardings=P("x")), "needs a mesh; give mesh= to emu.sdy.jit"),
        (
            lambda: emu.sdy.jit(len, mesh={"y": 2}, in_shardings=P("x")),
            "in_shardings: .*x.* is not found in mesh",
        ),
        (
            lambda: emu.sdy.jit(len, mesh={"y": 2}, out_shardings={"a": 3}),
            "out_shardings must hold PartitionSpec, NamedSharding or None, but got 3 of type int",
        ),
        (
            lambda: emu.sdy.jit(len, static_argnums="0"),
            "static_argnums must be a number or numbers, but got '0' of type str",
        ),
        (
            lambda: emu.sdy.jit(len, donate_argnums=(0.5,)),
            "donate_argnums must be a number or numbers",
        ),
        (
            lambda: emu.sdy.jit(lambda x, y: x, static_argnums=1)(X, [1]),
            r"static arguments must be hashable, but got \[\[1\]\]",
        ),
        (
            lambda: emu.sdy.jit(lambda x: x)("text"),
            "arguments must be arrays or pytrees of them, but got 'text' of type str",
        ),
        (
            lambda: emu.sdy.jit(lambda x: x)(jax.ShapeDtypeStruct((2,), np.float32)),
            "arguments of a call must be arrays, but got a jax.ShapeDtypeStruct",
        ),
        (
            lambda: emu.sdy.jit(lambda x, y: x, mesh={"x": 1}, in_shardings=P())(X, y=X),
            "keyword arguments must be given by position beside in_shardings, but got y",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(emu.sdy.ArgumentError, match=message):
        call()


def test_wrong_checks_are_named() -> None:
    with pytest.raises(emu.sdy.ExecutionError, match="check must be None, 'outputs'"):
        emu.sdy.jit(lambda x: x, check="all")(X)


_PROGRAM = """
import sys
import numpy as np
import emu, emu.sdy

@emu.sdy.register_custom_call("loaded")
def loaded(op, x):
    return [np.full(x.shape, float("jax" in sys.modules), np.float32)]

def main():
    import jax
    function = lambda x: jax.ffi.ffi_call("loaded", jax.ShapeDtypeStruct(x.shape, x.dtype))(x) + x
    jitted = emu.sdy.jit(function, mesh={"x": 2}, in_shardings=jax.sharding.PartitionSpec("x"))
    print(jitted(np.zeros(4, np.float32)).tolist(), jitted.compile(np.zeros(4, np.float32)).n_devices)

if __name__ == "__main__":
    main()
"""


def test_pes_do_not_import_jax(tmp_path: Any) -> None:
    path = tmp_path / "program.py"
    path.write_text(_PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[0.0, 0.0, 0.0, 0.0] 2"


def test_arrays_of_jax_go_with_shardings_over_the_mesh() -> None:
    x, w = jnp.arange(32.0).reshape(4, 8), jnp.ones((8, 6))
    with_specs = emu.sdy.jit(lambda x, w: x @ w, mesh="x=2", in_shardings=(P("x"), None))
    np.testing.assert_allclose(with_specs(x, w), np.asarray(x @ w))
    assert "sdy.mesh" in str(with_specs.lower(x, w))
    with_specs.close()


def test_a_number_that_its_dtype_cannot_hold_is_refused() -> None:
    doubled = emu.sdy.jit(lambda a: a * 2)
    assert doubled(3) == 6
    with pytest.raises(emu.sdy.ArgumentError, match=f"must fit .* {2**40} too large .* int32"):
        doubled(2**40)

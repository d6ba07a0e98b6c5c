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
        emu.sdy.jit(lambda x: x, check="all")


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


@pytest.mark.slow
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


class TestHandles:
    """Results that stay on the PEs, and are arguments again."""

    def test_a_training_loop_keeps_its_state_on_the_pes(self) -> None:
        def step(state: dict[str, Any], x: Any) -> Any:
            return {"w": state["w"] - x, "turn": state["turn"] + 1}, jnp.sum(x)

        places = {"w": P("x"), "turn": P()}
        jitted = emu.sdy.jit(
            step,
            mesh="x=2",
            in_shardings=(places, P("x")),
            out_shardings=(places, None),
            donate_argnums=0,
            gather=False,
        )
        first = state = {"w": np.zeros(4, np.float32), "turn": 0}
        x = np.arange(4, dtype=np.float32)
        for turn in range(3):
            before = state["w"]
            state, total = jitted(state, x)
            assert isinstance(state["w"], emu.sdy.DeviceArray)
            assert isinstance(total, emu.sdy.DeviceArray)
            assert not turn or before.is_donated
        np.testing.assert_array_equal(state["w"], -3 * x)
        np.testing.assert_array_equal(np.asarray(state["turn"]), 3)
        assert (first["w"] == 0).all()
        with pytest.raises(emu.sdy.ArgumentError, match=r"must have a value, but .* was donated"):
            jitted({"w": before, "turn": 0}, x)
        # Another function, with other shardings and PEs of its own, takes them as well.
        np.testing.assert_array_equal(emu.sdy.jit(lambda w: w * 2)(state["w"]), -6 * x)
        jitted.close()

    def test_other_dtypes_become_those_of_jax(self) -> None:
        text = "func.func @main(%a: tensor<2xf64>) -> tensor<2xf64> { return %a : tensor<2xf64> }"
        (wide,) = emu.sdy.compile(emu.sdy.parse(text))(np.ones(2), gather=False)
        found = emu.sdy.jit(lambda a: a + 1)(wide)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, [2, 2])

    def test_keys_come_even_so(self) -> None:
        keys = emu.sdy.jit(jax.random.split, gather=False)(jax.random.key(3))
        expected = jax.random.key_data(jax.random.split(jax.random.key(3)))
        np.testing.assert_array_equal(jax.random.key_data(keys), expected)


class TestUnevenShardings:
    """JAX refuses these; here arguments and results are whole, and shards inside are padded."""

    def test_of_an_argument(self) -> None:
        x = np.arange(20, dtype=np.float32).reshape(5, 4)
        jitted = emu.sdy.jit(
            lambda x, w: (x @ w).sum(0),
            mesh="x=2",
            in_shardings=(P("x"), P(None, "x")),
            check="unsharded",
        )
        np.testing.assert_allclose(jitted(x, x.T), (x @ x.T).sum(0))  # (4, 5): uneven, too
        np.testing.assert_allclose(jitted(x[:4], x[:4].T), (x[:4] @ x[:4].T).sum(0))
        local = str(jitted.compile(x, x.T).partitioned.local)
        assert "(tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>" in local
        jitted.close()

    def test_of_a_result(self) -> None:
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        jitted = emu.sdy.jit(
            lambda tree: {"a": tree["a"].T + 1, "b": tree["a"]},
            mesh="x=2",
            in_shardings=({"a": P("x")},),
            out_shardings={"a": P("x"), "b": None},
        )
        found = jitted({"a": x})
        np.testing.assert_array_equal(found["a"], x.T + 1)
        np.testing.assert_array_equal(found["b"], x)
        assert "stablehlo.add" in (local := str(jitted.compile({"a": x}).partitioned.local))
        assert ": tensor<2x4xf32>" in local
        jitted.close()

    def test_errors_of_the_function_are_its_own(self) -> None:
        def function(x: Any) -> Any:
            raise ValueError("mine")

        with pytest.raises(ValueError, match=r"^mine"):
            emu.sdy.jit(function, mesh="x=2", out_shardings=P("x"))(X)


def test_static_arguments_by_position_and_by_name() -> None:
    def function(x: Any, power: int = 2, *, name: str = "a") -> Any:
        assert isinstance(power, int)
        assert isinstance(name, str)
        return x**power if name == "a" else x

    for options in (
        {"static_argnums": 1, "static_argnames": "name"},
        {"static_argnames": ("power", "name")},
    ):
        jitted = emu.sdy.jit(function, **options)
        for power in (2, 3):
            np.testing.assert_array_equal(jitted(X, power=power, name="a"), X**power)
            np.testing.assert_array_equal(jitted(X, power), X**power)
        np.testing.assert_array_equal(jitted(X, 3, name="b"), X)


def test_methods() -> None:
    class Model:
        scale = 3.0

        @emu.sdy.jit(static_argnums=0)
        def __call__(self, x: Any) -> Any:
            return x * self.scale

    np.testing.assert_array_equal(Model().__call__(X), X * 3)


def test_a_callback_is_refused_at_its_line_of_the_source() -> None:
    def function(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x

    with pytest.raises(emu.sdy.EvaluationError) as caught:
        emu.sdy.jit(function)(X)
    line = function.__code__.co_firstlineno + 1
    assert str(caught.value).startswith(f"{__file__}:{line}:"), caught.value


def _deleted() -> Any:
    found = jnp.ones(3)
    found.delete()
    return found


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: emu.sdy.jit(len, gather=1), "gather must be True or False, but got 1"),
        (lambda: emu.sdy.jit(len, static_argnames=3), "static_argnames must be a name or names"),
        (lambda: emu.sdy.jit(lambda x: x, static_argnums=5), r"static_argnums.*\(5,\), but only"),
        (
            lambda: emu.sdy.jit(lambda x: x, mesh="x=2", in_shardings=P("x", None, None))(X),
            r"in_shardings: .*'x', None, None.* has 3 dimensions, but .* the shape \[4, 3\]",
        ),
        (
            lambda: emu.sdy.jit(lambda x: x, mesh="x=2", in_shardings=(P("x"), P()))(X),
            "in_shardings must be a pytree prefix of the arguments",
        ),
        (
            lambda: emu.sdy.jit(
                len,
                mesh="x=2",
                in_shardings=jax.sharding.NamedSharding(
                    jax.sharding.AbstractMesh((4,), ("y",)), P("y")
                ),
            ),
            "in_shardings must be shardings on the mesh x=2, but got one on y=4",
        ),
        (
            lambda: emu.sdy.jit(lambda x: x, out_shardings=())(X),
            r"out_shardings must be a pytree prefix of the results, but is \(\)",
        ),
        (
            lambda: emu.sdy.from_jax(lambda x: x, X, in_shardings=3),
            "in_shardings leaf specifications are expected to be .* but got 3",
        ),
        (lambda: emu.sdy.jit(lambda x: x)(np.ma.masked_array(X)), "arguments .* masked arrays"),
        (lambda: emu.sdy.jit(lambda x: x)(_deleted()), "arguments must .* has been deleted"),
        (
            lambda: jax.grad(lambda x: emu.sdy.jit(jnp.sum)(x))(X),
            "arguments must be arrays with values, but got a tracer of JAX",
        ),
    ],
)
def test_wrong_arguments_are_named_before_anything_starts(call: Any, message: str) -> None:
    with pytest.raises(emu.sdy.ArgumentError, match=message):
        call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check": "all"}, "check must be None, 'outputs'"),
        ({"options": 3}, "options must be an emu.LaunchOptions or None, but is 3"),
        ({"check": "outputs", "gather": False}, "gather must be True for a function that is"),
        (
            {"options": emu.LaunchOptions(transport="mpi"), "gather": False},
            "gather must be True with transport='mpi'",
        ),
    ],
)
def test_wrong_settings_are_named_at_once(options: Any, message: str) -> None:
    with pytest.raises(emu.sdy.ExecutionError, match=message):
        emu.sdy.jit(len, **options)

"""Calls of executables: PEs that stay, inputs of all kinds, results that stay, and failures."""

from __future__ import annotations

import gc
import os
import signal
import time

import ml_dtypes
import numpy as np
import pytest
from variants import thorough

import emu
import emu.sdy
from emu.comm.errors import CollectiveMismatchError, DeadlockError, PEDiedError
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.execution.executable import compile, run
from emu.stablehlo.reference import EvaluationError

STEP = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(
    %w: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
    %r: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>},
    %s: tensor<f32>)
    -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, tensor<f32>) {
  %0 = stablehlo.broadcast_in_dim %r, dims = [1] : (tensor<6xf32>) -> tensor<8x6xf32>
  %1 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<8x6xf32>
  %3 = stablehlo.add %w, %2 : tensor<8x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<8x6xf32>, tensor<f32>) -> tensor<f32>
  return %3, %4 : tensor<8x6xf32>, tensor<f32>
}
"""
W = np.arange(48, dtype=np.float32).reshape(8, 6)
R = np.arange(6, dtype=np.float32)


def step(w: np.ndarray, r: np.ndarray, s: float) -> tuple[np.ndarray, float]:
    found = w + r * np.float32(s)
    return found, found.sum()


def assert_step(results, w=W, r=R, s: float = 2.0) -> None:
    for got, wanted in zip(results, step(w, r, s), strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-5)


def manual(body: str, n: int = 4, size: int = 2) -> str:
    """Return a program whose devices each run a body on a shard %a of tensor<2xf32>."""
    whole, part = f"tensor<{n * size}xf32>", f"tensor<{size}xf32>"
    return f"""
    sdy.mesh @mesh = <["x"={n}]>
    func.func @main(%0: {whole}) -> {whole} {{
      %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{{"x"}}]>]
          out_shardings=[<@mesh, [{{"x"}}]>] manual_axes={{"x"}} (%a: {part}) {{
        {body}
        sdy.return %r : {part}
      }} : ({whole}) -> {whole}
      return %1 : {whole}
    }}"""


CALLED = manual("%r = stablehlo.custom_call @mine(%a) : (tensor<2xf32>) -> tensor<2xf32>")
V = np.arange(8, dtype=np.float32)


def give_pid(op, x: np.ndarray) -> list[np.ndarray]:
    return [np.full_like(x, os.getpid())]


def fail_for_4(op, x: np.ndarray) -> list[np.ndarray]:
    if x[0] == 4:
        raise ZeroDivisionError("on purpose")
    return [x]


def die_for_4(op, x: np.ndarray) -> list[np.ndarray]:
    if x[0] == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return [x]


def add_to_input(op, x: np.ndarray) -> list[np.ndarray]:
    return [x + 1]


@pytest.mark.parametrize("path", ["compiled", "reference"])
def test_calls_of_one_program(path) -> None:
    with compile(emu.sdy.parse(STEP), path=path) as program:
        for s in (2.0, 3.0):
            assert_step(program(W, R, s), s=s)
        assert_step(program(W * 2, R, np.float32(5)), W * 2, s=5)
    assert_step(program(W, R, 2.0))  # after it was closed
    program.close()


def run_in_world(program: emu.sdy.Executable) -> list[np.ndarray]:
    first = program(W, R, 2.0)
    program(W, R, 3.0)
    assert_step(first)
    return first


def test_a_program_is_sent_to_a_world_that_calls_it() -> None:
    program = compile(emu.sdy.parse(STEP))
    for found in emu.launch(run_in_world, 4, args=(program,)):
        assert_step(found)


def test_the_same_pes_run_all_calls() -> None:
    with compile(emu.sdy.parse(CALLED), custom_calls={"mine": give_pid}) as program:
        (first,), (second,) = program(V), program(V)
        np.testing.assert_array_equal(first, second)
        assert len(set(first)) == 4
        program.close()
        (third,) = program(V)
        assert not set(third) & set(first)


def test_pes_end_with_the_program() -> None:
    program = compile(emu.sdy.parse(CALLED), custom_calls={"mine": give_pid})
    (pids,) = program(V)
    del program
    gc.collect()
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{int(pid)}/exe") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_other_options_start_other_pes() -> None:
    with compile(emu.sdy.parse(CALLED), custom_calls={"mine": give_pid}) as program:
        (first,) = program(V, options=emu.LaunchOptions(timeout=30))
        (second,) = program(V)
        (third,) = program(V, options=emu.LaunchOptions(timeout=31))
    np.testing.assert_array_equal(first, second)
    assert not set(first) & set(third)


class TestInputs:
    def test_shards(self) -> None:
        parts = [W[4 * i : 4 * i + 4, 3 * j : 3 * j + 3] for i in range(2) for j in range(2)]
        with compile(emu.sdy.parse(STEP)) as program:
            assert_step(program(emu.sdy.PerDevice(parts), R, 2.0))
            assert_step(program(parts, [R] * 4, np.float32(2)))
            with pytest.raises(ExecutionError, match=r"input 0 must have 4 shards, .* but has 3"):
                program(parts[1:], R, 2.0)
            with pytest.raises(
                ExecutionError,
                match=r"must have shards float32\[4, 3\], but that of device 1 is float32\[4, 2\]",
            ):
                program([parts[0], parts[1][:, 1:], *parts[2:]], R, 2.0)

    def test_other_strides_and_other_libraries(self) -> None:
        class Foreign:
            def __dlpack__(self, **options):
                return W.__dlpack__(**options)

            def __dlpack_device__(self):
                return W.__dlpack_device__()

        turned = np.asfortranarray(W)
        with compile(emu.sdy.parse(STEP)) as program:
            assert_step(program(turned, np.repeat(R, 2)[::2], 2.0))
            assert_step(program(Foreign(), R, 2.0))

    def test_jax_arrays(self) -> None:
        jnp = pytest.importorskip("jax.numpy")
        assert_step(run(emu.sdy.parse(STEP), jnp.asarray(W), jnp.asarray(R), jnp.float32(2)))

    @pytest.mark.parametrize("value", [1j, "x", None, [1.0], np.float64(2)])
    def test_scalars_that_do_not_fit(self, value) -> None:
        program = compile(emu.sdy.parse(STEP))
        with pytest.raises(ExecutionError, match="input 2 must be"):
            program(W, R, value)

    @pytest.mark.parametrize("value", [1.5, 300, -1, 1j, "x"])
    def test_integers_that_do_not_fit(self, value) -> None:
        t = "tensor<ui8>"
        program = compile(emu.sdy.parse(f"func.func @main(%a: {t}) -> {t} {{ return %a : {t} }}"))
        np.testing.assert_array_equal(program(200), [np.uint8(200)])
        with pytest.raises(ExecutionError, match="input 0 must be"):
            program(value)

    @pytest.mark.parametrize(
        "element", thorough(["bf16", "f8E4M3FN", "i4", "i1", "complex<f32>"], "bf16", "i4")
    )
    def test_dtypes(self, element) -> None:
        dtype = {
            "bf16": ml_dtypes.bfloat16,
            "f8E4M3FN": ml_dtypes.float8_e4m3fn,
            "i4": ml_dtypes.int4,
            "i1": np.bool_,
            "complex<f32>": np.complex64,
        }[element]
        t = f"tensor<6x2x{element}>"
        text = f"""sdy.mesh @mesh = <["x"=3]>
        func.func @main(%a: {t} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) -> {t} {{
          return %a : {t}
        }}"""
        x = np.arange(12).reshape(6, 2).astype(np.int8) % 5
        (got,) = run(emu.sdy.parse(text), x.astype(dtype))
        np.testing.assert_array_equal(got, x.astype(dtype))

    def test_uneven_shards_and_empty_arrays(self) -> None:
        text = """sdy.mesh @mesh = <["x"=4]>
        func.func @main(%a: tensor<5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<0x3xf32>)
            -> (tensor<5xf32>, tensor<0x3xf32>) {
          %0 = stablehlo.add %a, %a : tensor<5xf32>
          return %0, %b : tensor<5xf32>, tensor<0x3xf32>
        }"""
        with compile(emu.sdy.parse(text)) as program:
            for _ in range(2):
                got, empty = program(V[:5], np.zeros((0, 3), np.float32))
                np.testing.assert_array_equal(got, V[:5] * 2)
                assert empty.shape == (0, 3)


class TestResultsThatStay:
    def test_a_loop_whose_state_stays(self) -> None:
        with compile(emu.sdy.parse(STEP)) as program:
            w, total = program(W, R, 1.0, gather=False)
            for _ in range(5):
                w, total = program(w, R, 1.0, gather=False)
            assert_step([w, total.numpy()], W + 5 * R, s=1.0)
            assert w.shape == (8, 6)
            assert w.dtype == np.float32
            np.testing.assert_array_equal(w.shards[3], np.asarray(w)[4:, 3:])
            assert len(program(w, R, total)) == 2

    def test_memory_is_used_again(self) -> None:
        with compile(emu.sdy.parse(STEP)) as program:
            w, _ = program(W, R, 1.0, gather=False)
            for _ in range(3):
                w, _ = program(w, R, 1.0, gather=False)
            used = program._resident.memory.nbytes
            for _ in range(20):
                w, _ = program(w, R, 1.0, gather=False)
            assert program._resident.memory.nbytes == used

    def test_handles_outlive_their_pes(self) -> None:
        program = compile(emu.sdy.parse(STEP))
        w, total = program(W, R, 2.0, gather=False)
        program.close()
        assert_step([w, total])
        assert_step(program(w, R, 1.0), step(W, R, 2.0)[0], s=1.0)
        del program
        gc.collect()
        assert_step([w, total])

    def test_handles_of_one_program_are_inputs_of_another(self) -> None:
        other = STEP.replace('[{"x"}, {"y"}]', '[{"y"}, {}]')
        with compile(emu.sdy.parse(STEP)) as first, compile(emu.sdy.parse(other)) as second:
            w, _ = first(W, R, 2.0, gather=False)
            assert_step(second(w, R, 1.0), step(W, R, 2.0)[0], s=1.0)

    def test_one_device(self) -> None:
        t = "tensor<3xf32>"
        text = f"func.func @main(%a: {t}) -> {t} {{\n%0 = stablehlo.add %a, %a : {t}\nreturn %0 : {t}\n}}"
        program = compile(emu.sdy.parse(text), donate=[0])
        x = np.ones(3, np.float32)
        (kept,) = program(x, gather=False)
        (again,) = program(kept, gather=False)
        np.testing.assert_array_equal(again, [4, 4, 4])
        np.testing.assert_array_equal(x, [1, 1, 1])
        with pytest.raises(ExecutionError, match="was donated"):
            kept.numpy()

    def test_donated_handles_have_no_value(self) -> None:
        with compile(emu.sdy.parse(STEP), donate=[0]) as program:
            w, _ = program(W, R, 1.0, gather=False)
            again, _ = program(w, R, 1.0, gather=False)
            for use in (w.numpy, lambda: w.shards, lambda: program(w, R, 1.0)):
                with pytest.raises(ExecutionError, match="was donated to a call"):
                    use()
            np.testing.assert_allclose(again, W + 2 * R)
            np.testing.assert_array_equal(W, np.arange(48).reshape(8, 6))

    def test_a_donated_handle_is_no_other_input(self) -> None:
        t = 'tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}'
        text = f"""sdy.mesh @mesh = <["x"=2]>
        func.func @main(%a: {t}, %b: {t}) -> ({t}) {{
          %0 = stablehlo.add %a, %b : tensor<4xf32>
          return %0 : tensor<4xf32>
        }}"""
        with compile(emu.sdy.parse(text), donate=[0]) as program:
            (x,) = program(V[:4], V[:4], gather=False)
            with pytest.raises(ExecutionError, match=r"input 0 is donated, .* but is input 1"):
                program(x, x)
            np.testing.assert_array_equal(program(V[:4], x), [3 * V[:4]])

    def test_the_module_says_what_is_donated(self) -> None:
        text = STEP.replace(
            "%w: tensor<8x6xf32> {", "%w: tensor<8x6xf32> {jax.buffer_donor = true, "
        )
        text = text.replace("%s: tensor<f32>", "%s: tensor<f32> {tf.aliasing_output = 1 : i32}")
        assert compile(emu.sdy.parse(text)).donated == (0, 2)
        assert compile(emu.sdy.parse(text), donate=[1]).donated == (0, 1, 2)
        assert compile(emu.sdy.parse(STEP)).donated == ()


class TestFailures:
    def test_an_exception_in_a_custom_call(self) -> None:
        with compile(emu.sdy.parse(CALLED), custom_calls={"mine": fail_for_4}) as program:
            for _ in range(2):
                with pytest.raises(ExceptionGroup) as caught:
                    program(V)
                assert caught.group_contains(ZeroDivisionError, match="on purpose")
                np.testing.assert_array_equal(program(V + 1), [V + 1])

    def test_a_pe_that_is_killed_in_a_call(self) -> None:
        with compile(emu.sdy.parse(CALLED), custom_calls={"mine": die_for_4}) as program:
            with pytest.raises(ExceptionGroup) as caught:
                program(V)
            assert caught.group_contains(PEDiedError, match=r"PE 2 .* killed by SIGKILL")
            np.testing.assert_array_equal(program(V + 1), [V + 1])

    def test_pes_whose_branches_call_different_collectives(self) -> None:
        program = compile(emu.sdy.parse(manual(diverging(BOTH))))
        with program, pytest.raises(ExceptionGroup) as caught:
            program(V)
        assert caught.group_contains(CollectiveMismatchError)

    def test_a_pe_that_does_not_come_to_a_collective(self) -> None:
        with compile(emu.sdy.parse(manual(diverging(ONE)))) as program:
            with pytest.raises(ExceptionGroup) as caught:
                program(V, options=emu.LaunchOptions(timeout=1.5))
            assert caught.group_contains(DeadlockError)

    def test_an_operation_without_a_meaning(self) -> None:
        with (
            compile(emu.sdy.parse(CALLED)) as program,
            pytest.raises((ExceptionGroup, EvaluationError)) as caught,
        ):
            program(V)
        assert "mine" in str(caught.value) + str(getattr(caught.value, "exceptions", ""))


def diverging(branches: str) -> str:
    """Return a body in which device 1 takes another branch than the others."""
    return f"""
    %p = stablehlo.partition_id : tensor<ui32>
    %one = stablehlo.constant dense<1> : tensor<ui32>
    %c = stablehlo.compare EQ, %p, %one : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %r = "stablehlo.if"(%c) ({branches}) : (tensor<i1>) -> tensor<2xf32>"""


def reduced(element: str) -> str:
    t, s = f"tensor<2x{element}>", f"tensor<{element}>"
    return f"""{{
      %4 = stablehlo.convert %a : (tensor<2xf32>) -> {t}
      %5 = "stablehlo.all_reduce"(%4) ({{
        ^bb0(%x: {s}, %y: {s}):
          %6 = stablehlo.add %x, %y : {s}
          stablehlo.return %6 : {s}
      }}) {{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids,
           channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}
          : ({t}) -> {t}
      %7 = stablehlo.convert %5 : ({t}) -> tensor<2xf32>
      stablehlo.return %7 : tensor<2xf32>
    }}"""


BOTH = f"{reduced('f32')}, {reduced('f64')}"
ONE = f"{{ stablehlo.return %a : tensor<2xf32> }}, {reduced('f32')}"


class TestDevices:
    def test_another_mesh(self) -> None:
        program = compile(emu.sdy.parse(STEP), mesh={"x": 1, "y": 3}, n_pes=3)
        with program:
            assert program.n_devices == 3
            assert_step(program(W, R, 2.0))
        assert compile(emu.sdy.parse(STEP), mesh="x=4, y=2").n_devices == 8

    def test_a_mesh_for_a_module_that_has_none(self) -> None:
        t = "tensor<4xf32>"
        text = f"func.func @main(%a: {t}) -> {t} {{ return %a : {t} }}"
        with compile(emu.sdy.parse(text), mesh="x=2", n_pes=2) as program:
            np.testing.assert_array_equal(program(V[:4]), [V[:4]])

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"mesh": {"x": 2}}, "mesh must have the axes of @mesh, but .* has no y"),
            ({"mesh": "x"}, "mesh must name axes and their sizes"),
            ({"mesh": {"x": 0}}, "mesh must name axes and their sizes"),
            ({"mesh": "x=2,x=3"}, "mesh must name axes and their sizes"),
            ({"mesh": 3}, "mesh must name axes and their sizes"),
            ({"n_pes": 3}, "n_pes must be the number of devices of the program, 4, but is 3"),
            ({"n_pes": "4"}, "n_pes must be an integer"),
            ({"replicas": 0}, "replicas must be an integer"),
            ({"donate": [3]}, r"donate must hold numbers of inputs in \[0, 3\), but has 3"),
            ({"donate": "0"}, "donate must be a sequence"),
            ({"path": "fast"}, "path must be 'compiled' or 'reference', but is 'fast'"),
        ],
    )
    def test_wrong_arguments(self, arguments, text) -> None:
        with pytest.raises(ExecutionError, match=text):
            compile(emu.sdy.parse(STEP), **arguments)

    def test_arguments_of_calls(self) -> None:
        program = compile(emu.sdy.parse(STEP))
        with pytest.raises(ExecutionError, match=r"options must be an emu\.LaunchOptions or None"):
            program(W, R, 1.0, options=3)
        with pytest.raises(emu.sdy.ArgumentError, match="gather must be True or False"):
            program(W, R, 1.0, gather=None)
        over_hosts = emu.LaunchOptions(transport="mpi")
        with pytest.raises(ExecutionError, match="gather must be True with transport"):
            program(W, R, 1.0, options=over_hosts, gather=False)
        with pytest.raises(ExecutionError, match="shards must be a sequence of arrays"):
            emu.sdy.PerDevice(3)

    def test_replicas(self) -> None:
        text = manual(
            """%r = "stablehlo.all_reduce"(%a) ({
              ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                %6 = stablehlo.add %x, %y : tensor<f32>
                stablehlo.return %6 : tensor<f32>
            }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
                : (tensor<2xf32>) -> tensor<2xf32>""",
            n=2,
        )
        with compile(emu.sdy.parse(text), replicas=2, n_pes=4) as program:
            np.testing.assert_array_equal(program(V[:4]), [2 * V[:4]])
            shards = [V[:2], V[2:4], V[4:6], V[6:]]
            np.testing.assert_array_equal(program(shards), [V[:4] + V[4:]])

    def test_many_pes_on_few_cores(self) -> None:
        text = """sdy.mesh @mesh = <["x"=64]>
        func.func @main(%a: tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
            -> (tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, tensor<f32>) {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %1 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0, 1]
              : (tensor<128x64xf32>, tensor<f32>) -> tensor<f32>
          %2 = stablehlo.add %a, %a : tensor<128x64xf32>
          return %2, %1 : tensor<128x64xf32>, tensor<f32>
        }"""
        x = np.random.default_rng(0).integers(0, 9, (128, 64)).astype(np.float32)
        with compile(emu.sdy.parse(text)) as program:
            for _ in range(2):
                doubled, total = program(x)
                np.testing.assert_array_equal(doubled, 2 * x)
                assert total == x.sum()


def test_a_fork_has_pes_of_its_own_and_leaves_those_of_its_parent() -> None:
    with compile(emu.sdy.parse(STEP)) as program:
        assert_step(program(W, R, 2.0))
        child = os.fork()
        if not child:
            status = 1
            try:
                program.close()  # not those of the parent
                assert_step(program(W, R, 3.0), s=3.0)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert_step(program(W, R, 2.0))


def test_handles_of_a_program_go_into_one_on_another_mesh() -> None:
    alone = STEP.replace('"x"=2, "y"=2', '"x"=1, "y"=1')
    with compile(emu.sdy.parse(STEP)) as many, compile(emu.sdy.parse(alone)) as one:
        (w, _) = many(W, R, 0.0, gather=False)
        assert_step(one(w, R, 2.0))
        (w, _) = one(w, R, 0.0, gather=False)
        assert_step(many(w, R, 2.0))

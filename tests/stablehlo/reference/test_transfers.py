"""Infeed, outfeed, channels, tuples and futures."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

import emu.sdy
from emu.stablehlo.reference import EvaluationError, evaluate, evaluate_devices
from emu.stablehlo.reference.devices import ThreadDevice, run_on_threads
from emu.stablehlo.reference.streams import Streams

T = "tensor<2xf32>"
TOKEN = "!stablehlo.token"


def program(body: str, arguments: str = f"%a: {T}", results: str = T) -> emu.sdy.Operation:
    return emu.sdy.parse(f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}")


A = np.array([1, 2], np.float32)
FEED = program(f"""%t = stablehlo.after_all : {TOKEN}
    %0:2 = "stablehlo.infeed"(%t) : ({TOKEN}) -> ({T}, {TOKEN})
    %1:2 = "stablehlo.infeed"(%0#1) : ({TOKEN}) -> ({T}, {TOKEN})
    %2 = stablehlo.subtract %0#0, %1#0 : {T}
    %3 = "stablehlo.outfeed"(%2, %1#1) : ({T}, {TOKEN}) -> {TOKEN}
    %4 = "stablehlo.outfeed"(%3) : ({TOKEN}) -> {TOKEN}
    return %2 : {T}""", "")  # fmt: skip


def test_infeed_takes_entries_in_order_and_outfeed_keeps_them() -> None:
    streams = Streams(infeed=deque([[3 * A], [A]]))
    (found,) = evaluate(FEED, streams=streams)
    np.testing.assert_array_equal(found, 2 * A)
    assert not streams.infeed
    assert [len(entry) for entry in streams.outfeed] == [1, 0]
    np.testing.assert_array_equal(streams.outfeed[0][0], 2 * A)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "stablehlo.infeed: the infeed is empty"),
        ([[A, A]], "the infeed's entry has 2 values, but 1 are taken"),
        ([[A[:1]]], r"value 0 of the infeed's entry is float32\[1\], but tensor<2xf32> is taken"),
        ([[A.astype(int)]], r"is int64\[2\], but tensor<2xf32> is taken"),
    ],
)
def test_what_does_not_fit_the_infeed_is_named(entries: list, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        evaluate(FEED, streams=Streams(infeed=deque(entries)))


def transfer(words: str) -> str:
    return f"""%t = stablehlo.after_all : {TOKEN}
    %0 = "stablehlo.send"(%a, %t) {{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>{words}}} : ({T}, {TOKEN}) -> {TOKEN}
    %1:2 = "stablehlo.recv"(%0) {{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>{words}}} : ({TOKEN}) -> ({T}, {TOKEN})
    return %1#0 : {T}"""


def test_a_value_sent_to_the_host_comes_back() -> None:
    (found,) = evaluate(program(transfer(", is_host_transfer = true")), A)
    np.testing.assert_array_equal(found, A)


def test_values_go_along_pairs_of_devices_and_others_get_zeros() -> None:
    pairs = ", source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>"
    found = evaluate_devices(program(transfer(pairs)), [[A * k] for k in (1, 2, 3)])
    for got, wanted in zip(found, (0 * A, A, 2 * A), strict=True):
        np.testing.assert_array_equal(got[0], wanted)


def test_a_process_that_is_alone_does_not_wait() -> None:
    body = f"""%t = stablehlo.after_all : {TOKEN}
    %1:2 = "stablehlo.recv"(%t) {{channel_handle = #stablehlo.channel_handle<handle = 7, type = 3>, is_host_transfer = true}} : ({TOKEN}) -> ({T}, {TOKEN})
    return %1#0 : {T}"""
    with pytest.raises(EvaluationError, match=r"stablehlo\.recv: nothing was sent over channel 7"):
        evaluate(program(body, ""))


def test_a_process_waits_for_what_another_sends() -> None:
    body = f"""%t = stablehlo.after_all : {TOKEN}
    %p = stablehlo.partition_id : tensor<ui32>
    %c = stablehlo.convert %p : (tensor<ui32>) -> tensor<i1>
    %0 = "stablehlo.if"(%c) ({{
      %1 = "stablehlo.send"(%a, %t) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}} : ({T}, {TOKEN}) -> {TOKEN}
      stablehlo.return %a : {T}
    }}, {{
      %1:2 = "stablehlo.recv"(%t) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true}} : ({TOKEN}) -> ({T}, {TOKEN})
      stablehlo.return %1#0 : {T}
    }}) : (tensor<i1>) -> {T}
    return %0 : {T}"""
    module, streams = program(body), Streams()

    def run(device: ThreadDevice) -> np.ndarray:
        return evaluate(module, A * device.process, device=device, streams=streams)[0]

    for got in run_on_threads(run, 1, 2):
        np.testing.assert_array_equal(got, A)


def test_tuples_hold_tuples() -> None:
    body = f"""%0 = stablehlo.tuple %a : tuple<{T}>
    %1 = stablehlo.tuple %a, %0 : tuple<{T}, tuple<{T}>>
    %2 = stablehlo.get_tuple_element %1[1] : (tuple<{T}, tuple<{T}>>) -> tuple<{T}>
    %3 = stablehlo.get_tuple_element %2[0] : (tuple<{T}>) -> {T}
    return %3 : {T}"""
    (found,) = evaluate(program(body), A)
    np.testing.assert_array_equal(found, A)


def test_a_future_holds_what_its_operation_gives() -> None:
    wide = "tensor<4xf32>"
    body = f"""%0 = "stablehlo.async_start"(%a) ({{
    ^bb0(%b: {T}):
      %1 = "stablehlo.all_gather"(%b) {{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}} : ({T}) -> {wide}
      stablehlo.return %1 : {wide}
    }}) : ({T}) -> !stablehlo.future<{wide}>
    %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<{wide}>) -> {wide}
    return %2 : {wide}"""
    found = evaluate_devices(program(body, results=wide), [[A], [-A]])
    for got in found:
        np.testing.assert_array_equal(got[0], [1, 2, -1, -2])


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32", "ui8", "i1"])
def test_random_numbers_lie_in_their_interval(dtype: str) -> None:
    scalar = f"tensor<{dtype}>"
    low, high = (
        ("false", "true") if dtype == "i1" else ("3", "7") if "f" not in dtype else ("3.0", "7.0")
    )
    body = f"""%l = stablehlo.constant dense<{low}> : {scalar}
    %h = stablehlo.constant dense<{high}> : {scalar}
    %s = stablehlo.constant dense<[50, 20]> : tensor<2xi64>
    %0 = stablehlo.rng %l, %h, %s, distribution = UNIFORM : ({scalar}, {scalar}, tensor<2xi64>) -> tensor<50x20x{dtype}>
    return %0 : tensor<50x20x{dtype}>"""
    (found,) = evaluate(program(body, "", f"tensor<50x20x{dtype}>"))
    values = np.unique(found.astype(np.float64))
    if dtype == "i1":
        assert values.tolist() == [0, 1]
    elif "i" in dtype:
        assert values.tolist() == [3, 4, 5, 6]
    else:
        assert values.min() >= 3
        assert values.max() < 7
        assert len(values) > 100


def test_normal_numbers_have_their_mean_and_deviation() -> None:
    body = """%l = stablehlo.constant dense<2.0> : tensor<f32>
    %h = stablehlo.constant dense<0.5> : tensor<f32>
    %s = stablehlo.constant dense<[5000]> : tensor<1xi64>
    %0 = stablehlo.rng %l, %h, %s, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<5000xf32>
    return %0 : tensor<5000xf32>"""
    (found,) = evaluate(program(body, "", "tensor<5000xf32>"))
    assert abs(found.mean() - 2) < 0.05
    assert abs(found.std() - 0.5) < 0.05


def test_only_the_size_that_a_dimension_has_is_set() -> None:
    body = f"%0 = stablehlo.set_dimension_size %a, %n, dim = 0 : ({T}, tensor<i32>) -> {T}\nreturn %0 : {T}"
    module = program(body, f"%a: {T}, %n: tensor<i32>")
    np.testing.assert_array_equal(evaluate(module, A, np.array(2, np.int32))[0], A)
    with pytest.raises(
        EvaluationError, match="only the size that dimension 0 has, 2, is evaluated, but got 1"
    ):
        evaluate(module, A, np.array(1, np.int32))


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]
)
def test_the_upper_half_of_products_is_that_of_pythons_integers(dtype: type) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    x, y = (rng.integers(info.min, info.max, 30, dtype=dtype, endpoint=True) for _ in range(2))
    x[:3], y[:3] = [info.min, info.max, 0], [info.min, info.max, info.max]
    name = ("ui" if info.min == 0 else "i") + str(info.bits)
    t = f"tensor<30x{name}>"
    body = f"%0 = chlo.mulhi %a, %b : {t}, {t} -> {t}\nreturn %0 : {t}"
    (found,) = evaluate(program(body, f"%a: {t}, %b: {t}", t), x, y)
    assert [int(v) for v in found] == [
        int(a) * int(b) >> info.bits for a, b in zip(x, y, strict=True)
    ]

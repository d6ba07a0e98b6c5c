"""Wrong arguments are refused by name, value and bound, before anything is done."""

from __future__ import annotations

import os
from typing import Any

import pytest
from fuzzing import Fuzzer, Target
from sdy_cost_programs import MLP

import emu.sdy

MANUAL = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
      manual_axes={"x"} (%b: tensor<2x4xf32>) {
    sdy.return %b : tensor<2x4xf32>
  } : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""
SUB_AXES = MLP.replace('"data"=2', '"data"=4').replace('[{"data"}, {}]', '[{"data":(1)2}, {}]')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mesh": "z=3"}, r"mesh must name axes of the module \(data=2, model=2\), but got 'z'"),
        ({"mesh": "data=3"}, r'dimension 0 of %x has 8 elements, which the 3 shards along "data" of size 3'),
        ({"mesh": "data=0"}, "mesh: the size of axis 'data' must be a whole number from 1 to 65536, but got 0"),
        ({"mesh": "data=-2"}, "must be a whole number from 1 to 65536, but got -2"),
        ({"mesh": "data=two"}, "must be a whole number from 1 to 65536, but got 'two'"),
        ({"mesh": {"data": 2.0}}, "must be a whole number from 1 to 65536, but got 2.0"),
        ({"mesh": {"data": True}}, "must be a whole number from 1 to 65536, but got True"),
        ({"mesh": f"data={'9' * 5000}"}, "must be a whole number from 1 to 65536"),
        ({"mesh": "data=2,data=4"}, "mesh must name each axis once, but names 'data' twice"),
        ({"mesh": "data"}, "mesh must be sizes of axes, as in 'x=4,y=8'"),
        ({"mesh": ""}, "mesh must be sizes of axes"),
        ({"mesh": {}}, "mesh must be sizes of axes"),
        ({"mesh": {"data": 4096, "model": 4096}}, "mesh must have at most 65536 devices, but has 16777216"),
        ({"link": "fast"}, "link must be BANDWIDTH.,LATENCY., as in '450GB/s,2us', but got 'fast': bandwidth"),
        ({"link": "0GB/s"}, "link must be .* bandwidth must be more than 0"),
        ({"link": "1GB/s,2h"}, "link must be .* latency must be in one of"),
        ({"link": 450e9}, "link must be a text as in '450GB/s,2us', or an emu.Link"),
        ({"link": {"data": "1GB/s"}}, r"link must have a link for each axis of the mesh \(data, model\), but has none for 'model'"),
        ({"link": {"data": "1GB/s", "model": "1GB/s", "z": "1GB/s"}}, "but has one for 'z'"),
        ({"flops": 0}, "flops must be FLOP/s, more than 0"),
        ({"flops": "-1T"}, "flops must be FLOP/s, more than 0"),
        ({"flops": float("nan")}, "flops must be FLOP/s, more than 0"),
        ({"flops": "fast"}, "flops must be FLOP/s, more than 0, as in 67e12 or '67T', but got 'fast'"),
        ({"shardings": {"%q": "[{}]"}}, r"shardings must name arguments of @main \(%x, %w, %v\), but got '%q'"),
        ({"shardings": {"%x": "[{}]"}}, r"shardings\['%x'\] must be a sharding of tensor<8x16xf32>"),
        ({"shardings": {"%x": '[{"z"}, {}]'}}, 'unknown axis name: "z"'),
        ({"shardings": {"%x": "[{"}}, r"shardings\['%x'\] must be a sharding of tensor<8x16xf32>"),
        ({"shardings": {"%x": "[{}, {}]>}) { return } func.func @g("}}, r"shardings\['%x'\]"),
        ({"file": 3}, "file must be the name of a file"),
    ],
)  # fmt: skip
def test_the_message_names_argument_value_and_bound(arguments: Any, message: str) -> None:
    with pytest.raises(emu.sdy.ArgumentError, match=message) as caught:
        emu.sdy.cost(MLP, **arguments)
    assert len(str(caught.value)) < 500


def test_manual_axes_and_sub_axes_keep_their_sizes() -> None:
    with pytest.raises(
        emu.sdy.ArgumentError, match=r"mesh must keep the size of axis 'x'.* at -:4, but got 4"
    ):
        emu.sdy.cost(MANUAL, mesh="x=4")
    assert emu.sdy.cost(MANUAL, mesh="x=2,y=4").n_devices == 8
    with pytest.raises(
        emu.sdy.ArgumentError, match="mesh must fit the module's shardings, but data=2"
    ):
        emu.sdy.cost(SUB_AXES, mesh="data=2")


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(emu.sdy.ArgumentError, match="module must be a module"):
        emu.sdy.cost(3)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(emu.sdy.MlirError, match="2:1"):
        emu.sdy.cost("\nnonsense")
    with pytest.raises(emu.sdy.PassFailed, match="main"):
        emu.sdy.cost("func.func @f() { return }\nfunc.func @g() { return }")


def test_a_pass_that_fails_names_itself_and_the_place() -> None:
    text = """sdy.mesh @mesh = <["x"=2]>
    func.func @main(%a: tensor<?xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<?xf32> {
      %0 = stablehlo.abs %a : tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""
    with pytest.raises(emu.sdy.PassFailed, match="sdy-propagation-pipeline failed\n-:3:") as caught:
        emu.sdy.cost(text)
    assert "\0" not in str(caught.value)


MODULE = emu.sdy.parse(MLP)
COST = emu.sdy.cost(MODULE)
TARGETS = [
    Target(
        name="cost",
        function=emu.sdy.cost,
        arguments=lambda: {
            "module": MODULE,
            "mesh": {"data": 2, "model": 4},
            "shardings": {"%arg0": "[{}, {}]"},
            "link": {"data": "1GB/s,1us", "model": "2GB/s"},
            "flops": 1e12,
            "file": "-",
        },
        positional=("module",),
        also={"module": ("error:", "main", "mesh")},
    ),
    Target(
        name="what_if",
        function=emu.sdy.what_if,
        arguments=lambda: {
            "module": MODULE,
            "changes": ["data=4"],
            "link": "1GB/s",
            "flops": "1T",
            "file": "-",
        },
        positional=("module", "changes"),
        also={"module": ("error:", "main", "mesh")},
    ),
    Target(
        name="Cost.table",
        function=COST.table,
        arguments=lambda: {"limit": 1},
        positional=("limit",),
    ),
    Target(
        name="Cost.to_json",
        function=COST.to_json,
        arguments=lambda: {"indent": 1},
        positional=("indent",),
    ),
]

ERRORS = (emu.sdy.ArgumentError, emu.sdy.MlirError, emu.sdy.PassFailed)
CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "400"))


def test_wrong_arguments_are_named_and_change_nothing() -> None:
    fuzzer = Fuzzer(TARGETS, ERRORS, seed=20261122, state=lambda: str(MODULE))
    fuzzer.run(CALLS).check()

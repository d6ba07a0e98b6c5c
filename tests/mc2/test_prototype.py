"""Operator prototypes: what is read, what is tolerated, what is refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from emu import mc2
from emu.comm.errors import ArgumentError

SAMPLE = Path(__file__).parents[2] / "examples" / "mc2" / "all_gather_matmul_custom.json"
F16 = np.dtype(np.float16)
BF16 = np.dtype(ml_dtypes.bfloat16)


def sample():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc2.PrototypeWarning)
        return mc2.read_prototypes(SAMPLE)["AllGatherMatmulCustom"]


def test_the_sample_is_read_and_its_typos_are_named():
    with pytest.warns(mc2.PrototypeWarning) as caught:
        (prototype,) = mc2.read_prototypes(SAMPLE).values()
    assert [str(warning.message).split(": ", 1)[1] for warning in caught] == [
        "'input_dsec' of an operator was read as 'input_desc'",
        "'dtype' of attributes was read as 'type', 7 times",
    ]
    assert caught[0].filename == __file__
    assert prototype.name == "AllGatherMatmulCustom"
    assert prototype.flattened() == ("x1", "x2", "bias", "y", "gather_out")
    assert [prototype.index_of(name) for name in prototype.flattened()] == [0, 1, 2, 3, 4]
    assert [tensor.required for tensor in prototype.inputs] == [True, True, False]
    assert prototype.inputs[0].types == (F16, BF16)
    assert prototype.inputs[0].formats == ("ND",)
    assert {a.name: (a.type, a.required, a.default) for a in prototype.attributes} == {
        "group": ("string", True, ""),
        "is_trans_a": ("bool", False, False),
        "is_trans_b": ("bool", False, False),
        "gather_index": ("int", False, 0),
        "comm_turn": ("int", False, 0),
        "rank_size": ("int", False, 0),
        "is_gather_out": ("bool", False, True),
    }


def test_text_without_typos_gives_no_warning():
    text = SAMPLE.read_text().replace("input_dsec", "input_desc").replace('"dtype"', '"type"')
    assert mc2.read_prototypes(text) == {"AllGatherMatmulCustom": sample()}
    (single,) = json.loads(text)
    assert mc2.read_prototypes(json.dumps(single)) == {"AllGatherMatmulCustom": sample()}


def test_arguments_are_bound_in_order_with_defaults():
    prototype = sample()
    x1, x2, bias = np.ones((2, 3), F16), np.ones((3, 4), F16), np.ones(4, F16)
    bound = prototype.bind([x1, x2], {"group": "tp", "comm_turn": np.int64(2)})
    assert list(bound.inputs) == ["x1", "x2", "bias"]
    assert bound.inputs["x1"] is x1
    assert bound.inputs["bias"] is None
    assert bound.attributes == {
        "group": "tp",
        "is_trans_a": False,
        "is_trans_b": False,
        "gather_index": 0,
        "comm_turn": 2,
        "rank_size": 0,
        "is_gather_out": True,
    }
    assert (
        prototype.bind({"bias": bias, "x2": x2, "x1": x1}, {"group": "tp"}).inputs["bias"] is bias
    )


def test_arguments_that_do_not_fit_are_refused():
    prototype = sample()
    x1, x2 = np.ones((2, 3), F16), np.ones((3, 4), F16)
    group = {"group": "tp"}
    for pattern, args, attrs in (
        (r"input x2 of AllGatherMatmulCustom must be given, but got None", [x1], group),
        (r"must get at most 3 inputs, but got 4", [x1, x2, None, x1], group),
        (r"must be among x1, x2, bias, but got x3", {"x1": x1, "x3": x2}, group),
        (r"input x1 .* must be an array, but got list", [[1], x2], group),
        (r"input x1 .* dtypes float16, bfloat16, but got float32", [x1.astype("f4"), x2], group),
        (r"input x2 .* dtype float16 with the inputs before it, but got bf", [x1, x2.astype(BF16)],
         group),
        (r"attribute group of .* must be given, but got none", [x1, x2], {}),
        (r"must be among group, .*, but got turn", [x1, x2], {"turn": 1, **group}),
        (r"attribute comm_turn .* must be of type int, but got True", [x1, x2],
         {"comm_turn": True, **group}),
        (r"attribute is_trans_b .* must be of type bool, but got 1", [x1, x2],
         {"is_trans_b": 1, **group}),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=pattern):
            prototype.bind(args, attrs)
    with pytest.raises(
        ArgumentError, match="name must be one of x1, x2, bias, y, gather_out of All"
    ):
        prototype.index_of("z")


TENSOR = {"name": "x", "param_type": "required", "type": ["float16"]}
ATTRIBUTE = {"name": "a", "type": "int"}


@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        ("op of .*operator 0 must be a name, but got None", {"op": None}),
        ("keys of .*operator 0 must be among .*, but got 'inputs'", {"inputs": []}),
        ("input_desc of Op must be a list, but got dict", {"input_desc": {}}),
        ("must say 'input_desc' once, but got it twice", {"input_desc": [], "input_dsec": []}),
        ("input 0 of Op must be an object, but got str", {"input_desc": ["x"]}),
        ("name of output 0 of Op must be a name", {"output_desc": [{**TENSOR, "name": ""}]}),
        ("type of input 0 of Op .* float16, but got 'half2'", {"input_desc": [{**TENSOR, "type": ["half2"]}]}),
        ("type of input 0 of Op must be a list", {"input_desc": [{"name": "x"}]}),
        ("param_type of input 0 of Op must be one of required, optional, dynamic, but got 'maybe'",
         {"input_desc": [{**TENSOR, "param_type": "maybe"}]}),
        ("format of input 0 of Op", {"input_desc": [{**TENSOR, "format": [1]}]}),
        ("names of Op must be unique, but got 'x' twice", {"input_desc": [TENSOR], "output_desc": [TENSOR]}),
        ("type of attribute 0 of Op must be one of bool, .*, but got 'tensor'",
         {"attr": [{**ATTRIBUTE, "type": "tensor"}]}),
        ("default_value of attribute 0 of Op must be of type int, but got 'x'",
         {"attr": [{**ATTRIBUTE, "default_value": "x"}]}),
        ("keys of attribute 0 of Op .* but got 'defualt'", {"attr": [{**ATTRIBUTE, "defualt": 1}]}),
    ],
)  # fmt: skip
def test_what_is_no_prototype_is_refused(pattern, change):
    with pytest.raises(ArgumentError, match=pattern):
        mc2.read_prototypes(json.dumps([{"op": "Op", **change}]))


def test_what_is_no_json_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="source must be JSON, but got line 2, column 1"):
        mc2.read_prototypes("[\n}")
    with pytest.raises(ArgumentError, match=r"or a readable file, but got 'nowhere\.json'"):
        mc2.read_prototypes("nowhere.json")
    with pytest.raises(ArgumentError, match="op must be unique, but got Op twice"):
        mc2.read_prototypes('[{"op": "Op"}, {"op": "Op"}]')


def test_dynamic_inputs_are_lists():
    text = json.dumps({"op": "Op", "input_desc": [{**TENSOR, "param_type": "dynamic"}]})
    prototype = mc2.read_prototypes(text)["Op"]
    xs = [np.ones(2, F16), np.ones(3, F16)]
    assert prototype.bind([xs]).inputs["x"] is xs
    with pytest.raises(ArgumentError, match="dtypes float16, but got float64"):
        prototype.bind([[np.ones(2, F16), np.ones(3)]])

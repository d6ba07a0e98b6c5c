"""Costs of variants, side by side."""

from __future__ import annotations

import json
import math

import pytest
from sdy_cost_programs import MLP

import emu.sdy


def test_all_meshes_of_as_many_devices_in_the_order_of_their_times() -> None:
    text = MLP.replace('"model"=2', '"model"=6').replace("8x16", "24x16").replace("8x32", "24x48")
    text = text.replace("16x32", "16x48").replace("32x16", "48x16")
    found = emu.sdy.what_if(text, "mesh", flops="1T")
    assert {each.name for each in found} == {
        f"data={n},model={12 // n}" for n in (1, 2, 3, 4, 6, 12)
    }
    times = [each.cost.seconds for each in found]
    assert times == sorted(times)
    assert found[0].name == "data=12,model=1"
    assert all(each.cost == emu.sdy.cost(text, mesh=each.name, flops="1T") for each in found)


def test_variants_that_do_not_fit_come_last_and_say_why() -> None:
    text = MLP.replace('"model"=2', '"model"=6').replace("16x32", "16x48").replace("32x16", "48x16")
    text = text.replace("8x32", "8x48")
    found = emu.sdy.what_if(text, "mesh")
    assert [each.name for each in found if each.cost is None] == [
        "data=3,model=4", "data=6,model=2", "data=12,model=1",
    ]  # fmt: skip
    assert "dimension 0 of %x has 8 elements" in found[-1].problem
    assert found[-1].problem in str(found)


def test_all_even_shardings_of_an_argument() -> None:
    found = emu.sdy.what_if(MLP, "%w")
    assert len(found) == 3**2
    assert found[0].name == '%w [{}, {"model"}]'
    assert found[0].cost == emu.sdy.cost(MLP)
    odd = MLP.replace("tensor<8x16xf32> {sdy", "tensor<8x15xf32> {sdy").replace("8x15", "8x16")
    assert len(emu.sdy.what_if(odd, "%x")) == 9


def test_chosen_variants() -> None:
    found = emu.sdy.what_if(MLP, ["data=4", "model=4", '%w=[{"data"}, {}]', "%w = [{}, {}]"])
    assert {each.name for each in found} == {
        *("data=4", "model=4", '%w [{"data"}, {}]', "%w [{}, {}]")
    }
    assert math.isfinite(sum(each.cost.seconds for each in found))


def test_data_of_variants() -> None:
    found = emu.sdy.what_if(MLP, ["data=4", "data=3"])
    data = json.loads(found.to_json())
    assert [each["name"] for each in data] == ["data=4", "data=3"]
    assert data[0]["cost"]["n_devices"] == 8
    assert data[1]["cost"] is None
    assert "3 shards" in data[1]["problem"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("nonsense", "changes must be 'mesh', the name of an argument as '%x'"),
        ([], "but got none"),
        (3, "but got 3 of type int"),
        ("%nope", "changes must name an argument of @main, but got '%nope'"),
        ("%h", "changes must name an argument of @main, but got '%h'"),
        ("data=0", "changes: the size of axis 'data' must be a whole number from 1 to 65536"),
        (["data=2"] * 257, "changes must be at most 256 variants"),
    ],
)
def test_wrong_changes_are_refused(changes: object, message: str) -> None:
    with pytest.raises(emu.sdy.ArgumentError, match=message):
        emu.sdy.what_if(MLP, changes)  # type: ignore[arg-type]  # wrong on purpose


def test_a_module_without_a_mesh_has_no_variants() -> None:
    text = "func.func @main(%x: tensor<4xf32>) { return }"
    for changes in ("mesh", "%x"):
        with pytest.raises(emu.sdy.ArgumentError, match="changes need a module with a mesh"):
            emu.sdy.what_if(text, changes)


def test_too_many_shardings_are_refused_before_they_are_made() -> None:
    axes = ", ".join(f'"a{n}"=2' for n in range(20))
    text = f"sdy.mesh @mesh = <[{axes}]>\nfunc.func @main(%x: tensor<64x64xf32>) {{ return }}"
    with pytest.raises(emu.sdy.ArgumentError, match="3 to the power of 20"):
        emu.sdy.what_if(text, "%x")

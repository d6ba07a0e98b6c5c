"""``emu sdy cost``: what it prints, and how it ends."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from sdy_cost_programs import MLP

import emu.sdy
from emu.commands.main import main

TWO_MESHES = """
sdy.mesh @a = <["x"=2]>
sdy.mesh @b = <["x"=3]>
func.func @main(%x: tensor<6xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}]>},
                %y: tensor<6xf32> {sdy.sharding = #sdy.sharding<@b, [{"x"}]>}) -> tensor<6xf32> {
  %0 = stablehlo.add %x, %y : tensor<6xf32>
  return %0 : tensor<6xf32>
}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.mlir"
    path.write_text(MLP)
    return path


def test_the_table_and_the_json_are_those_of_the_function(program: Path, capsys) -> None:
    assert main(["sdy", "cost", "program.mlir", "--link", "100GB/s,1us", "--flops", "1T"]) == 0
    expected = emu.sdy.cost(MLP, link="100GB/s,1us", flops="1T", file="program.mlir")
    assert capsys.readouterr().out == str(expected)
    assert main(["sdy", "cost", "program.mlir", "--mesh", "data=4,model=4", "--json"]) == 0
    expected = emu.sdy.cost(MLP, mesh="data=4,model=4", file="program.mlir")
    assert json.loads(capsys.readouterr().out) == json.loads(expected.to_json())
    words = ["--link", "data=1GB/s", "--link", "model=2GB/s,1us", "--sharding", "%w=[{}, {}]"]
    assert main(["sdy", "cost", "program.mlir", "--most", "1", *words]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("4 devices (data=2, model=2), link data: 1 GB/s, 0 s; model: 2 GB/s")


def test_standard_input_is_read(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["-"], []):
        monkeypatch.setattr(sys, "stdin", io.StringIO(MLP))
        assert main(["sdy", "cost", *words]) == 0
        assert '"model" on dim 1 of %a in @main: stablehlo.tanh, -:8' in capsys.readouterr().out


def test_two_files_are_compared(program: Path, capsys) -> None:
    Path("other.mlir").write_text(MLP.replace('[{"model"}, {}]', "[{}, {}]"))
    for words in (["--compare", "program.mlir", "other.mlir"], ["program.mlir", "--compare", "other.mlir"]):  # fmt: skip
        assert main(["sdy", "cost", *words]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[1].startswith("program.mlir")
        assert lines[2].startswith("other.mlir")
        assert lines[5].split() == ["collectives", "program.mlir", "other.mlir"]
        assert any(line.startswith("all_reduce") for line in lines)
    assert main(["sdy", "cost", "--compare", "program.mlir", "other.mlir", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [
        "program.mlir", "other.mlir",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes", [["mesh"], ["%w"], ["data=4", "model=4"], ['%w=[{"data"}, {}]', "%w=[{}, {}]"]]
)
def test_variants_are_those_of_the_function(program: Path, capsys, changes: list[str]) -> None:
    words = [word for each in changes for word in ("--what-if", each)]
    assert main(["sdy", "cost", "program.mlir", *words]) == 0
    expected = emu.sdy.what_if(MLP, changes, file="program.mlir")
    assert capsys.readouterr().out == str(expected)
    assert main(["sdy", "cost", "program.mlir", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(expected.to_json())


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--mesh", "z=3"], 2, "emu sdy cost: mesh must name axes of the module"),
        (["--link", "fast"], 2, "emu sdy cost: link must be BANDWIDTH"),
        (["--link", "1GB/s", "--link", "2GB/s"], 2, "--link must be given once for all axes"),
        (["--link", "data=1GB/s", "--link", "data=2GB/s"], 2, "--link must be given once for all axes"),
        (["--flops", "0"], 2, "flops must be FLOP/s, more than 0"),
        (["--sharding", "%x"], 2, "--sharding must be ARGUMENT=SHARDING"),
        (["--what-if", "mesh", "--mesh", "data=4"], 2, "--what-if takes one FILE, and neither --mesh"),
        (["--what-if", "%nope"], 2, "changes must name an argument of @main"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told(program: Path, capsys, words, status, message) -> None:
    assert main(["sdy", "cost", "program.mlir", *words]) == status
    assert message in capsys.readouterr().err


def test_wrong_files_are_told(program: Path, capsys) -> None:
    assert main(["sdy", "cost", "nowhere.mlir"]) == 2
    assert "nowhere.mlir" in capsys.readouterr().err
    program.write_text("func.func @main(%x: tensor<4xf32>) { nonsense }")
    assert main(["sdy", "cost", "program.mlir"]) == 1
    assert "program.mlir:1:" in capsys.readouterr().err
    program.write_text("func.func @f() { return }\nfunc.func @g() { return }")
    assert main(["sdy", "cost", "program.mlir"]) == 1
    assert "main" in capsys.readouterr().err


def test_a_page_of_what_cannot_be_partitioned_says_so(program: Path, capsys) -> None:
    assert main(["sdy", "explain", "program.mlir", "--html", "page.html"]) == 0
    assert '"n_steps":' in Path("page.html").read_text()
    program.write_text(TWO_MESHES)
    assert main(["sdy", "explain", "program.mlir", "--html", "page.html"]) == 0
    assert '"cost":"The cost is not known, since the module cannot' in Path("page.html").read_text()
    capsys.readouterr()
    assert main(["sdy", "cost", "program.mlir"]) == 1
    assert "program.mlir:2:1: mesh @a has 2 devices, which do not" in capsys.readouterr().err


def test_costs_of_sharded_programs_use_the_same_files(program: Path, capsys) -> None:
    assert main(["sdy", "cost", "program.mlir", "--device", "h200"]) == 0
    printed = capsys.readouterr().out
    assert "link 369 GB/s, 1.5 us" in printed
    assert (
        "note: link and FLOP/s are those of NVIDIA H200 SXM 141GB, bf16 (uncalibrated)" in printed
    )
    assert "unknown" not in printed.splitlines()[2]
    assert (
        main(["sdy", "cost", "program.mlir", "--device", "h200:i8", "--link", "1GB/s", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["link"].startswith("1 GB/s")
    for device in ("x", "h200:f15"):
        assert main(["sdy", "cost", "program.mlir", "--device", device]) == 2
        assert "emu sdy cost: device" in capsys.readouterr().err

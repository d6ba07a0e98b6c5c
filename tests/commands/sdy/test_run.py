"""``emu sdy run``: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from emu.commands.main import main

PROGRAM = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<3xbf16>)
    -> (tensor<3xf32>, tensor<3xbf16>, tensor<4xi1>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = stablehlo.iota dim = 0 : tensor<4xi32>
  %2 = stablehlo.compare EQ, %1, %1 : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  return %0, %b, %2 : tensor<3xf32>, tensor<3xbf16>, tensor<4xi1>
}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    return path


def test_inputs_are_read_and_results_written(program: Path, capsys) -> None:
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save("a.npy", a)
    np.save("b.npy", np.array([1, 2, np.inf], np.float32))  # NumPy's files have no bf16
    words = ["sdy", "run", "program.mlir", "--inputs", "a.npy", "b.npy", "--check", "unsharded"]
    assert main([*words, "--output", "out.npz"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "@main on 2 PEs (x=2), inputs as given"
    assert printed[1].startswith("result 0: tensor<3xf32>")
    assert printed[1].endswith("from 18 to 26, mean 22")
    assert printed[2].endswith(", 1 of 3 not finite")
    assert printed[3].startswith("result 2: tensor<4xi1>")
    assert printed[4].startswith("equal to the unsharded program: ")
    with np.load("out.npz") as results:
        np.testing.assert_array_equal(results["arr_0"], a.sum(0))
        assert results["arr_1"].view(ml_dtypes.bfloat16).tolist() == [1, 2, np.inf]
        assert results["arr_2"].tolist() == [True] * 4
    np.savez("both.npz", a, np.array([1, 2, 3], ml_dtypes.bfloat16))
    assert main(["sdy", "run", "program.mlir", "--inputs", "both.npz"]) == 0


def test_random_inputs_are_those_of_the_seed(program: Path, capsys) -> None:
    texts = []
    for seed in ("0", "0", "1"):
        assert main(["sdy", "run", "program.mlir", "--seed", seed]) == 0
        texts.append(capsys.readouterr().out.replace(f"seed {seed}", "seed"))
    assert texts[0] == texts[1] != texts[2]


def test_the_reference_computes_the_same(program: Path, capsys) -> None:
    texts = []
    for words in ([], ["--reference"]):
        assert main(["sdy", "run", "program.mlir", "--check", "outputs", *words]) == 0
        texts.append(capsys.readouterr().out.splitlines()[:4])
    assert texts[0] == texts[1]


def test_the_mesh_may_have_other_sizes(program: Path, capsys) -> None:
    assert main(["sdy", "run", "program.mlir", "--mesh", "x=4", "--check", "unsharded"]) == 0
    assert capsys.readouterr().out.startswith("@main on 4 PEs (x=4)")
    assert main(["sdy", "run", "program.mlir", "--mesh", "x=four"]) == 2
    assert "mesh must name axes and their sizes" in capsys.readouterr().err


def test_a_difference_is_told_with_status_1(program: Path, capsys) -> None:
    text = PROGRAM.replace('["x"=2]', '["x"=4]')
    text = text.replace(
        "%1 = stablehlo.iota dim = 0 : tensor<4xi32>",
        "%9 = stablehlo.iota dim = 0 : tensor<4xi32>\n"
        '  %1 = sdy.sharding_constraint %9 <@mesh, [{"x":(2)2}]> : tensor<4xi32>',
    )
    text = text.replace("%2 = stablehlo.compare EQ, %1, %1", "%2 = stablehlo.compare NE, %1, %1")
    program.write_text(text)
    words = ["sdy", "run", "program.mlir", "--check", "unsharded", "--pipeline"]
    assert main([*words, "emu-partition-pipeline"]) == 0
    assert main([*words, "emu-partition-pipeline{fix-sub-axis-offsets=false}"]) == 1
    printed = capsys.readouterr()
    assert "program.mlir:8:8: stablehlo.iota differs from the unsharded program" in printed.err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["none.mlir"], 2, "none.mlir"),
        (["program.mlir", "--inputs", "none.npy"], 2, "none.npy"),
        (
            ["program.mlir", "--inputs", "program.mlir"],
            2,
            "program.mlir must be an .npy or .npz file",
        ),
        (["program.mlir", "--inputs", "one.npy"], 2, "the program takes 2 inputs, but got 1"),
        (
            ["program.mlir", "--inputs", "one.npy", "one.npy", "one.npy"],
            2,
            "takes 2 inputs, but got 3",
        ),
        (["program.mlir", "--inputs", "one.npy", "one.npy"], 2, "input 0 must be tensor<4x3xf32>"),
        (["program.mlir", "--pipeline", "sdy-nothing"], 2, "no pass is called 'sdy-nothing'"),
        (["program.mlir", "--timeout", "-1"], 2, "timeout must be"),
        (["call.mlir"], 1, "nothing computes the custom call @mine"),
        (["wrong.mlir"], 1, "wrong.mlir:1:1: error:"),
        (["program.mlir", "--output", "no/where.npz"], 2, "--output must be a file in a folder"),
        (["program.mlir", "--output", "."], 2, "--output must be a file in a folder that exists"),
    ],
)
def test_wrong_words(program: Path, capsys, words: list[str], status: int, said: str) -> None:
    np.save("one.npy", np.zeros(2, np.float32))
    Path("wrong.mlir").write_text("nonsense")
    Path("call.mlir").write_text(
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n"
        "%0 = stablehlo.custom_call @mine(%a) : (tensor<f32>) -> tensor<f32>\n"
        "return %0 : tensor<f32>\n}"
    )
    assert main(["sdy", "run", *words]) == status
    assert said in capsys.readouterr().err


def test_what_pes_fail_of_is_told_once_and_without_a_traceback(program: Path, capsys) -> None:
    program.write_text(
        'sdy.mesh @mesh = <["x"=2]>\n'
        'func.func @main(%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})\n'
        "    -> tensor<2xf32> {\n"
        "  %0 = stablehlo.custom_call @mine(%a) : (tensor<2xf32>) -> tensor<2xf32>\n"
        "  return %0 : tensor<2xf32>\n}"
    )
    assert main(["sdy", "run", "program.mlir"]) == 1
    printed = capsys.readouterr().err
    # On a busy machine one PE fails, and the other is stopped before it does.
    both = "emu sdy run: 2 of 2 PEs failed (PE 0, 1)\n2 PEs, the first is PE 0: "
    one = r"emu sdy run: 1 of 2 PEs failed \(PE [01]\)\nPE [01]: "
    found = re.match(f"(?:{re.escape(both)}|{one})", printed)
    assert found is not None, printed
    assert printed[found.end() :].startswith("program.mlir:4:8: stablehlo.custom_call: nothing")
    assert printed.count("@mine") == 1
    assert "Traceback" not in printed


@pytest.mark.parametrize("seed", ["-1", "1.5", "x"])
def test_a_seed_is_a_whole_number(program: Path, capsys, seed: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sdy", "run", "program.mlir", f"--seed={seed}"])
    assert ended.value.code == 2
    assert f"must be a whole number of at least 0, but got '{seed}'" in capsys.readouterr().err

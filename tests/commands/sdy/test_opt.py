"""``emu sdy opt``: its command line, its output, and what it announces."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from emu.commands.sdy.opt import run_opt, split

PROGRAM = """\
sdy.mesh @grid = <["row"=2, "col"=4]>

func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"row"}, {}]>}) -> tensor<8x16xf32> {
  %0 = stablehlo.exponential %x : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
"""


def opt(*arguments: str, text: str | None = None, tmp_path: Path) -> tuple[int, str, str]:
    """The status, the output and the errors of a run over a file."""
    words = list(arguments)
    if text is not None:
        file = tmp_path / "in.mlir"
        file.write_text(text)
        words.append(str(file))
    out, err = io.StringIO(), io.StringIO()
    return run_opt(words, stdout=out, stderr=err), out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        ["-sdy-basic-propagate"],
        ["--sdy-basic-propagate"],
        ["-sdy-basic-propagate=keep-sharding-rules=false"],
        ["-sdy-basic-propagate=keep-sharding-rules=false conservative-propagation=false"],
        ["--pass", "sdy-basic-propagate"],
        ["--pass=sdy-basic-propagate{keep-sharding-rules=false}"],
        ["--pass-pipeline=builtin.module(sdy-basic-propagate)"],
    ],
)
def test_a_pass_is_named_in_each_of_the_ways(words: list[str], tmp_path: Path) -> None:
    status, out, err = opt(*words, text=PROGRAM, tmp_path=tmp_path)
    assert (status, err) == (0, "")
    assert (
        '%0 = stablehlo.exponential %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"row", ?}, {?}]>]>}'
        in out
    )
    assert "sharding_rule" not in out


def test_options_reach_the_pass(tmp_path: Path) -> None:
    word = "-sdy-basic-propagate=keep-sharding-rules=true"
    status, out, _ = opt(word, text=PROGRAM, tmp_path=tmp_path)
    assert status == 0
    assert "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=16}>" in out


def test_passes_run_in_the_order_of_the_line(tmp_path: Path) -> None:
    propagate, close = "-sdy-basic-propagate", "-sdy-close-shardings"
    _, closed, _ = opt(propagate, close, text=PROGRAM, tmp_path=tmp_path)
    _, opened, _ = opt(close, propagate, text=PROGRAM, tmp_path=tmp_path)
    assert '[<@grid, [{"row"}, {}]>]' in closed
    assert '[<@grid, [{"row", ?}, {?}]>]' in opened


def test_without_passes_the_module_is_printed(tmp_path: Path) -> None:
    status, out, _ = opt(text=PROGRAM, tmp_path=tmp_path)
    assert status == 0
    assert opt(text=out, tmp_path=tmp_path)[1] == out
    generic = opt("-mlir-print-op-generic", text=PROGRAM, tmp_path=tmp_path)[1]
    assert '"stablehlo.exponential"(%arg0)' in generic
    assert opt(text=generic, tmp_path=tmp_path)[1] == out


def test_a_fresh_process_knows_the_dialects(tmp_path: Path) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(PROGRAM)
    command = [sys.executable, "-m", "emu", "sdy", "opt", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == opt(text=PROGRAM, tmp_path=tmp_path)[1]


def test_parts_are_modules_of_their_own_at_their_lines(tmp_path: Path) -> None:
    wrong = PROGRAM.replace('{"row"}, {}', '{"wor"}, {}')
    text = f"{PROGRAM}\n// -----\n{wrong}\n// -----\n{PROGRAM}"
    status, out, err = opt("-split-input-file", text=text, tmp_path=tmp_path)
    assert status == 1
    assert out.count("module {") == 2
    assert out.count("// -----") == 2
    line = text.count("\n", 0, text.index("wor")) + 1
    assert f"in.mlir:{line}:1: error: 'func.func' op arg 0 - unknown axis name: \"wor\"" in err


def test_split_keeps_what_only_looks_like_a_marker() -> None:
    assert split("a\n// ----- b\nc") == ["a\n// ----- b\nc"]
    first, second = split("a\n// -----\nb")
    assert first == "a\n"
    assert second.split("\n").index("b") == 2


def test_announced_errors_are_checked(tmp_path: Path) -> None:
    right = PROGRAM.replace('{"row"}, {}', '{"wor"}, {}').replace(
        "func.func", "// expected-error @+1 {{unknown axis name}}\nfunc.func"
    )
    flags = ("-split-input-file", "-verify-diagnostics")
    assert opt(*flags, text=right, tmp_path=tmp_path)[0] == 0
    status, _, err = opt(*flags, text=right.replace("unknown", "another"), tmp_path=tmp_path)
    assert status == 1
    assert "unexpected error: 'func.func' op arg 0 - unknown axis name" in err
    assert 'expected error "another axis name" was not produced' in err


def test_a_parse_error_shows_the_place(tmp_path: Path) -> None:
    status, out, err = opt(text="func.func @f(%a: tensor<4xf32> {\n", tmp_path=tmp_path)
    assert (status, out) == (1, "")
    assert "in.mlir:1:" in err
    assert "func.func @f(%a: tensor<4xf32> {\n" in err
    assert err.rstrip().endswith("^")


UNREGISTERED = '"strange.op"() : () -> ()\n'


def test_operations_of_unknown_dialects_pass_unless_they_are_refused(tmp_path: Path) -> None:
    for words in ([], ["-allow-unregistered-dialect"], ["-allow-unregistered-dialect=true"]):
        assert opt(*words, text=UNREGISTERED, tmp_path=tmp_path)[0] == 0
    refused = opt("-allow-unregistered-dialect=false", text=UNREGISTERED, tmp_path=tmp_path)
    assert refused[:2] == (1, "")
    assert "in.mlir:1:1: error: operation being parsed with an unregistered dialect" in refused[2]


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "out.mlir"
    status, out, _ = opt("-o", str(target), text=PROGRAM, tmp_path=tmp_path)
    assert (status, out) == (0, "")
    assert target.read_text().startswith("module {")


def test_statuses(tmp_path: Path) -> None:
    assert opt("-nothing", tmp_path=tmp_path)[0] == 2
    status, _, err = opt(str(tmp_path / "missing.mlir"), tmp_path=tmp_path)
    assert status == 2
    assert "missing.mlir" in err


def test_help_and_the_list_of_passes(tmp_path: Path) -> None:
    status, out, _ = opt("--help", tmp_path=tmp_path)
    assert status == 0
    assert "-split-input-file" in out
    status, out, _ = opt("--list-passes", tmp_path=tmp_path)
    assert status == 0
    assert "-sdy-basic-propagate\n" in out
    assert "    keep-sharding-rules=false\n" in out


def test_it_is_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "emu", "sdy", "opt", "-sdy-propagation-pipeline"],
        input=PROGRAM,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        '-> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"row"}, {}]>})' in done.stdout
    )

"""``emu sdy opt`` and ``explain``: wrong files, options and names end with status 1 or 2."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from emu.commands.main import main

GOOD = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  %0 = stablehlo.abs %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run ``emu sdy …`` beside a good file; gives status and standard error."""
    (tmp_path / "good.mlir").write_text(GOOD)
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "bytecode").write_bytes(b"ML\xefR\x01\x0fMLIR\0")
    (tmp_path / "nulls").write_bytes(b"\0" * 100)
    (tmp_path / "deep").write_text("func.func @f() { " + '"a.b"() ({ ' * 20_000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))

    def run(*words: str) -> tuple[int, str]:
        try:
            status = main(["sdy", *words])
        except SystemExit as end:  # argparse
            status = int(end.code or 0)
        return status, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["opt", "none.mlir"], 2, "none.mlir"),
        (["explain", "none.mlir"], 2, "none.mlir"),
        (["opt", "."], 2, "Is a directory"),
        (["explain", "."], 2, "Is a directory"),
        (
            ["opt", "binary"],
            1,
            "binary:2:118: error: text must be UTF-8, but has the byte 0x80 here",
        ),
        (
            ["opt", "bytecode"],
            1,
            "bytecode:1:1: error: text is expected, but this is MLIR bytecode",
        ),
        (
            ["explain", "binary"],
            1,
            "binary:2:118: error: text must be UTF-8, but has the byte 0x80 here",
        ),
        (["opt", "nulls"], 1, "nulls:1:1: error:"),
        (["explain", "nulls"], 1, "nulls:1:1: error:"),
        (["opt", "deep"], 1, "regions, types or attributes are nested too deeply"),
        (["explain", "deep"], 1, "regions, types or attributes are nested too deeply"),
        (["opt", "\0"], 2, "must be the name of a file"),
        (["explain", "\0"], 2, "must be the name of a file"),
        (["opt", "good.mlir", "-o", "none/x.mlir"], 2, "none/x.mlir"),
        (["opt", "good.mlir", "-o", "."], 2, "Is a directory"),
        (["opt", "good.mlir", "-o", "\0"], 2, "must be the name of a file"),
        (["opt", "good.mlir", "-o"], 2, "'-o' needs a value"),
        (["explain", "good.mlir", "--html", "none/x.html"], 2, "none/x.html"),
        (["explain", "good.mlir", "--html", "."], 2, "Is a directory"),
        (["opt", "good.mlir", "-nope"], 2, "no option or pass is called '-nope'"),
        (["opt", "good.mlir", "--pass", "nope"], 2, "no pass is called 'nope'"),
        (["opt", "good.mlir", "-sdy-basic-propagate=x=y"], 2, "has no option 'x'"),
        (["opt", "good.mlir", "-canonicalize=max-iterations=x"], 2, "must be a whole number"),
        (["opt", "good.mlir", "-verify-each=x"], 2, "must be true or false"),
        (["opt", "good.mlir", "good.mlir"], 2, "one file is read"),
        (["opt", "good.mlir", "--pass-pipeline=any("], 2, "a ')' is missing"),
        (["opt", "good.mlir", "--pass-pipeline=" + "any(" * 9_000], 2, "nested too deeply"),
        (["explain", "good.mlir", "--pipeline", "nope"], 2, "no pass is called 'nope'"),
        (["explain", "good.mlir", "--function", "f"], 2, "--function 'f' must come with --value"),
        (["explain", "good.mlir", "--value", "%z"], 2, "no value is called '%z'"),
        (
            ["explain", "good.mlir", "--value", "%a", "--function", "z"],
            2,
            "no value is called '%a' in @z",
        ),
        (
            ["opt", "good.mlir", "-sdy-propagation-pipeline=dump-directory=good.mlir"],
            0,  # as in Shardy: the passes go on
            "good.mlir",
        ),
        (["nope"], 2, "invalid choice"),
        (["opt", "-"], 0, ""),
    ],
)
def test_status_and_message(words: list[str], status: int, said: str, command: Command) -> None:
    ended, error = command(*words)
    assert said in error
    assert "Traceback" not in error
    assert ended == status

"""Wrong command lines of what reads traces end in one line that says what is wrong, never in a traceback."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from traces import training_loop, write

from emu.commands.main import main
from emu.trace.prediction.devices.files import load_device, to_toml

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "60"))

Maker = Callable[[random.Random], list[str]]

NUMBERS = (
    *("-1", "0", "1", "3", "1e400", "-inf", "nan", "NaN", "1e-400", "0x10", "1_000", "٣", "", " "),
    *("9" * 30, "1.5", "-0", "2x", "-2x", "xx", "1e3", "+5", "=", "é", "\udcff", "1\n2", "--"),
)
FILES = (
    *("run.emutrace", "none.emutrace", "folder", "cut.emutrace", "head.emutrace", "empty", "text"),
    *("noise.emutrace", "run.json", "", ".", "/", "/dev/null", "folder/none/x", "closed.emutrace"),
    *("run.emutrace/x", "a\0b", "x" * 300),
)
OUTPUTS = (
    *("out.json", "out.emutrace", "out.html", "out.gif", "out", "", ".", "folder", "folder/o.json"),
    *("none/out.json", "run.emutrace", "/proc/out.json", "a\0b.json", "x" * 300 + ".json"),
    *("out.JSON", ".json", "readonly/out.json", "run.emutrace/out.json"),
)
KEYS = ("hbm", "sms", "link", "l2_size", "dot.f16", "launch.latency", "none", "", "efficiency.dot")
UNITS = ("", "B/s", "GB/s", "MiB", "us", "s", "x", "%", "parsec", "FLOP/s", "TFLOP/s")
DEVICES = ("h100", "a2", "b300", "", "H100", "dev.toml", "cut.toml", "wrong.toml", "folder", "a\0")


def _number(rng: random.Random) -> str:
    return rng.choice(NUMBERS) + rng.choice(("", "", *UNITS))


def _setting(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(("hbm", "=", "hbm=", "=2x", "hbm==2x", "hbm 2x"))
    return f"{rng.choice(KEYS)}={_number(rng)}"


def _maybe(rng: random.Random, *options: tuple[str, Callable[[], str]]) -> list[str]:
    """Return some options with values, as ``--a=value``."""
    return [f"{name}={value()}" for name, value in options if rng.random() < 0.4]


def _flags(rng: random.Random, *names: str) -> list[str]:
    return [name for name in names if rng.random() < 0.25]


def _trace_file(rng: random.Random) -> str:
    return "run.emutrace" if rng.random() < 0.5 else rng.choice(FILES)


def stats(rng: random.Random) -> list[str]:
    options = _maybe(
        rng,
        ("--by", lambda: rng.choice(("kind", "line", "pe", "kernel", "x", ""))),
        ("--top", lambda: rng.choice(NUMBERS)),
        ("--plot", lambda: rng.choice((*OUTPUTS, "p.svg", "folder/p.svg", "none/p.svg"))),
    )
    return ["trace", "stats", _trace_file(rng), *options, *_flags(rng, "--json")]


def html(rng: random.Random) -> list[str]:
    return ["trace", "html", _trace_file(rng), *_maybe(rng, ("-o", lambda: rng.choice(OUTPUTS)))]


def convert(rng: random.Random) -> list[str]:
    pe = _maybe(rng, ("--pe", lambda: rng.choice(NUMBERS)))
    return ["trace", "convert", *pe, _trace_file(rng), rng.choice(OUTPUTS)]


def predict(rng: random.Random) -> list[str]:
    options = _maybe(
        rng,
        ("--device", lambda: rng.choice(DEVICES)),
        ("--set", lambda: _setting(rng)),
        ("--set", lambda: _setting(rng)),
        (
            "--link",
            lambda: f"{_number(rng)},{_number(rng)}" if rng.random() < 0.6 else _number(rng),
        ),
        ("--host", lambda: rng.choice(NUMBERS)),
        ("--uncounted", lambda: rng.choice(NUMBERS)),
        ("--most", lambda: rng.choice(NUMBERS)),
        ("--output", lambda: rng.choice(OUTPUTS)),
    )
    rare = _maybe(
        rng,
        ("--programs", lambda: f"{rng.choice(('matmul', 'x', ''))}={rng.choice(NUMBERS)}"),
        ("--rank", lambda: rng.choice(("matmul", "x", ""))),
    )
    chosen = rng.sample(options, min(len(options), 2)) + (rare if rng.random() < 0.2 else [])
    return ["predict", _trace_file(rng), *chosen, *_flags(rng, "--json", "--beside", "--numbers")]


def turns(rng: random.Random) -> list[str]:
    sizes = ",".join(rng.choice(("512", "4096", *NUMBERS)) for _ in range(rng.choice((2, 3, 3, 3))))
    options = _maybe(
        rng,
        ("--pes", lambda: rng.choice(NUMBERS)),
        ("--dtype", lambda: rng.choice(("f16", "i8", "f64", "x", ""))),
        ("--set", lambda: _setting(rng)),
    )
    operator = rng.choice(("matmul_all_reduce", "all_gather_matmul", "x", ""))
    return ["predict", f"--mc2={operator}", f"--shape={sizes}", *options, *_flags(rng, "--json")]


TIMINGS = ("none.json", "folder", "list.json", "odd.json", "deep.json", "text", "empty", "a\0")


def calibrate(rng: random.Random) -> list[str]:
    options = _maybe(rng, ("-o", lambda: rng.choice(OUTPUTS)))
    device, timings = rng.choice(DEVICES), rng.choice(TIMINGS)
    return ["calibrate", f"--device={device}", f"--timings={timings}", *options]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of files that are right, cut off, damaged or no files at all."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write(tmp_path / "run.emutrace", training_loop(2, 2))
    data = (tmp_path / "run.emutrace").read_bytes()
    (tmp_path / "cut.emutrace").write_bytes(data[:-9])
    (tmp_path / "head.emutrace").write_bytes(data[:20])
    noise = bytearray(data)
    for place in random.Random(3).sample(range(len(noise)), 40):
        noise[place] ^= 0x55
    (tmp_path / "noise.emutrace").write_bytes(noise)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("no trace\n")
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "odd.json").write_text(
        '{"device": "x", "seconds": {"empty": -1, "none": null, "copy": "1", "dot": NaN}}'
    )
    text = to_toml(load_device("h100"))
    (tmp_path / "dev.toml").write_text(text)
    (tmp_path / "cut.toml").write_text(text[: len(text) // 2])
    (tmp_path / "wrong.toml").write_text(text.replace("value = 3350000000000.0", "value = nan"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "readonly").mkdir()
    shutil.copy("run.emutrace", "closed.emutrace")
    for name, mode in (("closed.emutrace", 0), ("readonly", 0o500)):
        (tmp_path / name).chmod(mode)
    yield tmp_path
    (tmp_path / "readonly").chmod(0o700)


def problem(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str | None:
    """Run a command line; return what it should not have done."""
    usage = False
    try:
        code = main(argv)
    except SystemExit as error:  # argparse
        code, usage = int(error.code or 0), True
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the command line
        return f"{type(error).__name__}: {error}"
    said = capsys.readouterr().err
    if "Traceback" in said:
        return said
    if code == 0:
        return None if not said else f"succeeds and says {said!r}"
    lines = said.rstrip("\n").split("\n")
    if not usage and len(lines) != 1:
        return f"says {len(lines)} lines: {said!r}"
    if not lines[-1].startswith("emu") or ": " not in lines[-1]:
        return f"says {lines[-1]!r}"
    return None


@pytest.mark.parametrize("make", [stats, html, convert, predict, turns, calibrate])
def test_wrong_command_lines_end_in_a_line(
    make: Maker, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "run.emutrace").read_bytes()
    found: list[str] = []
    for seed in range(CALLS):
        argv = make(random.Random(f"{make.__name__} {seed}"))
        what = problem(argv, capsys)
        if what is not None:
            found.append(f"{seed}: emu {argv}\n    {what}")
        if (folder / "run.emutrace").read_bytes() != before:
            found.append(f"{seed}: emu {argv}\n    has overwritten its input")
            (folder / "run.emutrace").write_bytes(before)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("tool", [["trace", "html"], ["predict"]])
def test_what_is_read_is_not_overwritten(
    tool: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "run.emutrace").read_bytes()
    assert main([*tool, "run.emutrace", "-o", "./run.emutrace"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (folder / "run.emutrace").read_bytes() == before

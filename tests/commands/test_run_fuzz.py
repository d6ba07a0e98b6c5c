"""Wrong command lines of ``emu run`` end in one line that says what is wrong, before anything starts."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emu.comm.process import hosts
from emu.comm.process.launch import Launch
from emu.comm.schedule_options import Schedule
from emu.commands import run_hosts
from emu.commands.main import main
from emu.schedule import Replay
from emu.trace.prediction.devices.files import load_device, to_toml

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "150"))

NUMBERS = (
    *("-1", "0", "1", "2", "3", "1024", "1025", "1e400", "-inf", "inf", "nan", "1e-400", "0x10", "1_000"),
    *("٣", "²", "", " ", "9" * 30, "9" * 5000, "1.5", "-0", "x", "1e3", "+5", "=", "é", "\udcff", "1\n2"),
    *("--", "-", "60", "a\0b"),
)  # fmt: skip
FILES = (
    *("script.py", "none.py", "folder", "empty.py", "", ".", "/", "/dev/null", "noise.py", "script.py/x"),
    *("a\0b", "x" * 300, "closed.py", "-x", "order.json", "locked/script.py", "\udcff.py"),
)  # fmt: skip
OUTPUTS = (
    *("out.json", "out.emutrace", "out.pftrace", "out.html", "out.gif", "out", "", ".", "folder"),
    *("folder/o.json", "folder.json", "none/out.json", "/proc/out.json", "a\0b.json", "x" * 300 + ".json"),
    *("out.JSON", ".json", "readonly/out.json", "order.json", "./order.json", "program.json", "closed.json"),
    *("script.py/o.json", "dev.toml", "./out.json", "link.json", "script.py", "\udcff.json", "--", "/dev/full.json"),
)  # fmt: skip
LINKS = (
    "25GB/s,2us",
    "25GB/s",
    "inf,2us",
    ",",
    "25,2",
    "0GB/s",
    "-1GB/s,1us",
    "nanB/s",
    "1e400GB/s",
    "1GB/s,1us,1us",
)
CHECKS = (
    "race",
    "leak",
    "bounds",
    "all",
    "none",
    "race,race",
    "bounds:all",
    "race:some",
    "uninit",
    ",",
    "streams",
)
FAULTS = (
    *("kill:pe=1,at=op:3", "kill:pe=9,at=op:3", "slow:pe=0,x10", "slow:pe=0", "late:from=0,to=1,ms=5"),
    *("drop-signal:from=0,to=1,nth=1", "alloc-fail:pe=0,nth=1", "kill", "kill:", "corrupt:from=0,to=0,nth=0"),
    *("slow:pe=0,x1e400", "kill:pe=٣,at=op:3", "enospc:pe=0,nth=" + "9" * 30),
)  # fmt: skip
DEVICES = (
    "h100",
    "a2",
    "b300",
    "",
    "H100",
    "dev.toml",
    "cut.toml",
    "wrong.toml",
    "folder",
    "a\0",
    "none.toml",
    "--",
)


class Started(Exception):
    """Raised where PEs would be started."""


def _values(rng: random.Random) -> dict[str, Callable[[], str]]:
    """Return what options take."""

    def one(*pools: tuple[str, ...]) -> Callable[[], str]:
        return lambda: rng.choice(rng.choice(pools))

    return {
        "-n": one(("1", "2"), NUMBERS),
        "--pes-per-node": one(NUMBERS),
        "--hosts": one(("a,b", "a", "", ","), NUMBERS),
        "--timeout": one(NUMBERS),
        "--link": one(LINKS, NUMBERS),
        "--devices": one(NUMBERS),
        "--ranks-per-node": one(NUMBERS),
        "--device-model": one(("h100", "b300", "", "H100", "mi300x"), NUMBERS),
        "--stdin": one(("all", "none", "0", "5"), NUMBERS),
        "--program": one(("0", "0,0", "0,0,0,0", ","), NUMBERS),
        "--check": one(CHECKS, NUMBERS),
        "--memory-model": one(("weak", "strong", "", "x")),
        "--report": one(OUTPUTS),
        "--predict": one(DEVICES),
        "--autotune": one(("full", "first", "", "x")),
        "--fault": one(FAULTS, NUMBERS),
        "--trace": one(OUTPUTS),
        "--explore": one(("1", "all", "5"), NUMBERS),
        "--seed": one(NUMBERS),
        "--strategy": one(("mix", "pct", "", "x")),
        "--replay": one(("order.json", "none.json", "text.json", "deep.json", "odd.json"), OUTPUTS),
    }


FLAGS = ("--count", "--progress", "--interpret", "--poison", "--no-prefix")


def command_line(seed: int) -> list[str]:
    """Return the words of a random command line."""
    rng = random.Random(f"run {seed}")
    values = _values(rng)
    words = ["-n=2"] if rng.random() < 0.3 else []
    for name in rng.sample(sorted(values), rng.choice((1, 1, 2, 2, 3, 4))):
        for _ in range(rng.choice((1, 1, 1, 2))):
            joined = name != "-n" and rng.random() < 0.8
            words += [f"{name}={values[name]()}"] if joined else [name, values[name]()]
    words += [name for name in FLAGS if rng.random() < 0.15]
    if rng.random() < 0.85:
        return ["run", *words, "script.py"]
    if rng.random() < 0.3:
        return [
            "run",
            *words,
            "-m",
            rng.choice(("program", "none", "a.b", "", "../x", "é", "a\0b")),
        ]
    return ["run", *words, rng.choice(FILES)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with programs, orders and devices that are right, damaged or none; nothing is ever started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def start(*_: object, **__: object) -> None:
        raise Started

    monkeypatch.setattr(Launch, "start", start)
    monkeypatch.setattr(hosts, "launch_over_hosts", start)
    monkeypatch.setattr(run_hosts, "find_mpiexec", lambda: "mpiexec")
    monkeypatch.setattr(run_hosts, "_on_each", lambda *_: [])
    monkeypatch.setattr(os, "execv", start)
    for name in ("script.py", "program.py", "closed.py"):
        (tmp_path / name).write_text("import emu\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "noise.py").write_bytes(bytes(range(256)))
    (tmp_path / "closed.json").write_text("{}")
    (tmp_path / "program.json").write_text('{"kept": 1}')
    Replay(2, Schedule(seed=1), (), "none", ("-n", "2", "script.py")).save(tmp_path / "order.json")
    (tmp_path / "text.json").write_text("no order\n")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "odd.json").write_text('{"n_pes": "x", "steps": 3}')
    text = to_toml(load_device("h100"))
    (tmp_path / "dev.toml").write_text(text)
    (tmp_path / "cut.toml").write_text(text[: len(text) // 2])
    (tmp_path / "wrong.toml").write_text(text.replace("value = 3350000000000.0", "value = nan"))
    (tmp_path / "link.json").symlink_to("script.py")
    for name in ("folder", "folder.json", "readonly", "locked"):
        (tmp_path / name).mkdir()
    modes = {"closed.py": 0, "closed.json": 0, "readonly": 0o500, "locked": 0}
    for name, mode in modes.items():
        (tmp_path / name).chmod(mode)
    yield tmp_path
    for name in modes:
        (tmp_path / name).chmod(0o700)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder that this process may read."""
    return {
        p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and os.access(p, os.R_OK)
    }


def problem(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str | None:
    """Run a command line; return what it should not have done."""
    usage = False
    try:
        code = main(argv)
    except Started:
        return None
    except SystemExit as error:  # argparse
        code, usage = int(error.code or 0), True
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the command line
        return f"{type(error).__name__}: {error}"
    said = capsys.readouterr().err
    if "Traceback" in said or code == 0:
        return f"ends with {code}: {said!r}"
    if code != 2 and not (code == 1 and "No module named" in said):
        return f"ends with {code}: {said!r}"
    lines = said.rstrip("\n").split("\n")
    notes = [line for line in lines if "uses no World, so it runs on one PE" in line]
    if not usage and len(lines) - len(notes) != 1:
        return f"says {len(lines)} lines: {said!r}"
    if not lines[-1].startswith("emu") or ": " not in lines[-1] or len(lines[-1]) > 1000:
        return f"says {lines[-1]!r}"
    return None


def check(argv: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str | None:
    """Run a command line; return what is wrong with it, or with the folder behind it."""
    before = contents(folder)
    what = problem(argv, capsys)
    after = contents(folder)
    changed = {n for n in {**before, **after} if before.get(n) != after.get(n)}
    for name in changed:
        if name in before:
            (folder / name).write_bytes(before[name])
        else:
            (folder / name).unlink()
    lost = changed & {"script.py", "program.py", "noise.py", "order.json", "dev.toml"}
    if what is None and lost == {"order.json"} and not any("--replay" in w for w in argv):
        lost = set()  # it is no input then
    if what is None and lost:
        what = f"has overwritten {sorted(lost)}"
    return None if what is None else f"emu {argv}\n    {what}"


def test_wrong_command_lines_end_in_a_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [check(command_line(seed), folder, capsys) for seed in range(CALLS)]
    wrong = [what for what in found if what is not None]
    assert not wrong, f"{len(wrong)} are wrong:\n" + "\n".join(wrong[:40])


REFUSED = {
    "a trace into the script": (["--trace=link.json"], "--trace must be another file than the script"),
    "a report into the script": (["--report=script.py"], "--report must be another file than the script"),
    "a trace into a folder": (["--trace=folder.json"], "got 'folder.json': it is a folder"),
    "a trace into no folder": (["--trace=none/out.json"], "there is no folder"),
    "a report into a folder": (["--report=folder"], "got 'folder': it is a folder"),
    "a name too long": ([f"--trace={'x' * 300}.json"], "--trace must be a file that can be written"),
    "a name that no file has": (["--trace=a\0b.json"], "--trace must be a file that can be written"),
    "a trace twice": (
        ["--trace=out.json", "--trace=./out.json"], "--trace must be another file than that of --trace",
    ),
    "a trace and a report": (
        ["--trace=out.json", "--report=out.json"], "--report must be another file than that of --trace",
    ),
    "a trace into an order": (["--replay=order.json", "--trace=order.json"], "than that of --replay"),
    "a report into a device": (["--predict=dev.toml", "--report=dev.toml"], "than that of --predict"),
    "an order too deep": (["--replay=deep.json"], "replay must be a file that a failing order"),
    "counts of many orders": (["--explore=3", "--count"], "count must not be given with --explore"),
    "a prediction of many orders": (["--explore=3", "--predict=h100"], "predict must not be given with"),
    "a prediction under checks": (["--predict=h100", "--check=bounds"], "and so must predict"),
    "no value": (["--device-model=--"], "argument --device-model: "),
    "no value of many": (["--fault=--"], "argument --fault: "),
    "no number": (["--devices=--"], "argument --devices: "),
    "many digits": ([f"--devices={'9' * 5000}"], "argument --devices: must be a whole number of at least 1"),
    "many PEs": (["-n", "1025"], "argument -n: must be a whole number in [1, 1024], but got '1025'"),
    "two lines": (["--hosts=a\nb"], r"--hosts must be given with --pes-per-node, but got --hosts 'a\nb'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_option_is_named(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, wanted = REFUSED[name]
    before = contents(folder)
    try:
        code: object = main(["run", *options, "script.py"])
    except SystemExit as error:
        code = error.code
    said = capsys.readouterr().err
    assert code == 2
    assert wanted in said.splitlines()[-1]
    assert contents(folder) == before


@pytest.mark.parametrize("script", ["x" * 300, "a\0b", "folder", "none.py"])
def test_a_script_that_is_no_file(
    script: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "-n", "2", script]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("emu: script must be a file")


def test_an_order_whose_command_names_no_script(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Replay(2, Schedule(seed=1), (), "none", ("-n", "2")).save(folder / "order.json")
    assert main(["run", "--replay", "order.json"]) == 2
    assert "whose command names a script" in capsys.readouterr().err


def test_outputs_that_can_be_written_start(folder: Path) -> None:
    for options in (["--trace=out.json", "--trace=out.pftrace"], ["--report=/dev/null"]):
        with pytest.raises(Started):
            main(["run", *options, "-n", "2", "script.py"])
    with pytest.raises(Started):  # what follows the script is its own
        main(["run", "-n", "2", "script.py", "--device-model=--", "--", "--trace=script.py"])

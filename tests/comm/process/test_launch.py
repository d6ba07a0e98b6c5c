"""Starting PEs, their results, output and errors."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from variants import thorough

import emu
from emu.comm.errors import ArgumentError, CommError, PEExitError
from emu.comm.process.launch_options import LaunchFields


def number_and_sum(start: int, *, step: int = 1) -> tuple[int, int, int]:
    world = emu.world()
    return world.my_pe, world.n_pes, start + step * world.my_pe


def big_result() -> np.ndarray:
    return np.full(3_000_000, emu.world().my_pe, np.int32)


def raise_on_two() -> None:
    world = emu.world()
    if world.my_pe in (1, 3):
        raise ValueError(f"boom {world.my_pe}")
    world.barrier()
    world.barrier()


def one_raises_others_compute() -> None:
    if emu.world().my_pe == 0:
        raise KeyError("first")
    while True:
        sum(range(1000))


class SpinsWhenDropped:
    def __del__(self) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            pass


def one_raises_another_runs_a_finaliser() -> None:
    if emu.world().my_pe == 0:
        time.sleep(0.3)
        raise KeyError("first")
    SpinsWhenDropped()
    while True:
        sum(range(1000))


def heap_bytes() -> int:
    return emu.world().segment.layout.heap_bytes


def leave(code: object) -> None:
    sys.exit(code)


class Strange(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a}{b}")


def raise_strange() -> None:
    raise Strange(4, 2)


def return_lambda() -> object:
    return lambda: 0


def say() -> None:
    pe = emu.world().my_pe
    print(f"one {pe}\ntwo {pe}")
    print("no newline", end="")
    print("error stream", file=sys.stderr)


def environment(name: str) -> tuple[str | None, str, str]:
    return os.environ.get(name), os.environ["OMP_NUM_THREADS"], os.getcwd()


def callbacks() -> list[int]:
    calls: list[int] = []
    emu.world().on_finish(lambda: calls.append(1))
    emu.world().on_finish(lambda: calls.append(2))
    return calls


@pytest.mark.parametrize("n_pes", [1, 2, 5])
def test_results_come_in_pe_order(n_pes: int) -> None:
    results = emu.launch(number_and_sum, n_pes, args=(10,), kwargs={"step": 3})
    assert results == [(pe, n_pes, 10 + 3 * pe) for pe in range(n_pes)]


def test_large_results_arrive_whole() -> None:
    for pe, array in enumerate(emu.launch(big_result, 3)):
        assert array.shape == (3_000_000,)
        assert (array == pe).all()


def test_an_exception_has_its_pe_and_its_traceback() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(raise_on_two, 4)
    errors = caught.value.exceptions
    assert {type(e) for e in errors} == {ValueError}
    # Both may have raised before the first was heard of; none that was merely stopped is listed.
    assert {e.pe for e in errors} <= {1, 3}  # type: ignore[attr-defined] # set on the exceptions of PEs
    for error in errors:
        assert str(error) == f"boom {error.pe}"  # type: ignore[attr-defined] # set on the exceptions of PEs
        note = "\n".join(error.__notes__)
        assert "raise_on_two" in note
        assert f"on PE {error.pe}" in note  # type: ignore[attr-defined] # set on the exceptions of PEs


def test_computing_pes_are_stopped_within_a_second() -> None:
    emu.launch(number_and_sum, 4, args=(0,))  # the fork server runs from here on
    begin = time.monotonic()
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(one_raises_others_compute, 4)
    assert [type(e) for e in caught.value.exceptions] == [KeyError]
    # No speed claim: a hang or a missed stop would take until the test's own time-out.
    assert time.monotonic() - begin < 20


def test_sys_exit() -> None:
    assert emu.launch(leave, 2, args=(0,)) == [None, None]
    assert emu.launch(leave, 2, args=(None,)) == [None, None]
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(leave, 2, args=(7,))
    assert all(isinstance(e, PEExitError) and e.code == 7 for e in caught.value.exceptions)


def test_an_exception_that_cannot_be_rebuilt_is_still_told() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(raise_strange, 1)
    assert "Strange: 42" in str(caught.value.exceptions[0])


def test_a_result_that_cannot_be_sent() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(return_lambda, 1)
    assert "result of PE 0 must be picklable" in str(caught.value.exceptions[0])


def test_lambdas_and_closures_need_cloudpickle() -> None:
    pytest.importorskip("cloudpickle")
    offset = 3
    assert emu.launch(lambda x: emu.world().my_pe + x + offset, 2, args=(4,)) == [7, 8]


@pytest.mark.parametrize("fn", [lambda: 1, type("Local", (), {})], ids=["lambda", "class"])
def test_without_cloudpickle_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, fn: Any
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)  # as if it were not installed
    with pytest.raises(ArgumentError, match=r"install 'tile-emu\[interactive\]'") as caught:
        emu.launch(fn, 1)
    assert getattr(fn, "__qualname__") in str(caught.value)  # noqa: B009 - a name that type checkers do not know


def test_output_is_prefixed_line_by_line(capfd: pytest.CaptureFixture[str]) -> None:
    emu.launch(say, 2)
    out, err = capfd.readouterr()
    for pe in range(2):
        assert [line for line in out.splitlines() if line.startswith(f"[{pe}]")] == [
            f"[{pe}] one {pe}",
            f"[{pe}] two {pe}",
            f"[{pe}] no newline",
        ]
        assert f"[{pe}] error stream" in err.splitlines()


def test_the_prefix_can_be_turned_off(capfd: pytest.CaptureFixture[str]) -> None:
    emu.launch(say, 1, prefix_output=False)
    out, err = capfd.readouterr()
    assert out == "one 0\ntwo 0\nno newline"
    assert err == "error stream\n"


def test_pes_see_the_launchers_environment_and_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EMU_TEST_VARIABLE", "there")
    monkeypatch.chdir(tmp_path)
    assert (
        emu.launch(environment, 2, args=("EMU_TEST_VARIABLE",))
        == [("there", "1", str(tmp_path))] * 2
    )


def test_on_finish_runs_last_added_first() -> None:
    assert emu.launch(callbacks, 1) == [[2, 1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_pes": 0}, r"n_pes must be an integer in \[1, 1024\], but got 0"),
        ({"n_pes": 1025}, "n_pes must be"),
        ({"n_pes": 2.0}, "n_pes must be"),
        ({"n_pes": True}, "n_pes must be"),
        ({"options": 3}, "options must be an emu.LaunchOptions or None, but got 3"),
        ({"timeout": 0}, "timeout must be positive"),
        ({"timeout": float("nan")}, "timeout must be positive"),
        ({"heap_size": 0}, "heap_size must be in"),
        ({"fn": 3}, "fn must be callable"),
    ],
)
def test_bad_arguments(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"fn": number_and_sum, "n_pes": 1, **change}
    fn, n_pes = arguments.pop("fn"), arguments.pop("n_pes")
    with pytest.raises(ArgumentError, match=message):
        emu.launch(fn, n_pes, **arguments)  # type: ignore[arg-type] # the mistake under test


def test_options_and_their_fields() -> None:
    options = emu.LaunchOptions(heap_size=1 << 20, timeout=30)
    assert options.timeout == 30.0
    assert emu.LaunchOptions() == emu.LaunchOptions(timeout=None)  # type: ignore[arg-type] # as launch takes it
    assert emu.launch(heap_bytes, 1, options=options) == [1 << 20]
    assert emu.launch(heap_bytes, 1, options=options, heap_size=2 << 20) == [2 << 20]
    assert set(LaunchFields.__annotations__) == {
        f.name for f in dataclasses.fields(emu.LaunchOptions)
    }
    with pytest.raises(TypeError, match="unexpected keyword argument 'carrier'"):
        emu.launch(heap_bytes, 1, carrier="shm")  # type: ignore[call-arg] # the mistake under test
    with pytest.raises(ArgumentError, match="poison must be True or False, but got 1"):
        emu.LaunchOptions(poison=1)  # type: ignore[arg-type] # the mistake under test


def test_a_stop_within_a_finaliser_is_not_lost_and_not_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(one_raises_another_runs_a_finaliser, 2)
    (error,) = caught.value.exceptions
    assert isinstance(error, KeyError)
    assert not any("did not stop" in note for note in error.__notes__)
    assert "ignored" not in capfd.readouterr().err


def test_world_outside_a_pe() -> None:
    with pytest.raises(CommError, match="emu run -n N"):
        emu.world()


def test_a_launch_without_a_main_guard_is_named(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text("import emu\n\ndef f(): return 1\n\nemu.launch(f, 1)\n")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert (
        '`if __name__ == "__main__":`' in done.stderr.splitlines()[-2]
    )  # not in the PE's words only


def test_functions_of_a_main_script(tmp_path: Path) -> None:
    script = tmp_path / "guarded.py"
    script.write_text(
        "import emu\n\ndef f(): return emu.world().my_pe\n\n"
        'if __name__ == "__main__":\n    print(emu.launch(f, 3))\n'
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "[0, 1, 2]\n", done.stderr


def test_modules_are_loaded_once_for_all_pes_and_absent_ones_left_out(tmp_path: Path) -> None:
    (tmp_path / "loads.py").write_text("import os\nLOADED_BY = os.getpid()\n")
    script = tmp_path / "guarded.py"
    script.write_text(
        "import emu, sys\n\n"
        "def f(): return sys.modules['loads'].LOADED_BY\n\n"
        'if __name__ == "__main__":\n'
        "    one, other = emu.launch(f, 2, preload=('absent_module', 'loads'))\n"
        "    print(one == other, 'loads' in sys.modules)\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "True False\n", done.stderr


SESSION = """
class Point:
    def __init__(self, x): self.x = x
    def twice(self): return 2 * self.x

def f(point): return point.twice() + emu.world().my_pe

print(emu.launch(f, 2, args=(Point(5),)))
"""


def talk(*arguments: str, text: str = SESSION) -> subprocess.CompletedProcess[str]:
    """Type into an interactive interpreter."""
    lines = text.replace("\n\n", "\n\n\n")  # each definition ends with an empty line
    return subprocess.run(
        [sys.executable, *arguments],
        input=lines + "\n",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def sessions(tmp_path: Path) -> list[tuple[str, ...]]:
    """Ways to an interactive interpreter: one whose main module has a file, and two without."""
    script = tmp_path / "begin.py"
    script.write_text("import emu\n")
    return [
        ("-i", str(script)),
        ("-c", "import emu, code; code.interact(local=globals())"),
        ("-i", "-c", "import emu"),
    ]


@pytest.mark.parametrize("way", thorough(range(3), 0))
def test_functions_of_a_session_run_on_pes(sessions: list[tuple[str, ...]], way: int) -> None:
    pytest.importorskip("cloudpickle")
    done = talk(*sessions[way])
    assert "[10, 11]" in done.stdout, done.stderr


def test_a_script_may_come_from_standard_input() -> None:
    pytest.importorskip("cloudpickle")
    done = talk("-", text=f"import emu\n{SESSION}")
    assert "[10, 11]" in done.stdout, done.stderr


@pytest.mark.parametrize("way", thorough(range(3), 0))
def test_a_session_without_cloudpickle_names_the_extra(
    sessions: list[tuple[str, ...]], way: int
) -> None:
    done = talk(*sessions[way], text="import sys; sys.modules['cloudpickle'] = None\n" + SESSION)
    assert "pip install 'tile-emu[interactive]'" in done.stderr
    assert "is defined in an interactive session" in done.stderr
    assert "[10, 11]" not in done.stdout


def test_windows_is_refused_clearly() -> None:
    code = "import sys, emu; sys.platform = 'win32'; sys.modules['fcntl'] = None; emu.launch"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr.rstrip().endswith(
        "PlatformError: emu runs PEs on Linux and macOS, but this is Windows: use WSL, where it is "
        "Linux"
    )


def test_the_launcher_loads_no_numba() -> None:
    code = (
        "import sys, emu.comm.process.launching, emu.comm.process.session;"
        "print([m for m in ('numba', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""``pytest --emu`` as a maintainer of a library meets it: no conftest, no path to set."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from variants import thorough

pytest_plugins = "pytester"

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

DOUBLE = """
import pytest, torch, triton, triton.language as tl

@triton.jit
def double(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, 2 * tl.load(x + i))

def run(n, m):
    x = torch.arange(float(n), device="cuda")
    y = torch.zeros_like(x)
    double[(1,)](x, y, m)
    assert torch.equal(y, 2 * x)
"""


@pytest.fixture
def pytest_in(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run pytest on a file, in a process of its own."""
    for name in ("PYTHONPATH", "EMU_CHECK", "EMU_DEVICES", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)

    def run(text: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(text)
        return pytester.runpytest_subprocess("-p", "no:randomly", *arguments, timeout=110)

    return run


def test_it_is_off_unless_asked_for(pytest_in) -> None:
    result = pytest_in(
        """
        import sys
        def test_nothing_was_loaded():
            assert not any(name.startswith("emu.") and not name.startswith("emu.pytest")
                           and name not in ("emu.commands", "emu.commands.option_types") for name in sys.modules)
            assert "_emu_imports" not in sys.modules
        """
    )
    result.assert_outcomes(passed=1)
    assert "emu:" not in result.stdout.str()


STREAMS = """
import pytest, torch

def too_early():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x = torch.ones(4, device="cuda")
    return x + 1

%s
def test_first():
    too_early()

def test_again():
    too_early()

%s
@pytest.mark.pes(2)
def test_on_pes(world):
    too_early()
"""


@needs_torch
@pytest.mark.parametrize("how", ["option", "mark"])
def test_missing_orders_of_streams_fail_each_test_that_is_checked(how, pytest_in) -> None:
    mark, options = ("", ["--emu-check", "streams"])
    if how == "mark":
        mark, options = '@pytest.mark.emu(check="streams")', []
    result = pytest_in(STREAMS % (mark, mark), "--emu", *options)
    checked = {"option": 3, "mark": 2}[how]
    result.assert_outcomes(failed=checked, passed=3 - checked)
    name = "test_missing_orders_of_streams_fail_each_test_that_is_checked.py"
    result.stdout.fnmatch_lines(
        [
            "*StreamOrderError: *",
            "*= emu: bad addresses =*",
            f"{name}::test_first",
            f"  nothing orders ones, {name}:7 and add, {name}:8",
        ]
    )


@needs_torch
@pytest.mark.parametrize("how", thorough(["option", "plugin", "ini", "xdist", "no cache"], "xdist"))
def test_kernels_run_on_emulated_devices(how: str, pytest_in, pytester: pytest.Pytester) -> None:
    arguments = {
        "plugin": ["-p", "emu.pytest"],
        "ini": [],
        "xdist": ["--emu", "-n", "2"],
        "no cache": ["--emu", "-p", "no:cacheprovider"],
    }.get(how, ["--emu"])
    if how == "ini":
        pytester.makeini("[pytest]\nemu = true\nemu_devices = 3\n")
    devices = 3 if how == "ini" else 1
    result = pytest_in(
        DOUBLE
        + f"""
def test_double():
    assert torch.cuda.device_count() == {devices}
    run(16, 16)

def test_without_a_kernel():
    import sys
    assert "numba" not in sys.modules  # the machine's compiler, which takes a second to load
""",
        *arguments,
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["emu: 1 test launched 1 Triton kernel, 1 test launched none"], consecutive=True
    )


@needs_torch
def test_a_check_reports_the_line_of_the_kernel_and_nothing_of_emu(pytest_in) -> None:
    result = pytest_in(
        DOUBLE
        + """
@pytest.mark.emu(check="bounds")
def test_outside():
    run(16, 32)

@pytest.mark.pes(2)
@pytest.mark.emu(check="bounds")
def test_on_one_pe(world):
    if world.my_pe == 1:
        run(16, 32)
    world.barrier()

@pytest.mark.emu(check="uninit")
def test_unwritten():
    x = torch.empty(16, device="cuda")
    double[(1,)](x, torch.zeros_like(x), 16)

def test_unchecked():
    run(16, 16)

def test_of_unwritten_memory_that_nobody_checks():
    x = torch.empty(16, device="cuda")
    double[(1,)](x, torch.zeros_like(x), 16)
""",
        "--emu",
    )
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["*load of f32 out of bounds in kernel double*"])
    assert "bounds.py" not in result.stdout.str()
    name = "test_a_check_reports_the_line_of_the_kernel_and_nothing_of_emu.py"
    result.stdout.fnmatch_lines(
        [
            "*= emu: bad addresses =*",
            f"{name}::test_outside",
            f"  load out of bounds in kernel double, {name}:6, tensor x: right behind its end",
            f"{name}::test_on_one_pe[[]2-PEs[]]",
            f"  load out of bounds in kernel double, {name}:6, tensor x: right behind its end",
            f"{name}::test_unwritten",
            f"  unwritten memory used as stored value in kernel double, {name}:6, tensor x",
        ],
        consecutive=True,
    )


@pytest.mark.slow
@needs_torch
def test_what_was_written_outside_of_memory_without_a_check_is_listed(pytest_in) -> None:
    result = pytest_in(
        DOUBLE
        + """
def test_right():
    run(16, 16)

def test_behind_the_end():
    x = torch.zeros(16, device="cuda")
    double[(1,)](torch.zeros(32, device="cuda"), x, 32)
    assert x.sum() == 0
""",
        "--emu",
    )
    result.assert_outcomes(passed=2)
    name = "test_what_was_written_outside_of_memory_without_a_check_is_listed.py"
    result.stdout.fnmatch_lines(
        [
            f"{name}::test_behind_the_end",
            "  kernel double (*) wrote outside the memory of * 64 bytes from 0 bytes behind its end hold *",
        ],
        consecutive=True,
    )


@pytest.mark.slow
@needs_torch
def test_the_option_checks_all_tests(pytest_in) -> None:
    text = DOUBLE + "\ndef test_outside():\n    run(16, 32)\n"
    pytest_in(text, "--emu", "--emu-check", "bounds").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("arguments", "variable", "mode"),
    [
        ([], None, "first"),
        pytest.param([], "cached", "cached", marks=pytest.mark.slow),
        (["--emu-autotune", "full"], "cached", "full"),
    ],
)
def test_autotuned_kernels_are_not_measured_unless_asked_for(
    arguments, variable, mode: str, pytest_in, monkeypatch
) -> None:
    monkeypatch.delenv("EMU_AUTOTUNE", raising=False)
    if variable is not None:
        monkeypatch.setenv("EMU_AUTOTUNE", variable)
    text = f"""
import triton
def test_mode():
    assert triton.knobs.autotuning.mode == {mode!r}
"""
    pytest_in(text, "--emu", *arguments).assert_outcomes(passed=1)


@needs_torch
@pytest.mark.parametrize("how", thorough(["option", "ini"], "ini"))
def test_devices_answer_as_the_model_that_is_asked_for(
    how: str, pytest_in, pytester: pytest.Pytester, monkeypatch
) -> None:
    monkeypatch.setenv("EMU_DEVICE_MODEL", "t4")
    if how == "ini":
        pytester.makeini("[pytest]\nemu_device_model = h100\n")
    text = """
import torch
def test_name():
    assert torch.cuda.get_device_name() == "NVIDIA H100 80GB HBM3"
"""
    arguments = ["--emu-device-model", "h100"] if how == "option" else []
    pytest_in(text, "--emu", *arguments).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--emu-device-model", "h10"],
            "--emu-device-model: must be one of *, but got 'h10'",
        ),
        (
            ["--emu-devices", "0"],
            "--emu-devices: must be a whole number of at least 1, but got '0'",
        ),
        (["--emu-devices", "1025"], "--emu-devices: must be at most 1024, but got '1025'"),
        (["--emu-devices", "1" * 5000], "--emu-devices: must be at most 1024, but got '111*"),
        (["--emu-check", "bond"], "--emu-check: check must be made of * but got 'bond'*"),
        (
            ["--emu-timeout", "-1"],
            "--emu-timeout: must be a positive number of seconds, but got '-1'",
        ),
        (
            ["--emu-autotune", "fast"],
            "--emu-autotune: must be full, cached or first, but got 'fast'",
        ),
        (["-o", "emu_devices=two"], "emu_devices: must be a whole number*, but got 'two'"),
    ],
)
def test_wrong_settings_end_the_run_before_a_test(arguments, said: str, pytest_in) -> None:
    result = pytest_in("def test_a(): pass", "--emu", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}"])


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (
            "pes()",
            "*test_a: the mark pes takes one or more numbers of PEs, as in pes(2, 4), but got none",
        ),
        ("pes(n=2)", "*the mark pes takes one or more numbers of PEs*but got n=2"),
        ("pes(0)", "*the mark pes: n_pes must be an integer in [[]1, 1024[]], but got 0"),
        ("emu('bounds')", "*test_a: the mark emu takes arguments by name, but got ('bounds',)"),
        ("emu(cheque=1)", "*the mark emu takes check, link, timeout, poison, seed, but got cheque"),
        ("emu(check=3)", "*check of the mark emu must be a text such as 'bounds', but got 3"),
        ("emu(timeout=-1)", "*timeout of the mark emu: must be a positive number*"),
        ("emu(link='fast')", "*link of the mark emu: *'fast'*"),
        ("emu(seed=-1)", "*seed of the mark emu: must be a whole number in *, but got '-1'"),
        ("emu(seed=True)", "*seed of the mark emu must be a whole number in *, but got True"),
        ("pes('2')", "*the mark pes: n_pes must be an integer in [[]1, 1024[]], but got '2'"),
        ("pes(True)", "*the mark pes: n_pes must be an integer in [[]1, 1024[]], but got True"),
        ("emu(poison=1)", "*poison of the mark emu must be True or False, but got 1"),
    ],
)
def test_wrong_marks_are_named_at_collection(mark: str, said: str, pytest_in) -> None:
    result = pytest_in(f"import pytest\n@pytest.mark.{mark}\ndef test_a(): pass")
    assert result.ret != pytest.ExitCode.OK
    (result.stderr if result.ret == pytest.ExitCode.USAGE_ERROR else result.stdout).fnmatch_lines(
        [said]
    )


def test_a_triton_that_was_imported_before_is_refused(pytest_in, pytester) -> None:
    (pytester.path / "triton.py").write_text("")
    pytester.makepyfile(early="import triton\n")
    result = pytest_in("def test_a(): pass", "-p", "early", "--emu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: emu must be installed before triton is imported*"])


class TestCommands:
    """``emu pytest`` and ``emu run pytest``."""

    @pytest.fixture
    def emu(self, tmp_path: Path):
        (tmp_path / "test_a.py").write_text(
            "import os\ndef test_a():\n    import pypto\n    assert 'EMU_DEVICES' not in os.environ\n"
            "def test_b(): assert 1 + 1 == 3\n"
        )

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            environment = {k: v for k, v in os.environ.items() if k != "EMU_DEVICES"}
            return subprocess.run(
                [sys.executable, "-m", "emu", *words],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=110,
                check=False,
            )

        return run

    @pytest.mark.parametrize(
        "words",
        thorough(
            ["pytest", "run pytest", "run -n 1 -m pytest", "run --timeout 9 pytest"], "run pytest"
        ),
    )
    def test_pytest_runs_as_one_expects(self, words: str, emu) -> None:
        done = emu(*words.split(), "-q", "-x", "--color=yes", "--junit-xml=out.xml")
        assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
        assert "1 failed" in done.stdout
        assert "1 passed" in done.stdout
        assert "warning" not in done.stdout
        assert "assert (1 + 1) == 3" in done.stdout  # rewritten
        assert "\x1b[31m" in done.stdout
        assert not done.stdout.startswith("[0]")

    def test_its_help_is_that_of_pytest(self, emu) -> None:
        done = emu("pytest", "--help")
        assert done.returncode == 0
        assert "--emu-check" in done.stdout
        assert "--maxfail" in done.stdout

"""A project that has never heard of emu, tested as its workflow would: its own package, conftest and configuration."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

FILES = {
    "pyproject.toml": """
        [tool.pytest.ini_options]
        pythonpath = ["src"]
        """,
    "src/softlib/__init__.py": """
        import torch
        import triton
        import triton.language as tl

        @triton.jit
        def _double(x, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(x + at, 2 * tl.load(x + at, at < n), at < n)

        def double_(x):
            assert x.is_cuda
            _double[(triton.cdiv(x.numel(), 256),)](x, x.numel(), BLOCK=256)
            return x

        def only_on_a_pe(world):
            return world.n_pes
        """,
    "tests/conftest.py": """
        import pytest
        import torch

        @pytest.fixture
        def device():
            if not torch.cuda.is_available():
                pytest.skip("needs a GPU")
            return "cuda"
        """,
    "tests/test_double.py": """
        import pytest
        import torch
        from softlib import double_, only_on_a_pe

        @pytest.mark.parametrize("n", [1, 300])
        def test_double(n, device):
            x = torch.arange(n, device=device, dtype=torch.float32)
            assert torch.equal(double_(x.clone()).cpu(), x.cpu() * 2)

        def test_fails(device):
            found = double_(torch.ones(3, device=device))
            assert found.sum().item() == 7

        def test_is_skipped():
            pytest.skip("not today")

        @pytest.mark.pes(2)
        def test_pes(world):
            assert only_on_a_pe(world) == 2
        """,
}
BY_PLUGIN, BY_COMMAND = ("-m", "pytest", "--emu"), ("-m", "emu", "run", "pytest")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the project's files, and one for its user's home."""
    from textwrap import dedent

    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "project"


def run(project: Path, *command: str, said: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python in the project, with an environment of which emu knows nothing."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("EMU_", "PYTEST", "PYTHON"))}
    home = project.parent / "home"
    return subprocess.run(
        [sys.executable, *command, "-p", "no:randomly"],
        cwd=project,
        env={**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")},
        input=said,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.parametrize(
    "command",
    [BY_PLUGIN, pytest.param(BY_COMMAND, marks=pytest.mark.slow)],
    ids=["plugin", "command"],
)
def test_results_reports_and_coverage(command: tuple[str, ...], project: Path) -> None:
    report = project / "report.xml"
    arguments = (f"--junit-xml={report}", "--cov=softlib", "--cov-report=term-missing", "-rs")
    done = run(project, *command, *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 3 passed, 1 skipped" in done.stdout
    assert "assert 6.0 == 7" in done.stdout
    assert "emu: 3 tests launched 3 Triton kernels" in done.stdout
    assert not re.search(r"^\[\d\] ", done.stdout, re.MULTILINE)  # no prefixes with one PE
    (suite,) = ElementTree.parse(report).getroot()
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "5", "failures": "1", "errors": "0", "skipped": "1"}
    covered = re.search(r"softlib/__init__.py +(\d+) +(\d+) .*?%(?: +(.*))?", done.stdout)
    assert covered is not None
    assert covered[3] == "8-9"  # the kernel is compiled; what ran on PEs alone is there


@pytest.mark.slow
def test_options_of_pytest(project: Path) -> None:
    first = run(project, *BY_COMMAND, "-x", "--color=yes", "-p", "no:cacheprovider")
    assert first.returncode == 1
    assert "stopping after 1 failures" in first.stdout
    assert "\x1b[31m" in first.stdout
    assert not (project / ".pytest_cache").exists()
    assert run(project, *BY_COMMAND, "-k", "nothing").returncode == 5
    assert run(project, *BY_COMMAND, "--no-such-option").returncode == 4
    asked = run(project, *BY_COMMAND, "--pdb", "-k", "fails", said="p found\nc\n")
    assert "(Pdb) tensor([2., 2., 2.], device='cuda:0')" in asked.stdout
    again = run(project, *BY_PLUGIN, "--last-failed", "-n", "2")
    assert "1 failed" in again.stdout
    assert "3 passed" not in again.stdout


@pytest.mark.slow
def test_without_the_plugin_nothing_is_emulated(project: Path) -> None:
    text = (project / "tests" / "test_double.py").read_text(encoding="utf-8")
    (project / "tests" / "test_double.py").write_text(text.replace("from softlib", "# "), "utf-8")
    done = run(project, "-m", "pytest", "tests/test_double.py::test_double")
    assert "2 skipped" in done.stdout
    assert "emu:" not in done.stdout

"""The wheel works where the source tree is not: installed into a fresh environment, used, and removed."""

import os
import re
import shutil
import subprocess
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {  # one per front end: how it is started, and what it needs
    "triton/matmul.py": ([], None),
    "sdy/why.py": ([], None),
    "comm/ring.py": (["run", "-n", "2"], None),
    "pypto/allgather.py": (["run", "-n", "2"], None),
    "mc2/matmul_reduce_scatter.py": (["run", "-n", "2"], None),
    "torch_npu/quant_scatter.py": (["run", "-n", "1"], "torch"),
    "torch/tensor_parallel.py": (["run", "-n", "2"], "torch"),
}


class Environment:
    """A fresh environment, and a folder to work in that has no sources."""

    def __init__(self, folder):
        self.folder = folder / "work"
        self.folder.mkdir()
        venv.create(folder / "venv", with_pip=True)
        self.bin = folder / "venv" / "bin"
        (self.site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        self.before = self.files()

    def borrow_dependencies(self):
        """Take them from the environment of the tests: a plain path, so that its editable installs stay out."""
        libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (self.site / "dependencies.pth").write_text("\n".join(libraries) + "\n")

    def files(self):
        found = (path.relative_to(self.bin.parent) for path in self.bin.parent.rglob("*"))
        return {str(path) for path in found if "__pycache__" not in path.parts}

    def __call__(self, program, *arguments):
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [self.bin / program, *map(str, arguments)],
            cwd=self.folder,
            env={**environment, "COLUMNS": "150", "NO_COLOR": "1"},
            text=True,
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("installed"))
    environment("python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
    environment.borrow_dependencies()
    return environment


@pytest.fixture(scope="module")
def with_own_dependencies(wheel, tmp_path_factory):
    """An environment in which an installer has put what the wheel says that it requires, and no more."""
    environment = Environment(tmp_path_factory.mktemp("alone"))
    try:
        environment("python", "-m", "pip", "install", "--quiet", "--no-input", wheel)
    except AssertionError as error:
        if "No matching distribution found for" in str(error) and "tile-emu" not in str(error):
            pytest.skip(f"no package index can be reached: {str(error)[-300:]}")
        raise
    return environment


@pytest.mark.slow
@pytest.mark.timeout(400)
class TestTheInstalledWheel:
    def test_it_is_what_is_imported_and_knows_its_version(self, installed):
        code = "import emu, emu.comm.errors as e; print(emu.__version__, emu.__file__, e.__file__)"
        version, *files = installed("python", "-c", code).split()
        assert version == "9.9.9"
        assert all(Path(file).is_relative_to(installed.site) for file in files)
        assert installed("emu", "--version") == "emu 9.9.9\n"

    def test_the_demo_runs(self, installed):
        printed = installed("emu", "demo", "-n", "2")
        assert len(re.findall(r" ok *$", printed, re.MULTILINE)) == 8

    def test_doctor_finds_what_is_required(self, installed):
        assert "Everything that emu requires is here." in installed("emu", "doctor")

    @pytest.mark.parametrize("program", PROGRAMS)
    def test_a_program_of_each_front_end_runs(self, installed, program):
        words, needed = PROGRAMS[program]
        if needed and not find_spec(needed):
            pytest.skip(f"{needed} is not installed")
        shutil.copy(ROOT / "examples" / program, installed.folder / "program.py")
        start = ["emu", *words] if words else ["python"]
        assert installed(*start, "program.py")

    def test_removing_it_leaves_nothing(self, installed):
        installed("python", "-m", "pip", "uninstall", "--quiet", "--yes", "tile-emu")
        (installed.site / "dependencies.pth").unlink()
        assert installed.files() == installed.before


@pytest.mark.slow
@pytest.mark.timeout(400)
class TestTheWheelWithNothingButItsOwnDependencies:
    def test_the_demo_runs_whole(self, with_own_dependencies):
        printed = with_own_dependencies("emu", "demo", "-n", "2")
        assert len(re.findall(r" ok *$", printed, re.MULTILINE)) == 8

    @pytest.mark.parametrize("program", [p for p, (_, needed) in PROGRAMS.items() if not needed])
    def test_a_program_of_each_front_end_runs(self, with_own_dependencies, program):
        shutil.copy(ROOT / "examples" / program, with_own_dependencies.folder / "program.py")
        words, _ = PROGRAMS[program]
        assert with_own_dependencies(*(["emu", *words] if words else ["python"]), "program.py")

    def test_a_script_for_torch_is_told_what_to_install(self, with_own_dependencies):
        script = with_own_dependencies.folder / "needs_torch.py"
        script.write_text("import torch\n")
        with pytest.raises(AssertionError, match="No module named 'torch'"):
            with_own_dependencies("emu", "run", "-n", "2", script)


def test_the_changelog_has_an_entry_for_the_version_that_a_build_without_git_gets():
    settings = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^fallback_version = "(.*)"$', settings, re.MULTILINE)[1]
    headings = re.findall(
        r"^## (\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert headings[0] == version

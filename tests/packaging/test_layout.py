"""What is shipped, what importing costs, and how large rooms may grow."""

import ast
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import emu

ROOT = Path(__file__).resolve().parents[2]
PARTS_OF_PAGE = ("page.html", "panels.js", "style.css", "timeline.js", "view.js")


def in_package(path):
    """Return where a source file lies in the package: kernels/x.py is emu/kernels/x.py."""
    return path.as_posix() if path.parts[0] == "emu" else f"emu/{path.as_posix()}"


def all_sources():
    """Every Python file of the package under its name in the repository, each once."""
    found = set()
    for folder in ("emu", "kernels", "comm"):
        for base, folders, files in os.walk(ROOT / folder):  # does not follow symlinks
            folders[:] = [name for name in folders if name != "__pycache__"]
            found |= {Path(base, name).relative_to(ROOT) for name in files if name.endswith(".py")}
    return sorted(found)


def python(code, cwd, **environment):
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=cwd,
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_sdist_holds_every_source_once(sdist):
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    sources = sorted(
        name for name in names if name.endswith(".py") and not name.startswith("tests/")
    )
    assert sources == sorted(in_package(path) for path in all_sources())


def test_the_wheel_holds_the_package_its_data_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    expected = [in_package(path) for path in all_sources()]
    stubs = [path.relative_to(ROOT).as_posix() for path in (ROOT / "emu").rglob("*.pyi")]
    parts = [f"emu/trace/page/{name}" for name in PARTS_OF_PAGE]
    devices = (ROOT / "emu/trace/prediction/devices").glob("*.toml")
    parts += [path.relative_to(ROOT).as_posix() for path in devices]
    data = [*stubs, "emu/py.typed", "emu/sdy/provenance/page.html", *parts]
    assert sorted(names) == sorted([*expected, *data])


def test_the_wheel_imports_from_anywhere(wheel, tmp_path):
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    code = "import emu, emu.kernels.core.jit, emu.comm.ops; print(emu.__file__, emu.kernels.core.jit.__file__)"
    for cwd in (Path("/"), tmp_path, ROOT):
        files = python(code, cwd, PYTHONPATH=str(site)).split()
        assert all(Path(file).is_relative_to(site) for file in files)


def test_importing_emu_is_light(tmp_path):
    code = "import sys, emu; print([m for m in ('numpy', 'numba', 'rich', 'torch') if m in sys.modules])"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    assert python(code, tmp_path, PYTHONPATH=path).strip() == "[]"


def test_dir_shows_the_public_names():
    assert set(emu.__all__) <= set(dir(emu))


@pytest.mark.parametrize("name", sorted(set(emu.__all__) - {"__version__"}))
def test_every_public_name_is_there_and_documented(name):
    assert getattr(emu, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="No emu attribute nothing"):
        _ = emu.nothing


def test_no_module_outgrows_its_room():
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in all_sources()}
    assert {path: length for path, length in lengths.items() if length > 650} == {}


def test_every_public_function_and_class_has_a_docstring():
    bare = [
        f"{path}:{node.lineno} {node.name}"
        for path in all_sources()
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not node.name.startswith("_")
        and "overload" not in map(ast.unparse, node.decorator_list)
        and ast.get_docstring(node) is None
    ]
    assert bare == []

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


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """An sdist built from a copy of the tree, which is left as it is."""
    copy = tmp_path_factory.mktemp("tree") / "tree"
    names = ["pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "emu"]
    copy.mkdir()
    for name in [*names, "kernels", "comm"]:
        subprocess.run(["cp", "-a", str(ROOT / name), str(copy / name)], check=True, timeout=60)
    build(copy, "build_sdist")
    (archive,) = (copy / "out").glob("*.tar.gz")
    return archive


def build(source, hook):
    """Call the build back-end as a front end would, in a process of its own."""
    code = f"import setuptools.build_meta as b; b.{hook}('out')"
    environment = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": "9.9.9"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=source,
        env=environment,
        text=True,
        capture_output=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """A wheel built from the sdist, as an installer does where there is no wheel."""
    folder = tmp_path_factory.mktemp("from_sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    build(tree, "build_wheel")
    (archive,) = (tree / "out").glob("*.whl")
    return archive


def test_the_sdist_holds_every_source_once(sdist):
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    sources = sorted(
        name for name in names if name.endswith(".py") and not name.startswith("tests/")
    )
    assert sources == sorted(in_package(path) for path in all_sources())


def test_the_wheel_holds_the_package_and_py_typed_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    expected = [in_package(path) for path in all_sources()]
    assert sorted(names) == sorted([*expected, "emu/py.typed"])


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


def test_the_public_names_are_exactly_these():
    assert sorted(emu.__all__) == [
        "AtomicOp",
        "Cmp",
        "CommError",
        "DeadlockError",
        "Group",
        "LaunchOptions",
        "Link",
        "PEDiedError",
        "PeerFailedError",
        "SymmetricArray",
        "SymmetricMemoryError",
        "World",
        "__version__",
        "launch",
        "world",
    ]
    assert set(emu.__all__) <= set(dir(emu))


@pytest.mark.parametrize("name", sorted(set(emu.__all__) - {"__version__"}))
def test_every_public_name_is_there_and_documented(name):
    assert getattr(emu, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = emu.nothing


def test_static_tools_see_the_same_names_as_the_program():
    tree = ast.parse((ROOT / "emu" / "__init__.py").read_text())
    seen = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert seen == set(emu.__all__) - {"__version__"}


@pytest.mark.parametrize("path", all_sources(), ids=str)
def test_no_module_outgrows_its_room(path):
    assert len((ROOT / path).read_text().splitlines()) <= 650


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

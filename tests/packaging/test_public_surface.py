"""What is public: exact names of public modules, and a sentence in every package that is internal.

``public_surface.txt`` is the table. A name that is added or removed must be changed there too, and in the changelog.
"""

import ast
import importlib
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "Internal: names may change in any release."


def table(name):
    """Return the lists of a file beside this one: what is indented belongs to the line above."""
    found, head = {}, ""
    for line in Path(__file__).with_name(name).read_text().splitlines():
        if line.startswith(" "):
            found[head] += line.split()
        elif line.strip():
            head = line.strip()
            found[head] = []
    return found


PUBLIC = table("public_surface.txt")


def packages():
    """Every package below emu by its dotted name, with the path of its ``__init__.py``."""
    found = {}
    for top, prefix in (("emu", ""), ("kernels", "emu."), ("comm", "emu.")):
        for base, folders, files in os.walk(ROOT / top):  # does not follow symlinks
            folders[:] = [name for name in folders if name not in ("__pycache__", "shims")]
            if "__init__.py" in files:
                name = prefix + Path(base).relative_to(ROOT).as_posix().replace("/", ".")
                found[name] = Path(base, "__init__.py")
    return found


INTERNAL = {name: path for name, path in packages().items() if name not in PUBLIC}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_has_exactly_the_names_of_the_table(name):
    assert sorted(importlib.import_module(name).__all__) == sorted(PUBLIC[name])


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name):
    module = importlib.import_module(name)
    assert [each for each in PUBLIC[name] if not hasattr(module, each)] == []


@pytest.mark.parametrize("name", INTERNAL)
def test_an_internal_package_says_so(name):
    text = ast.get_docstring(ast.parse(INTERNAL[name].read_text())) or ""
    assert " ".join(text.split()).endswith(SENTENCE)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_does_not_call_itself_internal(name):
    assert SENTENCE not in (importlib.import_module(name).__doc__ or "")


@pytest.mark.parametrize("package", ["emu", "emu.mc2", "emu.sdy", "emu.torch_npu"])
def test_the_stub_of_a_lazy_package_names_what_the_package_exports(package):
    path = Path(importlib.import_module(package).__file__ + "i")
    stub = {
        alias.asname
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert stub == set(PUBLIC[package]) - {"__version__"}


def test_a_module_does_not_hide_the_function_of_its_name():
    module = importlib.import_module("emu.mc2.all_gather_matmul")
    package = importlib.import_module("emu.mc2")
    assert package.all_gather_matmul is module.all_gather_matmul


def test_the_stub_of_libdevice_names_what_it_has():
    name = "emu.triton.language.extra.libdevice"
    libdevice = importlib.import_module(name)
    stub = ast.parse(Path(libdevice.__file__ + "i").read_text())
    returned = {
        node.name: ast.unparse(node.returns)
        for node in stub.body
        if isinstance(node, ast.FunctionDef)
    }
    assert returned == dict.fromkeys(libdevice.__all__, "tensor")


def test_the_pages_of_public_names_are_those_of_the_table():
    pages = "".join(path.read_text() for path in (ROOT / "docs/api").glob("*.md"))
    listed = re.findall(r"^\.\. automodule:: (\S+)$", pages, re.MULTILINE)
    assert sorted(listed) == sorted(PUBLIC)

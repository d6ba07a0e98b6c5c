"""Extension modules that programs compile."""

import os
import shutil
import subprocess

import pytest

from emu.triton import knobs
from emu.triton.runtime import build, extensions

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="there is no C compiler")

SOURCE = """
#include <Python.h>
static PyObject *twice(PyObject *self, PyObject *x) { return PyLong_FromLong(2 * PyLong_AsLong(x) + PLUS); }
static PyMethodDef methods[] = {{"twice", twice, METH_O, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "doubling", NULL, -1, methods};
PyMODINIT_FUNC PyInit_doubling(void) { return PyModule_Create(&definition); }
"""
ZERO = ["-DPLUS=0"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "propagate_env", False)
    monkeypatch.delenv("CC", raising=False)
    with knobs.cache.scope(), knobs.build.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        yield tmp_path


def test_a_module_is_compiled_once_for_each_text_and_flags():
    made = build.compile_module_from_src(SOURCE, "doubling", ccflags=ZERO)
    assert made.twice(21) == 42
    knobs.build.cc = "/no/such/compiler"  # not needed again
    assert build.compile_module_from_src(SOURCE, "doubling", ccflags=ZERO).__file__ == made.__file__
    with pytest.raises(OSError, match="compiler"):
        build.compile_module_from_src(SOURCE, "doubling", ccflags=["-DPLUS=1"])


def test_a_file_finds_the_headers_beside_it(folder):
    (folder / "plus.h").write_text("#define PLUS 5")
    path = folder / "doubling.c"
    path.write_text('#include "plus.h"\n' + SOURCE)
    assert build.compile_module_from_file(str(path), "doubling").twice(1) == 7
    assert os.path.exists(build.compile_so_from_file(str(path), "doubling"))
    with pytest.raises(ValueError, match=r"src_path must end in one of .*, but is x\.rs"):
        build.compile_so_from_file("x.rs", "x")


def test_a_library_that_cannot_be_loaded_is_compiled_again(caplog):
    path = build.compile_so_from_src(SOURCE, "doubling", ccflags=ZERO)
    with open(path, "w") as file:
        file.write("damaged")
    assert build.compile_module_from_src(SOURCE, "doubling", ccflags=ZERO).twice(2) == 4
    assert "doubling.so could not be loaded" in caplog.text


def test_errors_of_the_compiler_are_raised():
    with pytest.raises(subprocess.CalledProcessError):
        build.compile_so_from_src("int f( {", "broken")
    with pytest.raises(ValueError, match="language must be one of"):
        build.compile_so_from_src("", "x", language="rust")


def test_a_program_may_bring_its_own_compiler(folder):
    given = []

    def own(name, src, srcdir, library_dirs, include_dirs, libraries):
        given.append((name, library_dirs, include_dirs, libraries))
        path = os.path.join(srcdir, "own")
        with open(path, "w") as file:
            file.write("made")
        return path

    knobs.build.impl = own
    path = build.compile_so_from_src("text", "n", ["a"], ["b"], ["c"])
    with open(path) as file:
        assert file.read() == "made"
    assert given == [("n", ["a"], ["b"], ["c"])]


def test_libraries_are_linked_by_file_or_by_name():
    assert [extensions._library_flag(n) for n in ("m", "libx.so.1", "y.a", "z.so")] == [
        "-lm",
        "-l:libx.so.1",
        "-l:y.a",
        "-l:z.so",
    ]

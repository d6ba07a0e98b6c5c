"""Backends: another one registers itself, and launches, the environment and the cache know it."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.tile.text import parse_module, print_module
from emu.triton.backends.reference import ReferenceKernel
from emu.triton.runtime import backends


@triton.jit
def add_one(x, y, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


class Recorded(ReferenceKernel):
    """Runs a kernel on the interpreter, and remembers its module's text."""

    def __init__(self, module):
        super().__init__(module)
        self.text = print_module(module)


class Recording(backends.Backend):
    name = "recording"

    def __init__(self):
        self.calls = []

    def compile(self, module, contract):
        self.calls.append(("compile", contract))
        return Recorded(module)

    def text(self, name, module, contract):
        return f"listing of {module.kernel.name}" if name == "s" else None


class Stored(Recording):
    name = "stored"
    is_stored = True

    def target(self):
        return "a machine"

    def to_bytes(self, executable):
        self.calls.append("to_bytes")
        return executable.text.encode()

    def from_bytes(self, code):
        self.calls.append("from_bytes")
        return Recorded(parse_module(code.decode()))


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    monkeypatch.setattr(backends, "_backends", dict(backends._backends))


def launched(**options):
    # A function object of its own, so that each launch compiles anew in this process.
    kernel = triton.jit(add_one.fn)
    x, y = np.arange(8.0, dtype=np.float32), np.zeros(8, np.float32)
    compiled = kernel[(2,)](x, y, 7, block=4, **options)
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 5, 6, 7, 0])
    return compiled


def test_those_that_come_with_it_are_registered():
    assert backends.names() == ("cpu", "cuda", "reference")
    assert launched().metadata.backend == "cpu"


def test_a_launch_runs_on_a_backend_that_registered_itself():
    backends.register(recording := Recording())
    compiled = launched(backend="recording", enable_fp_fusion=True)
    assert recording.calls == [("compile", True)]
    assert compiled.metadata.backend == "recording"
    assert compiled.asm["s"] == "listing of add_one"
    assert "add_one" in compiled.asm["ttir"]
    with pytest.raises(KeyError, match="asm has no 'llir'"):
        compiled.asm["llir"]


def test_the_environment_chooses_it(monkeypatch):
    monkeypatch.setenv("EMU_TRITON_BACKEND", "recording")
    with pytest.raises(ValueError, match=r"must be one of \('cpu', 'cuda', 'reference'\), but got"):
        launched()
    backends.register(Recording())
    assert launched().metadata.backend == "recording"


def test_its_executables_are_kept_on_disk_if_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path))
    backends.register(stored := Stored())
    assert not launched(backend="stored").from_disk
    assert launched(backend="stored").from_disk
    assert stored.calls == [("compile", False), "to_bytes", "from_bytes"]
    assert not launched(backend="cpu").from_disk  # an entry belongs to one backend


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="no other backend, but got 'cpu'"):
        backends.register(type("Other", (Recording,), {"name": "cpu"})())
    assert backends.names() == ("cpu", "cuda", "reference")


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match=r"backend must be one of \('cpu', 'cuda', 'reference'\)"):
        launched(backend="recording")

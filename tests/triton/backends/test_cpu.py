"""The backend ``"cpu"``: what it compiles can be read, and kept as bytes."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.runtime import backends
from emu.triton.runtime.build import Request

CPU = backends.find("cpu")


@triton.jit
def scaled(x_ptr, factor):
    tl.store(x_ptr, tl.load(x_ptr) * factor + factor)


def module():
    types = {"x_ptr": "*fp32", "factor": "fp32"}
    return Request(scaled, types, {}, debug=False, backend="cpu").module()


def result(executable):
    x = np.array([3.0], np.float32)
    executable.bind(1)(1, 1, 1, (x.ctypes.data, 2.5))
    return x[0]


def test_an_executable_comes_back_from_bytes():
    made = CPU.compile(module(), contract=False)
    assert result(made) == result(CPU.from_bytes(CPU.to_bytes(made))) == 10.0


def test_contraction_is_an_option_of_the_code():
    separate, contracted = (CPU.text("llir", module(), contract=c) for c in (False, True))
    assert "contract" in contracted
    assert "contract" not in separate


def test_llvm_and_assembly_can_be_read_and_nothing_else():
    assert "define" in CPU.text("llir", module(), contract=False)
    assert "scaled" in CPU.text("s", module(), contract=False)
    assert CPU.text("ptx", module(), contract=False) is None


def test_bytes_are_of_executables_of_this_backend_only():
    other = backends.find("reference").compile(module(), contract=False)
    with pytest.raises(AssertionError):
        CPU.to_bytes(other)

"""Every kernel goes through the real compiler, which needs no GPU, and through the assembler.

The simulator runs Python, so it says nothing of what compiles, or to which instructions.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from numba import cuda

from emu.kernels.cuda import atomics, matmul_kernels, quant_kernels, tiles
from emu.kernels.cuda.device import SIMULATED
from emu.kernels.cuda.geometry import FEW, MANY, WIDEST

pytestmark = pytest.mark.slow

SM_80, SM_90 = (8, 0), (9, 0)
# Two devices a kernel would double the time: what walks few axes is compiled for one of them, what
# walks many for the other.
BY_AXES = pytest.mark.parametrize(
    ("few", "device"), [(True, SM_90), (False, SM_80)], ids=["few_axes-sm_90", "many_axes-sm_80"]
)
DEVICES = pytest.mark.parametrize("device", [SM_80, SM_90], ids=["sm_80", "sm_90"])


def missing() -> str | None:
    """Say why nothing can be compiled here."""
    if SIMULATED:
        return "Numba's CUDA simulator is on: it compiles nothing"
    try:
        cuda.compile_ptx(lambda: None, (), cc=(8, 0))
    except Exception as error:  # noqa: BLE001 - Numba raises several, by what it doesn't find
        text = " ".join(str(error).split())
        return f"no CUDA compiler (pip install 'numba-cuda[cu13]'): {text[:200]}"
    return None


@pytest.fixture(scope="module")
def types() -> Any:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    from emu.kernels.cuda.intrinsics import types

    return types


class Device:
    """What Numba asks the current device while it compiles a function that a kernel calls."""

    def __init__(self, architecture: tuple[int, int]) -> None:
        self.compute_capability = architecture


@pytest.fixture
def to_ptx(types, monkeypatch):
    from numba.cuda import dispatcher

    def compile_function(device, function, *arguments):
        monkeypatch.setattr(dispatcher, "get_current_device", lambda: Device(device))
        code, _ = cuda.compile_ptx(function, types.void(*arguments), cc=device)
        assemble(code, device)
        # Divisions of 32- and 64-bit integers become calls only on devices older than these.
        assert not re.search(r"\bcall\b", code), "a function was not inlined"
        return code

    return compile_function


def assemble(code: str, architecture: tuple[int, int]) -> None:
    """Let NVIDIA's assembler read the code, where it is installed; it checks inline PTX."""
    try:
        from cuda.bindings import nvjitlink
    except ImportError:
        return
    handle = nvjitlink.create(1, [f"-arch=sm_{architecture[0]}{architecture[1]}"])
    try:
        text = code.encode()
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), "kernel")
        nvjitlink.complete(handle)
        assert nvjitlink.get_linked_cubin_size(handle) > 0
    finally:
        nvjitlink.destroy(handle)


def arguments_of(kernel, types, *, few=True, operands=2):
    """A kernel's argument types, by its annotations."""
    outer = types.UniTuple(types.int64, (FEW if few else MANY) * (1 + operands))
    kinds = {"int": types.int64, "float": types.float64, "Outer": outer}

    def kind(name):
        if name in kinds:
            return kinds[name]
        record = kernel.py_func.__globals__[name]
        return types.UniTuple(types.int64, len(record._fields))

    parameters = inspect.signature(kernel.py_func).parameters.values()
    return [kind(parameter.annotation) for parameter in parameters]


def fused(code: str) -> list[str]:
    return re.findall(r"\bfma\.\S+|\bmad\.\S*f\d+", code)


def in_local_memory(code: str) -> bool:
    return ".local" in code


@BY_AXES
@pytest.mark.parametrize("unit", tiles.UNITS)
def test_set(to_ptx, types, unit, few, device):
    kernel = tiles.SET_KERNELS[unit, few]
    code = to_ptx(device, kernel.py_func, *arguments_of(kernel, types, few=few))
    assert not in_local_memory(code)
    assert ("ld.global.v2." in code and "st.global.v2." in code) == (unit == WIDEST)
    # In the unrolled loop the loads come first.
    assert "ldldldldstststst" in "".join(re.findall(r"\b(ld|st)\.global", code))


@BY_AXES
@pytest.mark.parametrize(("kind", "unit"), sorted({key[:2] for key in tiles.ADD_KERNELS}))
def test_add(to_ptx, types, kind, unit, few, device):
    kernel = tiles.ADD_KERNELS[kind, unit, few]
    code = to_ptx(device, kernel.py_func, *arguments_of(kernel, types, few=few))
    assert not in_local_memory(code)
    assert not fused(code)
    assert ".ftz" not in code
    assert ("ld.global.v2." in code) == (unit == WIDEST)


@BY_AXES
@pytest.mark.parametrize(("kind", "size"), sorted({key[:2] for key in tiles.ATOMIC_KERNELS}))
def test_atomic_add(to_ptx, types, kind, size, few, device):
    kernel = tiles.ATOMIC_KERNELS[kind, size, few]
    code = to_ptx(device, kernel.py_func, *arguments_of(kernel, types, few=few))
    expected = {
        ("int", 4): "red.sys.global.add.u32",
        ("int", 8): "red.sys.global.add.u64",
        ("f64", 8): "red.sys.global.add.f64",
    }.get((kind, size), "atom.sys.global.cas.b32")
    assert re.findall(r"\b(?:atom|red)\.\S+", code) == [expected]
    assert not in_local_memory(code)


@pytest.mark.parametrize(
    ("operation", "value", "lanes", "few"), sorted(quant_kernels.CONVERT_KERNELS)
)
def test_convert(to_ptx, types, operation, value, lanes, few):
    kernel, device = (
        quant_kernels.CONVERT_KERNELS[operation, value, lanes, few],
        SM_90 if few else SM_80,
    )
    code = to_ptx(device, kernel.py_func, *arguments_of(kernel, types, few=few, operands=3))
    check_quantisation(code, operation, lanes)


@pytest.mark.parametrize(("value", "lanes", "few"), sorted(quant_kernels.SCATTER_KERNELS))
def test_scatter(to_ptx, types, value, lanes, few):
    kernel, device = quant_kernels.SCATTER_KERNELS[value, lanes, few], SM_90 if few else SM_80
    code = to_ptx(device, kernel.py_func, *arguments_of(kernel, types, few=few))
    check_quantisation(code, "divide", lanes)


def check_quantisation(code, operation, lanes):
    assert not in_local_memory(code)
    assert not fused(code), "a product or quotient and a sum must each be rounded"
    divisions = re.findall(r"\bdiv\.(\w+)\.f32", code)
    assert set(divisions) == ({"rn"} if operation == "divide" else set())
    assert ("mul.rn.f32" in code) == (operation != "divide")
    assert ".ftz" not in code
    assert ".approx" not in code
    if lanes == quant_kernels.LANES:
        assert re.search(r"\b(?:ld|st)\.global\.v2\.", code)


@pytest.mark.parametrize(
    ("source", "result", "tiling"),
    [
        pytest.param(*key, id=f"{key[0]}-{key[1]}-{key[2].rows}")
        for key in matmul_kernels.PRODUCT_KERNELS
        if key[2] != matmul_kernels.TINY or key[:2] == ("f32", "f32")  # only simulated
    ],
)
def test_product(to_ptx, types, source, result, tiling):
    kernel = matmul_kernels.PRODUCT_KERNELS[source, result, tiling]
    device = SM_80 if tiling == matmul_kernels.SMALL else SM_90
    code = to_ptx(device, kernel.py_func, *arguments_of(kernel, types))
    sums = matmul_kernels.INPUTS[source]
    if sums == "i32":
        assert re.search(r"\bmad\.lo\.s32", code)
    else:
        assert set(fused(code)) == {f"fma.rn.{sums}"}
    # While k advances, the sums stay in registers: nothing local between the barriers.
    loop = code[code.index("bar.sync") : code.rindex("bar.sync")]
    assert "local" not in loop
    assert tiling.threads <= 1024
    size = matmul_kernels.SUMS[sums].dtype.itemsize
    assert tiling.shared_bytes(size) <= 48 << 10


def update(operation):
    def kernel(array, index, value):
        operation(array, index, value)

    return kernel


def load(array, index, result):
    result[0] = atomics.load(array, index)


def compare_exchange(array, index, value):
    atomics.compare_exchange(array, index, value, value)
    atomics.fence()


@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
def test_atomics(to_ptx, types, name):
    dtype = getattr(types, name)
    operations = [atomics.add, atomics.sub, atomics.minimum, atomics.maximum, atomics.store]
    if isinstance(dtype, types.Integer):
        operations += [atomics.and_, atomics.or_, atomics.xor, atomics.exchange]
        to_ptx(SM_90, compare_exchange, dtype[:], types.int32, dtype)
    for operation in operations:
        to_ptx(SM_90, update(operation), dtype[:, ::1], types.UniTuple(types.int64, 2), dtype)
        to_ptx(SM_90, update(operation), dtype[:], types.int32, dtype)
    assert "ld.acquire" in to_ptx(SM_80, load, dtype[:], types.int64, dtype[:])


def in_shared_memory(result):
    cells = cuda.shared.array(8, "uint16")
    cells[cuda.threadIdx.x] = 0
    atomics.add_f16(cells, 1, 1.0)
    atomics.add_bf16(cells, 2, 1.0)
    result[0] = cells[1]


@DEVICES
@pytest.mark.parametrize("name", ["add_f16", "add_bf16"])
def test_sums_of_sixteen_bits(to_ptx, types, name, device):
    operation = getattr(atomics, name)
    for array, index in (
        (types.uint16[::1], types.int32),
        (types.uint16[:, :], types.UniTuple(types.int64, 2)),
    ):
        for value in (types.float32, types.float64):
            code = to_ptx(device, update(operation), array, index, value)
            assert re.findall(r"\batom\.\S+", code) == ["atom.sys.cas.b32"]
            assert not fused(code)


@pytest.mark.parametrize("name", ["float16", "int16", "uint32"])
def test_sums_of_sixteen_bits_refuse_other_arrays(to_ptx, types, name):
    with pytest.raises(Exception, match="No implementation of function"):
        to_ptx(SM_90, update(atomics.add_f16), getattr(types, name)[:], types.int32, types.float32)


def test_sums_in_shared_memory(to_ptx, types):
    code = to_ptx(SM_90, in_shared_memory, types.uint16[:])
    assert re.findall(r"\batom\.\S+", code) == ["atom.sys.cas.b32"] * 2  # of generic addresses

"""Kernels that leave a tensor, of the kinds that sanitizers of Triton are tested with: each report names the tensor, the index and the line."""

from __future__ import annotations

from typing import Any

import pytest

from emu.triton.errors import OutOfBoundsError
from tests.check.bounds import places, tiles
from tests.check.bounds.faults import FAULTS, Fault

MODULES = {places, tiles}
BACKENDS = ("cpu", pytest.param("reference", marks=pytest.mark.slow))


def _start(given: dict[str, Any], fault: Fault) -> int:
    """Return the address of the first element of the tensor that a fault is about."""
    assert fault.argument is not None
    found: int = given[fault.argument].ctypes.data
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FAULTS)
def test_the_tensor_the_index_and_the_line_are_named(name: str, backend: str) -> None:
    fault = FAULTS[name]
    arguments = fault.make()
    given = dict(zip(fault.kernel.arg_names, arguments, strict=False))
    options: dict[str, Any] = {"num_threads": 1, "backend": backend}
    with pytest.raises(OutOfBoundsError) as caught:
        fault.kernel[fault.grid](
            *arguments, FIXED=False, check="bounds", **fault.constants, **options
        )
    (access,) = caught.value.accesses
    assert (access.file, access.line) == (fault.file, fault.line), access.text
    assert (access.argument, access.verb) == (fault.argument, fault.verb), access.text
    assert access.kernel == fault.kernel.__name__
    x, y, _ = (*fault.grid, 1, 1)[:3]
    px, py, pz = access.program
    assert px + x * (py + y * pz) == fault.program, access.text
    if fault.argument is None:
        return
    size = given[fault.argument].itemsize
    assert access.address - _start(given, fault) == fault.index * size, access.text
    if not name.startswith("words_of_bytes"):  # whose elements are not those of the tensor
        assert f"{fault.argument}[{fault.index}]" in access.text


@pytest.mark.parametrize("name", FAULTS)
def test_every_place_is_named_when_all_are_asked_for(name: str) -> None:
    fault = FAULTS[name]
    with pytest.raises(OutOfBoundsError) as caught:
        fault.kernel[fault.grid](*fault.make(), FIXED=False, check="bounds:all", **fault.constants)
    assert fault.line in {access.line for access in caught.value.accesses}
    first = caught.value.accesses[0]
    assert (first.line, first.argument) == (fault.line, fault.argument)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FAULTS)
def test_the_twin_that_stays_inside_is_silent(name: str, backend: str) -> None:
    fault = FAULTS[name]
    fault.kernel[fault.grid](
        *fault.make(), FIXED=True, check="bounds", backend=backend, **fault.constants
    )


def test_there_are_as_many_faults_as_were_promised() -> None:
    assert {f.kernel.fn.__module__ for f in FAULTS.values()} == {m.__name__ for m in MODULES}
    assert len(FAULTS) >= 40

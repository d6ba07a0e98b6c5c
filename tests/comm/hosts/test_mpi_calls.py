"""Compiled code calls MPI by addresses and handles, whatever these are in an implementation."""

from __future__ import annotations

import _ctypes
import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import wire_program
from fake_mpi import KINDS, FakeMpi

from emu.comm.errors import HostsError
from emu.comm.hosts import mpi_calls, wire
from emu.comm.hosts.state import SLACK
from emu.comm.hosts.words import INLINE_BYTES


@pytest.fixture(params=KINDS)
def mpi(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FakeMpi:
    made = FakeMpi(request.param)
    monkeypatch.setattr(wire, "find_functions", lambda mpi: mpi.addresses)
    return made


def test_what_is_sent_comes_whole_with_handles_of_any_kind(mpi: FakeMpi) -> None:
    connection = wire_program.make_wire(mpi)
    sizes = [0, 1, 8, INLINE_BYTES, INLINE_BYTES + 1, 100_000, 7, 1 << 20, INLINE_BYTES] * 2
    kept = [wire_program.send(connection, number, nbytes) for number, nbytes in enumerate(sizes)]
    wire_program.take_all(connection, sizes)
    assert len(kept) == len(sizes)
    while connection.is_sending:
        connection.serve(1000)
    assert not mpi.crimes


def test_many_batches_are_on_their_way_with_handles_of_any_kind(mpi: FakeMpi) -> None:
    connection = wire_program.make_wire(mpi)
    sizes = [INLINE_BYTES] * (8 * 3 * SLACK)
    for number, nbytes in enumerate(sizes):
        wire_program.send(connection, number, nbytes)
    wire_program.take_all(connection, sizes)
    assert not mpi.crimes


@pytest.mark.parametrize(
    ("function", "nbytes"), [("Isend", 8), ("Testany", 8), ("Irecv", 8), ("Irecv", 100_000)]
)
def test_an_error_of_mpi_is_raised_and_no_request_is_asked_for_that_was_not_made(
    function: str, nbytes: int, mpi: FakeMpi
) -> None:
    connection = wire_program.make_wire(mpi)
    mpi.failing = function
    kept = wire_program.send(connection, 0, nbytes)
    with pytest.raises(RuntimeError, match="15"):
        _serve_on(connection)
    assert len(kept) == nbytes
    assert not mpi.crimes


def _serve_on(connection: wire.Wire) -> None:
    for _ in range(10):
        connection.serve(1_000_000)


@pytest.mark.parametrize("value", [5, -(1 << 31) + 7, (1 << 31) - 1])
def test_an_integer_is_a_handle_with_its_sign(value: int) -> None:
    assert mpi_calls.handle_of(*_made(ctypes.c_int32(value))) == value


def test_a_pointer_is_a_handle_in_its_whole_length() -> None:
    assert mpi_calls.handle_of(*_made(ctypes.c_void_p(0x7F12_3456_789A))) == 0x7F12_3456_789A


def test_a_handle_of_another_size_is_refused() -> None:
    with pytest.raises(HostsError, match=r"must have 4 bytes .* but \w+ has 16"):
        mpi_calls.handle_of(*_made((ctypes.c_int64 * 2)()))


def _made(memory: Any) -> tuple[Any, Any]:
    """Return a module that has a handle of this content, and the handle."""
    size = ctypes.sizeof(memory)
    return SimpleNamespace(_sizeof=lambda _: size, _addressof=ctypes.addressof), memory


def test_a_status_that_is_too_large_is_refused(
    mpi: FakeMpi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpi_calls, "find_functions", lambda mpi: mpi.addresses)
    mpi_calls.check_calls(mpi)
    monkeypatch.setattr(mpi.kind, "status_words", 65)
    with pytest.raises(HostsError, match="at most 256 bytes, but this has 260"):
        mpi_calls.check_calls(mpi)


def test_a_function_that_the_library_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_calls, "FUNCTIONS", ("Isend_that_is_not_there",))
    other = SimpleNamespace(__file__=_ctypes.__file__)  # a library that has nothing of MPI
    with pytest.raises(HostsError, match="must have the function MPI_Isend_that_is_not_there"):
        mpi_calls.find_functions(other)

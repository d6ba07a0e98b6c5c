"""Which memory no other process sees, and updates of it without locks: the same bits, none lost."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import threading
from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.tile.cpu.run import private_memory
from emu.tile.cpu.run.private_memory import find_private_range

MANY = 1 << 21  # updates: worth even reading all mappings
RNG = np.random.default_rng(11)


def shared_copy(x: np.ndarray) -> tuple[np.ndarray, mmap.mmap]:
    """Return a copy that other processes could see."""
    memory = mmap.mmap(-1, x.nbytes)
    copy = np.frombuffer(memory, x.dtype).reshape(x.shape)
    copy[:] = x
    return copy, memory


@pytest.fixture(params=["asked", "read"])
def how(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for one mapping, or, where the system cannot tell, read all."""
    if request.param == "read":

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOTTY, "no such request")

        monkeypatch.setattr(fcntl, "ioctl", refuse)


@pytest.mark.usefixtures("how")
def test_memory_of_this_process_alone_is_told_from_shared_memory() -> None:
    x = np.zeros(1 << 20, np.float32)
    low, high = find_private_range(x.ctypes.data, MANY)
    assert low <= x.ctypes.data
    assert x.ctypes.data + x.nbytes <= high
    copy, _memory = shared_copy(x)
    assert find_private_range(copy.ctypes.data, MANY) == (0, 0)
    assert find_private_range(8, MANY) == (0, 0)  # nothing lies there


@pytest.mark.usefixtures("how")
def test_memory_that_cannot_be_written_is_not_updated_in_place() -> None:
    with open(__file__, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    address = np.frombuffer(memory, np.uint8).ctypes.data
    assert find_private_range(address, MANY) == (0, 0)


def test_few_updates_are_not_worth_the_question() -> None:
    x = np.zeros(8)
    assert find_private_range(x.ctypes.data, private_memory.WORTH_LANES - 1) == (0, 0)


def test_a_forked_process_forgets_the_threads_that_it_does_not_have() -> None:
    words = (ctypes.c_int64 * 2).from_address(private_memory.LAUNCHES_ADDRESS)
    before = list(words)
    try:
        words[:] = [2, 4096]
        private_memory._forget_other_threads()
        assert words[1] == 0
        assert words[0] not in (0, 1)  # it cannot know that it is alone
    finally:
        words[:] = before


@triton.jit
def updates(values, places, out, olds, count, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    places = tl.load(places + at, mask=mask, other=0)
    value = tl.load(values + at, mask=mask, other=0)
    if KIND == "add":
        old = tl.atomic_add(out + places, value, mask=mask)
    elif KIND == "max":
        old = tl.atomic_max(out + places, value, mask=mask)
    elif KIND == "xor":
        old = tl.atomic_xor(out + places, value, mask=mask)
    else:
        old = tl.atomic_xchg(out + places, value, mask=mask)
    tl.store(olds + at, old, mask=mask)


@triton.jit
def increments(places, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(places + at), 1)


@triton.jit
def masked_updates(values, places, on, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    at = rows * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.atomic_add(out + tl.load(places + at), tl.load(values + at), mask=tl.load(on + at) != 0)


COUNT = (1 << 17) - 77


@pytest.mark.parametrize("size", [1, 7, 5000])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("add", np.float32),
        ("add", np.float16),
        ("add", np.int32),
        ("add", np.int64),
        ("max", np.float32),
        ("max", np.uint32),
        ("xor", np.int32),
        ("xchg", np.float32),
    ],
)
def test_updates_without_locks_have_the_bits_of_those_with(
    kind: str, dtype: Any, size: int
) -> None:
    values = (RNG.standard_normal(COUNT) * 99).astype(np.int64).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values = (RNG.standard_normal(COUNT) / 3).astype(dtype)
    places = RNG.integers(0, size, COUNT)
    found = []
    for shared in (False, True):
        out, olds = np.zeros(size, dtype), np.zeros(COUNT, dtype)
        memory = None
        if shared:
            out, memory = shared_copy(out)
        private = find_private_range(out.ctypes.data, MANY) != (0, 0)
        assert private is not shared
        updates[(-(-COUNT // 1024),)](
            values, places, out, olds, COUNT, KIND=kind, BLOCK=1024, num_threads=1
        )
        found.append((out.tobytes(), olds.tobytes()))
        del out, memory
    assert found[0] == found[1]
    if kind == "add" and np.dtype(dtype).kind == "i":
        wanted = np.zeros(size, dtype)
        np.add.at(wanted, places, values)
        assert wanted.tobytes() == found[0][0]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1024), (8, 128), (64, 16), (256, 4)])
def test_masked_updates_touch_nothing_else(rows: int, columns: int) -> None:
    """What the mask leaves out points anywhere; one program updates memory beyond what was found private."""
    count, size = 1 << 17, 500
    on = RNG.integers(0, 2, count).astype(np.int8)
    on[:2048] = 1
    values = RNG.integers(-9, 9, count).astype(np.int32)
    out = np.zeros(size, np.int32)
    far, memory = shared_copy(out)
    places = RNG.integers(0, size, count)
    distance = (far.ctypes.data - out.ctypes.data) // 4
    assert find_private_range(far.ctypes.data, MANY) == (0, 0)
    beyond = np.zeros(count, bool)
    beyond[5000:5010] = True
    on[beyond] = 1
    given = np.where(on == 1, places, RNG.integers(-(1 << 60), 1 << 60, count))
    given[beyond] += distance
    masked_updates[(count // 1024,)](
        values, given, on, out, ROWS=rows, COLUMNS=columns, num_threads=1
    )
    wanted = [np.zeros(size, np.int32) for _ in range(2)]
    for target, chosen in zip(wanted, (~beyond, beyond), strict=True):
        chosen &= on == 1
        np.add.at(target, places[chosen], values[chosen])
    assert out.tolist() == wanted[0].tolist()
    assert far.tolist() == wanted[1].tolist()
    del far, memory


def test_no_update_is_lost_when_threads_launch_at_once() -> None:
    count, launches, workers = 1 << 17, 12, 3
    places = RNG.integers(0, 64, count)
    out = np.zeros(64, np.int64)
    increments[(count // 1024,)](places, out, BLOCK=1024, num_threads=1)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(launches):
                increments[(count // 1024,)](places, out, BLOCK=1024, num_threads=1)
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    wanted = np.bincount(places, minlength=64) * (1 + launches * workers)
    np.testing.assert_array_equal(out, wanted)
    words = (ctypes.c_int64 * 2).from_address(private_memory.LAUNCHES_ADDRESS)
    assert list(words) == [0, 0]

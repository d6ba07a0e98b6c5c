"""Where the memory of tensors and arrays begins and ends."""

from __future__ import annotations

import collections
import functools
import gc
import mmap
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from emu.comm.world import current
from emu.triton.runtime.storages import Storage, find_storage, live_storages, merged


def _all_of(array: Any) -> Storage:
    return Storage(array.ctypes.data, array.ctypes.data + array.nbytes)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a[3:5],
        lambda a: a[::-2],
        lambda a: a.T[2:][1:],
        lambda a: a.reshape(-1)[7:8],
        lambda a: a[0, :].view(np.int32),
        lambda a: np.lib.stride_tricks.as_strided(a[4:], (2, 2), (8, 8)),
        lambda a: a[:0],
    ],
    ids=["whole", "rows", "reversed", "transposed", "flat", "as_int", "strided", "empty"],
)
def test_views_of_arrays_share_the_storage(view: Callable[[Any], Any]) -> None:
    array = np.zeros((10, 6), np.float32)
    assert find_storage(view(array)) == _all_of(array)
    columns = np.zeros((10, 6), np.float32, order="F")
    assert find_storage(columns[2:, 3:]) == _all_of(columns)


def test_buffers_of_other_objects_are_the_storage() -> None:
    buffer = bytearray(100)
    assert find_storage(np.frombuffer(buffer, np.int32, 5, offset=8)) == _all_of(
        np.frombuffer(buffer, np.uint8)
    )
    with mmap.mmap(-1, 4096) as mapped:
        part = np.frombuffer(mapped, np.int32, 5, offset=64)
        start = part.ctypes.data - 64
        assert find_storage(part) == Storage(start, start + 4096)
        del part


def test_tensors_share_the_storage_of_their_base() -> None:
    torch = pytest.importorskip("torch")
    base = torch.zeros(10, 10)
    wanted = Storage(base.data_ptr(), base.data_ptr() + 400)
    for view in (base, base[2:, 3], base.t(), base.view(torch.int32)[4], torch.nn.Parameter(base)):
        assert find_storage(view) == wanted
    assert find_storage(base.as_strided((2,), (1,), 50).numpy()) == wanted


def test_symmetric_arrays_end_where_their_allocation_ends(
    worlds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (me,) = worlds(1, heap_bytes=1 << 16)
    monkeypatch.setattr(current, "_current", me)
    array = me.alloc(10, np.int32)
    assert find_storage(array.local[3:]) == _all_of(array.local)
    other = np.zeros(3)
    assert find_storage(other) == _all_of(other)


def test_what_has_no_memory_has_no_storage() -> None:
    assert [find_storage(v) for v in (3, None, "x", object())] == [None] * 4


def test_arrays_and_tensors_that_can_be_reached_are_found() -> None:
    torch = pytest.importorskip("torch")
    held = {"array": np.zeros(7), "list": [np.zeros(9)]}
    tensor, local = torch.zeros(11), np.zeros(13)
    found = set(live_storages())
    for array in (held["array"], held["list"][0], tensor.numpy(), local):
        assert _all_of(array) in found


class _Plain:
    def __init__(self, array: Any) -> None:
        self.array = array


class _Slotted:
    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array


class _Named(NamedTuple):
    array: Any
    other: int = 0


def _closure(array: Any) -> Any:
    return lambda: array


def _generator(array: Any) -> Any:
    yield
    yield array


def _default(array: Any) -> Any:
    def function(a: Any = array) -> Any:
        return a

    return function


def _started(array: Any) -> Any:
    made = _generator(array)
    next(made)
    return made


_HOLDERS: dict[str, Callable[[Any], Any]] = {
    "attribute": _Plain,
    "slot": _Slotted,
    "named tuple": _Named,
    "closure": _closure,
    "generator": _started,
    "default": _default,
    "list": lambda a: [a],
    "tuple": lambda a: (a,),
    "nested tuple": lambda a: ((a, 1), 2),
    "dict": lambda a: {1: a},
    "nested dict": lambda a: {1: {2: a}},
    "deque": lambda a: collections.deque([a]),
    "mixed": lambda a: {1: [(a,)]},
    "array of objects": lambda a: np.array([a, None], object),
    "partial": lambda a: functools.partial(print, a),
    "view": lambda a: a[3:],
    "namespace": lambda a: SimpleNamespace(a=a),
    "iterator": lambda a: iter([a]),
}


def test_arrays_are_found_wherever_they_are_held() -> None:
    def make(hold: Callable[[Any], Any]) -> tuple[Any, Storage]:
        array = np.zeros(1000)
        return hold(array), _all_of(array)

    def hold_and_look() -> list[Storage]:
        made = {name: make(hold) for name, hold in _HOLDERS.items()}
        gc.collect()  # takes tuples and dictionaries of arrays alone out of the collector's sight
        found = set(live_storages())
        assert [name for name, (_, wanted) in made.items() if wanted not in found] == []
        return [wanted for _, wanted in made.values()]

    before = hold_and_look()
    gc.collect()
    assert not found_again(before)


def found_again(storages: list[Storage]) -> set[Storage]:
    """Return the storages that are still there."""
    return set(storages) & set(live_storages())


def test_variables_of_other_threads_are_found() -> None:
    ready, done = threading.Event(), threading.Event()
    found: list[Storage] = []

    def work() -> None:
        array = np.zeros(1000)
        found.append(_all_of(array))
        ready.set()
        done.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(60)
        assert found[0] in set(live_storages())
    finally:
        done.set()
        thread.join()


def test_symmetric_memory_of_each_pe_is_found(worlds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    me, other = worlds(2, heap_bytes=1 << 16)
    array, there = me.alloc(10, np.int32), other.alloc(10, np.int32)
    mine, theirs = _all_of(array.local), _all_of(there.local)
    monkeypatch.setattr(current, "_current", me)
    del there
    assert {mine, theirs} <= set(live_storages())


def test_overlapping_storages_become_one() -> None:
    pieces = [Storage(20, 30), Storage(0, 10), Storage(5, 12), Storage(12, 14), Storage(40, 40)]
    assert merged(pieces) == [Storage(0, 12), Storage(12, 14), Storage(20, 30)]


MAKERS = {
    "from_numpy": lambda torch, a: torch.from_numpy(a),
    "as_tensor": lambda torch, a: torch.as_tensor(a),
    "asarray": lambda torch, a: torch.asarray(a),
    "tensor of a view": lambda torch, a: torch.from_numpy(a)[2:].view(torch.int32),
    "frombuffer": lambda torch, a: torch.frombuffer(a, dtype=torch.float32, offset=8),
    "from_dlpack": lambda torch, a: torch.from_dlpack(a),
    "parameter": lambda torch, a: torch.nn.Parameter(torch.from_numpy(a)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_tensors_of_views_of_arrays_have_the_memory_of_the_array(
    make: Callable[[Any, Any], Any],
) -> None:
    torch = pytest.importorskip("torch")
    base = np.zeros((20, 5), np.float32)
    wanted = _all_of(base)
    tensor = make(torch, base[5:])
    del base  # the tensor alone keeps it
    assert find_storage(tensor) == wanted
    assert find_storage(tensor.detach()) == wanted


def test_tensors_of_buffers_have_the_memory_of_the_buffer() -> None:
    torch = pytest.importorskip("torch")
    buffer = bytearray(400)
    wanted = _all_of(np.frombuffer(buffer, np.uint8))
    assert find_storage(torch.frombuffer(buffer, dtype=torch.float32, offset=40)) == wanted
    inner = memoryview(buffer)[80:120]
    assert find_storage(torch.from_numpy(np.frombuffer(inner, np.float32))).end <= wanted.end


def test_memory_that_others_lend(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(100)
    wanted = Storage(tensor.data_ptr(), tensor.data_ptr() + 400)
    assert find_storage(torch.from_dlpack(tensor)) == wanted
    lent = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor[25:]))
    assert find_storage(lent) == Storage(wanted.start + 100, wanted.end)
    shared = torch.zeros(100).share_memory_()
    assert find_storage(shared) == Storage(shared.data_ptr(), shared.data_ptr() + 400)
    (tmp_path / "data").write_bytes(bytes(400))
    file = torch.from_file(str(tmp_path / "data"), size=100, dtype=torch.float32)
    assert find_storage(file).end - find_storage(file).start == 400
    jax = pytest.importorskip("jax")
    other = torch.from_dlpack(jax.numpy.zeros(100))
    assert find_storage(other) == Storage(other.data_ptr(), other.data_ptr() + 400)


def test_arrays_of_memory_that_torch_lends() -> None:
    torch = pytest.importorskip("torch")
    import emu.accelerator
    from emu.tile.cpu.run import live_blocks

    emu.accelerator.install()
    try:
        tensor = torch.zeros(100)
        wanted = Storage(tensor.data_ptr(), tensor.data_ptr() + 400)
        if wanted.start in live_blocks.addresses():
            assert find_storage(np.from_dlpack(tensor[25:])) == wanted
        assert find_storage(tensor[25:].numpy()) == wanted
    finally:
        emu.accelerator.uninstall()

"""Slots go back once all PEs have drained the kernel that used them."""

from __future__ import annotations

from types import SimpleNamespace

from emu.pypto.lifetimes import Lifetimes


class _Group:
    """A group whose PEs have drained the creates that a test says."""

    def __init__(self, drained: list[int]) -> None:
        self.drained = drained
        self.n_pes = len(drained)
        self.my_pe = 0
        self.asked: list[int] = []
        self.searches = 0
        self.freed: list[str] = []
        self.sets = [
            "shmem1.slots",
            "shmem2.slots",
            "shmem2.barrier",
            "shmem3.slots",
            "shmem4.slots",
            "",
        ]

    def alloc(self, *_: object, **__: object) -> object:
        return object()

    def signal_op(self, words: object, number: int, pe: int) -> None:
        self.drained[pe] = number

    def fetch(self, words: object, pe: int) -> int:
        self.asked.append(pe)
        return self.drained[pe]

    def find_allocs(self, prefix: str) -> list[SimpleNamespace]:
        self.searches += 1
        return [
            SimpleNamespace(name=name, offset=64, free=lambda name=name: self._free(name))
            for name in self.sets
        ]

    def _free(self, name: str) -> None:
        self.freed.append(name)
        self.sets.remove(name)


def _lifetimes(group: _Group, creates: int) -> Lifetimes:
    lifetimes = Lifetimes(group)  # type: ignore[arg-type]  # all that it needs of a group
    for number in range(1, creates + 1):
        lifetimes.retire(number)
    return lifetimes


def test_what_all_have_drained_goes_back_and_no_more():
    group = _Group([0, 2, 3])
    lifetimes = _lifetimes(group, 4)
    lifetimes.claimed |= {(64, 1), (128, 1)}
    lifetimes.collect()
    assert group.freed == ["shmem1.slots", "shmem2.slots", "shmem2.barrier"]
    assert group.searches == 1
    assert lifetimes.claimed == {(128, 1)}
    group.drained[1] = 4
    lifetimes.collect()
    assert group.freed[3:] == ["shmem3.slots"]


def test_a_pe_that_has_not_drained_is_asked_first_the_next_time():
    group = _Group([0, 5, 0, 5])
    lifetimes = _lifetimes(group, 1)
    lifetimes.collect()
    assert group.asked == [0, 1, 2]
    group.asked.clear()
    lifetimes.collect()
    assert (group.asked, group.freed) == ([2], [])
    group.drained[2] = 1
    lifetimes.collect()
    assert group.freed == ["shmem1.slots"]

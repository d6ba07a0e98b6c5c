"""Arguments of ``emu.launch`` are checked before anything starts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import emu
from emu.comm.errors import (
    ArgumentError,
)
from emu.comm.memory.segment import Segment


def my_number() -> int:
    return emu.world().my_pe


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("n_pes", "2", "an integer in"),
        ("n_pes", None, "an integer in"),
        ("n_pes", np.ones(2, np.int64), "an integer in"),
        ("timeout", "a", "positive"),
        ("timeout", True, "positive"),
        ("timeout", 1j, "positive"),
        ("timeout", [], "positive"),
        ("timeout", -1.0, "positive"),
        ("heap_size", "1", "in"),
        ("heap_size", 1.5, "in"),
        ("heap_size", None, "in"),
        ("heap_size", True, "in"),
        ("heap_size", (1 << 42) + 1, "in"),
        ("args", 5, "a sequence"),
        ("args", "ab", "a sequence"),
        ("args", {"a": 1}, "a sequence"),
        ("args", itertools.count(), "a sequence"),
        ("args", np.array(1), "a sequence"),
        ("kwargs", 3, "a mapping"),
        ("kwargs", [("a", 1)], "a mapping"),
        ("kwargs", {1: 2}, "a mapping"),
        ("preload", 7, "a sequence of module names"),
        ("preload", "torch", "a sequence of module names"),
        ("preload", (1,), "a sequence of module names"),
        ("prefix_output", "x", "True or False"),
        ("poison", 1, "True or False"),
        ("transport", "tcp", "'shm' or 'mpi'"),
        ("transport", None, "'shm' or 'mpi'"),
        ("transport", ["mpi"], "'shm' or 'mpi'"),
        ("link", 3, "an emu.Link or None"),
        ("options", 3, "an emu.LaunchOptions or None"),
        ("fn", 3, "callable"),
    ],
)
def test_a_bad_argument_is_refused_before_anything_starts(
    name: str, value: object, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a segment was made")

    monkeypatch.setattr(Segment, "create", never)
    arguments: dict[str, object] = {"fn": my_number, "n_pes": 1, name: value}
    with pytest.raises(ArgumentError) as caught:
        emu.launch(**arguments)  # type: ignore[arg-type] # the mistake under test
    assert str(caught.value).startswith(f"{name} must be {rule}")
    assert "but got" in str(caught.value)


def test_numpy_numbers_are_numbers() -> None:
    numbers = {"timeout": np.float32(9), "heap_size": np.int64(1 << 20), "poison": np.bool_(False)}
    assert emu.launch(my_number, np.int32(2), **numbers) == [0, 1]  # type: ignore[arg-type] # NumPy scalars

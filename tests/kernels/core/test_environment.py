"""Environment variables: what counts as unset, and what is refused."""

from __future__ import annotations

import os

import pytest

from emu.kernels.core import environment

COUNTS = {"EMU_DEVICES": environment.device_count, "EMU_THREADS": environment.thread_count}


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_a_whole_number_of_at_least_one(monkeypatch, name):
    monkeypatch.delenv(name, raising=False)
    assert COUNTS[name]() is None
    monkeypatch.setenv(name, "12")
    assert COUNTS[name]() == 12
    for wrong in ("", "0", "-1", "2.0", "many"):
        monkeypatch.setenv(name, wrong)
        with pytest.raises(
            ValueError, match=f"{name} must be a whole number of at least 1"
        ) as caught:
            COUNTS[name]()
        assert repr(wrong) in str(caught.value)


def test_the_compute_capability_is_two_numbers_with_a_point(monkeypatch):
    for text, expected in (("", (8, 0)), ("9.0", (9, 0)), ("12.1", (12, 1))):
        monkeypatch.setenv("EMU_CUDA_CAPABILITY", text)
        assert environment.cuda_capability() == expected
    for wrong in ("9", "90", "9.", ".0", "9.10", "-9.0", "sm_90"):
        monkeypatch.setenv("EMU_CUDA_CAPABILITY", wrong)
        with pytest.raises(ValueError, match=f"EMU_CUDA_CAPABILITY must be .*{wrong!r}"):
            environment.cuda_capability()


@pytest.mark.parametrize(
    ("text", "count"), [("3", 3), ("0", None), ("", None), ("x", None), ("-2", None)]
)
def test_a_bad_number_of_numbas_threads_is_left_to_numba(monkeypatch, text, count):
    monkeypatch.setenv("NUMBA_NUM_THREADS", text)
    assert environment.numba_thread_count() == count


def test_folders_that_are_empty_or_relative_where_they_must_not_be_count_as_unset(monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert environment.cache_folder() is None
    assert environment.user_cache_folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "/absolute")
    assert environment.user_cache_folder() == "/absolute"


def test_usable_cores_are_those_that_the_process_may_run_on(monkeypatch):
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7})
        assert environment.usable_cores() == 2
        monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert environment.usable_cores() == 1

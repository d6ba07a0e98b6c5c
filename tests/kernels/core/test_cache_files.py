"""Files of compiled code: written whole, checked when read, removed when nobody uses them."""

from __future__ import annotations

import os
import threading
import time

import pytest

from emu.kernels.core import cache_files, cache_folder

DIGEST = "0" * 32


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path / "cache"))
    cache_folder._known.cache_clear()
    yield tmp_path / "cache"
    cache_folder._known.cache_clear()


def test_a_damaged_entry_counts_as_absent():
    path = cache_files.store_checked(DIGEST, "a", b"machine code")
    assert cache_files.read_checked(path) == b"machine code"
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:10], whole[:-1] + b"X", b"\0" * len(whole)):
        path.write_bytes(damaged)
        assert cache_files.read_checked(path) is None
    assert cache_files.read_checked(None) is None
    assert cache_files.read_checked(path.with_name("other")) is None


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "entry"
    cache_files.write(path, b"old")

    def fail(*_):
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        cache_files.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["entry"]


def test_only_folders_of_other_versions_that_nobody_uses_are_removed(tmp_path):
    ages = {"1" * 32: 31, "2" * 32: 29, "3" * 32: 31, "notes": 400}
    for name, days in ages.items():
        (tmp_path / name).mkdir()
        then = time.time() - days * 24 * 3600
        os.utime(tmp_path / name, (then, then))
    cache_files.keep_tidy(tmp_path / ("3" * 32))  # in use now
    assert sorted(each.name for each in tmp_path.iterdir()) == ["2" * 32, "3" * 32, "notes"]


def test_an_edit_of_a_source_or_another_version_gives_another_digest(tmp_path):
    for room in ("one", "two"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "a.py").write_text("x = 1\n")
    before = cache_files.source_digest(tmp_path, ("one",), "1.0")
    (tmp_path / "two" / "a.py").write_text("x = 2\n")
    (tmp_path / "one" / "notes.txt").write_text("not a source")
    assert cache_files.source_digest(tmp_path, ("one",), "1.0") == before
    assert cache_files.source_digest(tmp_path, ("one",), "1.1") != before
    (tmp_path / "one" / "a.py").write_text("x = 2\n")
    assert cache_files.source_digest(tmp_path, ("one",), "1.0") != before


def test_a_listener_that_is_ignored_is_told_nothing_more(monkeypatch):
    calls, ignored = [], []

    def forgotten(*call):
        ignored.append(call)

    monkeypatch.setattr(cache_files, "_listeners", [])
    cache_files.listen(lambda *call: calls.append(call))
    cache_files.listen(forgotten)
    cache_files.ignore(forgotten)
    with cache_files.alone(DIGEST, "lock", "kernel"):
        pass
    assert calls == [(True, "kernel"), (False, "kernel")]
    assert not ignored


def test_who_compiles_the_same_waits_and_listeners_are_told(monkeypatch):
    calls, order = [], []
    monkeypatch.setattr(cache_files, "_listeners", [])
    cache_files.listen(lambda begins, kernel: calls.append((begins, kernel)))
    entered, leave = threading.Event(), threading.Event()

    def first():
        with cache_files.alone(DIGEST, "lock", "first"):
            entered.set()
            leave.wait(30)
            order.append("first")

    def second():
        with cache_files.alone(DIGEST, "lock", "second"):
            order.append("second")

    threads = [threading.Thread(target=work) for work in (first, second)]
    threads[0].start()
    assert entered.wait(30)
    threads[1].start()
    time.sleep(0.1)
    leave.set()
    for thread in threads:
        thread.join()
    assert order == ["first", "second"]
    assert sorted(calls) == [(False, "first"), (False, "second"), (True, "first"), (True, "second")]

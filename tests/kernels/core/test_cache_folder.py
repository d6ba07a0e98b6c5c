"""Where compiled code is kept, which folders are trusted, and what happens where nothing can be written."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from emu.kernels.core import cache_files, cache_folder
from emu.kernels.errors import CacheFolderError, CacheWarning

DIGEST = "0" * 32
MINE = os.geteuid()


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """No folder is known, nothing was said, and the temporary folder of the run is another."""
    cache_folder._known.cache_clear()
    cache_folder._places.cache_clear()
    monkeypatch.setattr(cache_folder, "_said", [])
    monkeypatch.setattr(cache_folder, "_RUN", f"emu-kernels-{tmp_path.name}")
    yield
    for place in cache_folder._places():
        shutil.rmtree(place, ignore_errors=True)
    cache_folder._places.cache_clear()
    cache_folder._known.cache_clear()


@pytest.fixture
def cache(monkeypatch, tmp_path):
    folder = tmp_path / "new" / "cache"
    folder.parent.mkdir()
    monkeypatch.setenv("EMU_CACHE_DIR", str(folder))
    return folder


# --- which folder --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "xdg", "expected"),
    [
        ("/somewhere", "/xdg", "/somewhere"),
        ("", "/xdg", "/xdg/emu"),
        (None, "/xdg", "/xdg/emu"),
        (None, "", "/home/me/.cache/emu"),
        ("", "", "/home/me/.cache/emu"),
        (None, "relative", "/home/me/.cache/emu"),
        (None, None, "/home/me/.cache/emu"),
    ],
)
def test_an_empty_variable_counts_as_unset(monkeypatch, given, xdg, expected):
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in (("EMU_CACHE_DIR", given), ("XDG_CACHE_HOME", xdg)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert cache_folder.base() == Path(expected)


def test_a_relative_folder_is_below_the_current_one(monkeypatch, tmp_path):
    monkeypatch.setenv("EMU_CACHE_DIR", "here")
    monkeypatch.chdir(tmp_path)
    assert cache_folder.base() == tmp_path / "here"


def test_what_is_stored_is_found_in_folders_that_only_the_user_can_enter(cache):
    cache.parent.rmdir()
    before = os.umask(0)
    try:
        path = cache_files.store(DIGEST, "a", b"code")
    finally:
        os.umask(before)
    assert path == cache / DIGEST / "a"
    assert cache_files.read(DIGEST, "a") == b"code"
    assert cache_files.read(DIGEST, "b") is None
    for folder in (cache.parent, cache, cache / DIGEST):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [p.name for p in (cache / DIGEST).iterdir()] == ["a"]


# --- which folders are trusted -------------------------------------------------------------


def uses():
    """Return every way to touch the cache."""
    return [
        cache_folder.check,
        lambda: cache_files.find(DIGEST, "a"),
        lambda: cache_files.read(DIGEST, "a"),
        lambda: cache_files.store(DIGEST, "a", b"code"),
        lambda: cache_files.alone(DIGEST, "lock", "kernel").__enter__(),
    ]


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o1777, 0o720])
@pytest.mark.parametrize("use", range(5))
def test_a_folder_that_others_can_write_into_is_refused(cache, mode, use):
    cache.mkdir()
    cache.chmod(mode)
    with pytest.raises(CacheFolderError) as caught:
        uses()[use]()
    text = str(caught.value)
    assert f"{cache} belongs to" in text
    assert f"(user {MINE})" in text
    assert f"mode {mode:04o}" in text
    assert f"chmod -R go-w {cache}" in text
    assert list(cache.iterdir()) == []
    cache.chmod(0o755)
    uses()[use]()  # the remedy helps


@pytest.mark.parametrize("use", range(1, 5))
def test_an_inner_folder_that_others_can_write_into_is_refused(cache, use):
    cache_files.store(DIGEST, "a", b"code")
    cache_folder._known.cache_clear()
    (cache / DIGEST).chmod(0o775)
    with pytest.raises(CacheFolderError, match=f"{DIGEST} belongs to"):
        uses()[use]()


def test_a_folder_of_another_user_is_refused(cache, monkeypatch):
    cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: MINE + 4321)
    if MINE == 0:  # a folder of root is trusted by all
        cache_folder.check()
        os.chown(cache, 4322, -1)
        cache_folder._known.cache_clear()
    with pytest.raises(CacheFolderError, match="set EMU_CACHE_DIR to a folder of your own"):
        cache_folder.check()


@pytest.mark.skipif(MINE != 0, reason="only root can give a folder away")
def test_root_does_not_trust_the_folder_of_a_user(cache):
    cache.mkdir(mode=0o700)
    os.chown(cache, 4321, -1)
    with pytest.raises(CacheFolderError, match="belongs to user 4321 and has mode 0700"):
        cache_folder.check()


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize(
    ("mode", "trusted"), [(0o777, False), (0o757, False), (0o1777, True), (0o755, True)]
)
def test_a_folder_that_others_could_replace_is_refused(tmp_path, monkeypatch, mode, trusted, made):
    parent = tmp_path / "shared"
    parent.mkdir()
    if made:
        (parent / "cache").mkdir(mode=0o700)
    parent.chmod(mode)
    monkeypatch.setenv("EMU_CACHE_DIR", str(parent / "cache"))
    if trusted:
        cache_folder.check()
        cache_files.store(DIGEST, "a", b"code")
        return
    with pytest.raises(CacheFolderError, match=f"be able to replace .* but {parent} belongs to"):
        cache_folder.check()
    with pytest.raises(CacheFolderError):
        cache_files.store(DIGEST, "a", b"code")


def test_a_parent_of_the_users_own_group_is_trusted(tmp_path, monkeypatch):
    """Where each user has a group of their own, new folders are writable by that group."""
    parent = tmp_path / "mine"
    parent.mkdir()
    parent.chmod(0o775)
    monkeypatch.setenv("EMU_CACHE_DIR", str(parent / "cache"))
    monkeypatch.setattr(cache_folder, "_is_private", lambda group: True)
    cache_folder.check()
    cache_folder._known.cache_clear()
    monkeypatch.setattr(cache_folder, "_is_private", lambda group: False)
    with pytest.raises(CacheFolderError, match="chmod go-w"):
        cache_folder.check()


def test_a_link_is_followed_once_and_its_target_checked(tmp_path, monkeypatch):
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(target)
    monkeypatch.setenv("EMU_CACHE_DIR", str(link))
    assert cache_files.store(DIGEST, "a", b"code") == target / DIGEST / "a"
    other = tmp_path / "other"
    other.mkdir()
    other.chmod(0o777)
    link.unlink()
    link.symlink_to(other)
    assert cache_files.read(DIGEST, "a") == b"code"  # the path that was checked
    cache_folder._known.cache_clear()
    with pytest.raises(CacheFolderError, match=str(other)):
        cache_files.read(DIGEST, "a")


# --- where nothing can be written ----------------------------------------------------------


@pytest.fixture
def said():
    """The warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def refuse_below(monkeypatch, *folders, code=errno.ENOSPC):
    """Have every write below these folders fail as on a full disk."""
    write, calls = cache_files.write, []

    def fail(path, content):
        if any(folder in path.parents for folder in folders):
            calls.append(path)
            raise OSError(code, os.strerror(code))
        write(path, content)

    monkeypatch.setattr(cache_files, "write", fail)
    return calls


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_full_disk_costs_a_warning_and_a_temporary_folder(cache, monkeypatch, said, code):
    calls = refuse_below(monkeypatch, cache, code=code)
    first = cache_files.store(DIGEST, "a", b"one")
    second = cache_files.store(DIGEST, "b", b"two")
    assert [warning.category for warning in said] == [CacheWarning]
    assert f"{cache} cannot be written ({os.strerror(code)})" in str(said[0].message)
    assert first.parents[1] == second.parents[1] == cache_folder._places()[0]
    assert stat.S_IMODE(first.parents[1].stat().st_mode) == 0o700
    assert cache_files.read(DIGEST, "a") == b"one"
    assert len(calls) == 2


def test_the_next_place_is_taken_where_the_temporary_folder_is_full_too(cache, monkeypatch, said):
    places = cache_folder._places()
    refuse_below(monkeypatch, cache, places[0])
    path = cache_files.store(DIGEST, "a", b"one")
    assert [warning.category for warning in said] == [CacheWarning]
    if len(places) > 1:
        assert places[1] in path.parents
        assert cache_files.read(DIGEST, "a") == b"one"


def test_where_nothing_can_be_written_at_all_nothing_is_kept(cache, monkeypatch, said):
    refuse_below(monkeypatch, cache, *cache_folder._places())
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(OSError("no room")))
    assert cache_files.store(DIGEST, "a", b"one") is None
    with cache_files.alone(DIGEST, "lock", "kernel"):
        assert cache_files.store(DIGEST, "a", b"one") is None
    assert [warning.category for warning in said] == [CacheWarning]
    assert cache_files.read(DIGEST, "a") is None


def test_a_folder_of_root_that_the_user_cannot_write_is_read(cache, monkeypatch):
    cache_files.store(DIGEST, "a", b"code")
    refuse_below(monkeypatch, cache, code=errno.EACCES)
    assert cache_files.read(DIGEST, "a") == b"code"  # and no warning, which would be an error


PROGRAM = """
import numpy as np
from emu.kernels.stream import stream_bytes
a, b = np.zeros(512, np.uint8), np.ones(512, np.uint8)
stream_bytes(a.ctypes.data, b.ctypes.data, 512)
from emu.kernels.core import cache_folder
print(a.sum(), len(list(cache_folder._places()[0].rglob("*.nbc"))) > 0, cache_folder._places()[0])
"""


def test_the_temporary_folder_is_removed_at_the_end(tmp_path):
    """In a process of its own, with a file where the cache should be."""
    (tmp_path / "file").touch()
    environment = {**os.environ, "EMU_CACHE_DIR": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    total, kept, place = done.stdout.split()
    assert (total, kept) == ("512", "True")
    assert Path(place).parent == tmp_path
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]
    assert done.stderr.count("CacheWarning: the folder of compiled kernels") == 1

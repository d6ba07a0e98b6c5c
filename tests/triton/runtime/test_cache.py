"""Compiled kernels on disk."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

from emu.kernels.errors import CacheWarning
from emu.triton.runtime import cache

DAY = 24 * 3600


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path))
    return cache.folder()


def test_what_was_saved_is_loaded(folder):
    assert cache.load("key") is None
    cache.save("key", {"stores": [True, False]}, b"code\n\x00")
    assert cache.load("key") == ({"stores": [True, False]}, b"code\n\x00")
    assert {p.name for p in folder.iterdir()} == {"key.kernel", "swept"}


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + b"x" + b[41:]],
    ids=["cut", "empty", "changed"],
)
def test_a_damaged_entry_counts_as_none(folder, damage):
    cache.save("key", {}, b"some code that is long enough")
    path = folder / "key.kernel"
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load("key") is None


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(CacheWarning, match="cannot be written"), cache.alone("key"):
        cache.save("key", {}, b"code")
    assert cache.load("key") == ({}, b"code")  # until the end of the program


def age(path, days):
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def test_what_is_unused_for_30_days_is_removed(folder):
    for key in ("old", "used"):
        cache.save(key, {}, b"")
        age(folder / f"{key}.kernel", 31)
    other = folder.with_name("0" * 32)
    recent = folder.with_name("1" * 32)
    unknown = folder.with_name("notes")
    for path in (other, recent, unknown):
        path.mkdir()
    age(other, 31)
    age(unknown, 31)
    cache.load("used")
    cache.save("new", {}, b"")
    assert cache.load("old") is not None  # it was looked for what is old today already
    age(folder / "old.kernel", 31)
    age(folder / "swept", 2)
    cache.save("newer", {}, b"")
    assert cache.load("old") is None
    assert cache.load("used") is not None
    assert not other.exists()
    assert recent.exists()
    assert unknown.exists()


def test_sources_and_versions_name_the_folder(folder):
    assert folder.name == cache.sources_digest()
    assert len(folder.name) == 32


KERNEL = """
import sys
import numpy as np
from emu import triton
import emu.triton.language as tl

@triton.jit
def scale(y_ptr, factor, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(y_ptr + offsets) * factor{change})

y = np.arange(8, dtype=np.float32)
kernel = scale[(1,)](y, 3.0, BLOCK={block})
print(kernel.from_disk, y.sum())
"""


def run(tmp_path, change="", block=8):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(KERNEL.format(change=change, block=block)))
    environment = os.environ | {"EMU_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.strip()


def test_a_second_process_loads_what_the_first_compiled(tmp_path):
    assert run(tmp_path) == "False 84.0"
    assert run(tmp_path) == "True 84.0"
    assert run(tmp_path, block=4) == "False 40.0"
    assert run(tmp_path, change=" + 1") == "False 92.0"
    assert run(tmp_path) == "True 84.0"


def test_a_damaged_file_is_compiled_again(tmp_path):
    run(tmp_path)
    (path,) = (tmp_path / "cache").rglob("*.kernel")
    path.write_bytes(path.read_bytes()[:-7])
    assert run(tmp_path) == "False 84.0"
    assert run(tmp_path) == "True 84.0"

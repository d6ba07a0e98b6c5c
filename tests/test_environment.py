"""The environment variables of the package: what each function returns, and that no other module reads them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import emu
from emu.kernels.core import environment


@pytest.mark.parametrize(
    ("name", "read"),
    [("EMU_DEVICES", environment.device_count), ("EMU_THREADS", environment.thread_count)],
)
def test_counts(name: str, read: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(read)
    monkeypatch.delenv(name, raising=False)
    assert read() is None
    monkeypatch.setenv(name, "3")
    assert read() == 3
    for text in ("", "0", "-1", "2.5", "many"):
        monkeypatch.setenv(name, text)
        with pytest.raises(
            ValueError, match=f"{name} must be a whole number of at least 1, but got '{text}'"
        ):
            read()


def test_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert environment.cache_folder() is None
    assert environment.user_cache_folder() is None
    monkeypatch.setenv("EMU_CACHE_DIR", "here")
    monkeypatch.setenv("XDG_CACHE_HOME", "/there")
    assert environment.cache_folder() == "here"
    assert environment.user_cache_folder() == "/there"


def test_threads_of_numba_and_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, threads in (("2", 2), ("0", None), ("x", None)):
        monkeypatch.setenv("NUMBA_NUM_THREADS", text)
        assert environment.numba_thread_count() == threads
    monkeypatch.delenv("EMU_TRITON_BACKEND", raising=False)
    assert environment.triton_backend() is None
    assert 1 <= environment.usable_cores() <= (os.cpu_count() or 1)


def test_no_other_module_reads_them() -> None:
    assert emu.__file__ is not None
    root = Path(emu.__file__).parent
    read = re.compile(r"""(environ(\.get\(|\[)|getenv\()\s*["']EMU_""")
    files = [
        file for room in (root, root / "kernels", root / "comm") for file in room.rglob("*.py")
    ]
    found = {file.name for file in files if read.search(file.read_text())}
    assert found <= {"environment.py"}


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        ("streams", True),
        ("bounds, streams", True),
        ("bounds", False),
        ("streamsets", False),
        ("", False),
    ],
)
def test_streams_among_the_checks(
    text: str, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMU_CHECK", text)
    assert environment.checks_streams() == checked
    monkeypatch.delenv("EMU_CHECK")
    assert not environment.checks_streams()

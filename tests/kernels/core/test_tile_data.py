"""Linux's permission for tile registers: granted once, inherited, and refused without harm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from emu.kernels.core import system, tile_data
from emu.kernels.gemm.arguments import has_amx

PRODUCT = """
import numpy as np
from emu.kernels.matmul import matmul
from emu.kernels.core.tile_data import is_permitted
from emu.kernels.gemm.arguments import has_amx

def check():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (40, 70), np.int8), rng.integers(-128, 128, (70, 50), np.int8)
    assert (matmul(a, b) == a.astype(np.int64) @ b.astype(np.int64)).all()
"""

needs_amx = pytest.mark.skipif(
    not has_amx(), reason="this CPU has no AMX, or this process may not use it"
)


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRODUCT + code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_it_is_asked_for_where_there_is_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "LINUX", False)
    assert not tile_data.is_permitted.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(tile_data.platform, "machine", lambda: "aarch64")
    assert not tile_data.is_permitted.__wrapped__()


@needs_amx
def test_a_fork_and_a_thread_have_it_too() -> None:
    code = """
import os, threading
assert is_permitted()
seen = []
thread = threading.Thread(target=lambda: (check(), seen.append(1)))
thread.start(); thread.join()
child = os.fork()
if child == 0:
    check(); os._exit(7)
print(seen, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(code) == "[1] 7"


@needs_amx
def test_a_refusal_changes_no_result() -> None:
    """Linux refuses while a thread's stack for signals is too small for the registers."""
    code = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
room = ctypes.create_string_buffer(4096)
given = Stack(ctypes.addressof(room), 0, len(room))
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(given), None) == 0
check()
print(is_permitted(), has_amx())
"""
    assert run(code) == "False False"

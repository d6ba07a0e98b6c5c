"""A kernel that crashes is named, with its program and arguments, before the process ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import triton

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="signals are handled on Linux")


@triton.jit
def follow(x_ptr, table_ptr, n, wide: tl.int64, scale, BLOCK: tl.constexpr):
    p = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.load(p) * scale + n + wide)


def crash(threads: int = 1) -> None:
    x = np.zeros(4, np.float32)
    table = np.full(6, x.ctypes.data, np.int64)
    follow[(3, 2)](x, table, -7, 2**40, 0.5, BLOCK=4, num_threads=threads)  # all is well
    table[4] = 0x1238
    follow[(5, 1)](x, table, -7, 2**40, 0.5, BLOCK=4, num_threads=threads)


def run(program: str) -> subprocess.CompletedProcess[str]:
    head = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", head + program],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


IMPORT = "from test_crashes import crash\n"


def check(text: str, address: str = "0x1238") -> None:
    assert f"emu: SIGSEGV at address {address} in kernel follow ({__file__}:" in text
    assert "program (4, 0, 0) of (5, 1, 1)" in text
    assert "  x_ptr: ptr<f32> = 0x" in text
    assert "  table_ptr: ptr<i64> = 0x" in text
    pattern = r"x_ptr: ptr<f32> = 0x([0-9a-f]+), from which the address is ([-0-9?]+) bytes away "
    pattern += r"\(size of its memory: [0-9?]+ bytes\)\n"
    found = re.search(pattern, text)
    assert found is not None
    known = address != "0x?"
    assert found[2] == (str(int(address, 16) - int(found[1], 16)) if known else "?")
    assert "EMU_CHECK=bounds" in text
    assert "  n: i32 = -7\n" in text
    assert f"  wide: i64 = {2**40}\n" in text
    assert "  scale: f32 = 0x3f000000\n" in text


@linux_only
@pytest.mark.parametrize("threads", [1, 2])
def test_a_crash_names_the_kernel_its_program_and_arguments(threads: int) -> None:
    ended = run(
        f"from emu.tile.cpu.run import pool\npool.WORTH_THREADS_NS = 0\n{IMPORT}crash({threads})"
    )
    assert ended.returncode == -signal.SIGSEGV
    check(ended.stderr)


@linux_only
def test_faulthandler_is_called_after_or_before() -> None:
    first = run(f"import faulthandler; faulthandler.enable()\n{IMPORT}crash()")
    check(first.stderr)
    assert "Fatal Python error: Segmentation fault" in first.stderr
    later = "x = np.zeros(4, np.float32); t = np.full(1, x.ctypes.data, np.int64)\n"
    later += "follow[(1,)](x, t, 1, 2, 0.5, BLOCK=4)\nimport faulthandler; faulthandler.enable()\n"
    second = run(f"import numpy as np\nfrom test_crashes import follow\n{later}{IMPORT}crash()")
    check(second.stderr, "0x?")  # faulthandler has sent the signal again, without its address
    assert "Fatal Python error: Segmentation fault" in second.stderr
    assert first.returncode == second.returncode == -signal.SIGSEGV


OWN = """
import ctypes, os
@ctypes.CFUNCTYPE(None, ctypes.c_int)
def handler(number):
    os.write(2, b"own handler\\n")
    os._exit(7)
ctypes.CDLL(None).signal(11, handler)
"""


@linux_only
def test_a_handler_that_the_program_has_set_before_is_called() -> None:
    ended = run(OWN + IMPORT + "crash()")
    check(ended.stderr)
    assert ended.stderr.endswith("own handler\n")
    assert ended.returncode == 7


@linux_only
def test_a_handler_that_the_program_sets_later_stays() -> None:
    first = "import test_crashes, numpy as np\nx = np.zeros(4, np.float32)\n"
    first += "t = np.full(1, x.ctypes.data, np.int64)\n"
    first += "test_crashes.follow[(1,)](x, t, 1, 2, 0.5, BLOCK=4)\n"
    ended = run(first + OWN + IMPORT + "crash()")
    assert ended.stderr == "own handler\n"


@linux_only
def test_a_crash_elsewhere_is_not_a_kernels() -> None:
    launch = "import test_crashes, numpy as np\nx = np.zeros(4, np.float32)\n"
    launch += "t = np.full(1, x.ctypes.data, np.int64)\n"
    launch += "test_crashes.follow[(1,)](x, t, 1, 2, 0.5, BLOCK=4)\n"
    for crash_ in ("import ctypes; ctypes.string_at(8)", "import os; os.kill(os.getpid(), 11)"):
        ended = run(launch + crash_)
        assert (ended.returncode, ended.stderr) == (-signal.SIGSEGV, "")


def _crash_on_one() -> None:
    if emu.world().my_pe == 1:
        crash()
    emu.world().barrier()


@linux_only
def test_a_pe_that_crashes_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(_crash_on_one, 2)
    assert "was killed by SIGSEGV" in str(caught.value.exceptions[0])
    said = capfd.readouterr().err.replace("[1] ", "")
    check(said)

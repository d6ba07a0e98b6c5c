"""A kernel that touches memory that is not there raises an error with its line and the nearest tensor."""

from __future__ import annotations

import ctypes
import linecache
import mmap
import pickle
import platform
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import triton
from emu.tile.cpu.run import pool, private_memory
from emu.tile.cpu.run.faults import ProgramFaultError

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


def check_text(text: str, address: str = "0x?") -> None:
    """Check what native code writes when the process must end."""
    assert f"emu: SIGSEGV at address {address} in kernel follow ({__file__}:" in text
    assert "program (4, 0, 0) of (5, 1, 1)" in text
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


def check_report(text: str) -> None:
    """Check what the error says."""
    place, verb = re.escape(__file__), "read of" if platform.machine() == "x86_64" else "access to"
    pattern = rf"{place}:\d+:43: in follow:\n.*tl.load\(p\).*\n *\^\n"
    pattern += r"SIGSEGV in kernel follow, program \(4, 0, 0\) of \(5, 1, 1\): "
    pattern += rf"{verb} address 0x1238\n  no tensor is near\n"
    assert re.search(pattern, text), text
    assert "  n: i32 = -7\n" in text
    assert "EMU_CHECK=bounds" in text


@linux_only
@pytest.mark.parametrize("threads", [1, 2])
def test_a_fault_is_an_error_that_names_the_kernel_its_program_and_line(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WORTH_THREADS_NS", 0)
    for _ in range(3):  # the process and its threads go on
        with pytest.raises(ProgramFaultError) as caught:
            crash(threads)
        check_report(str(caught.value))
        assert (caught.value.address, caught.value.program) == (0x1238, (4, 0, 0))
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@linux_only
def test_a_script_ends_with_the_traceback_of_the_launch() -> None:
    ended = run(f"import faulthandler; faulthandler.enable()\n{IMPORT}crash()")
    assert ended.returncode == 1
    assert "Fatal Python error" not in ended.stderr
    assert "follow[(5, 1)](x, table" in ended.stderr
    check_report(ended.stderr)


@linux_only
def test_faulthandler_that_is_enabled_later_ends_the_process() -> None:
    later = "x = np.zeros(4, np.float32); t = np.full(1, x.ctypes.data, np.int64)\n"
    later += "follow[(1,)](x, t, 1, 2, 0.5, BLOCK=4)\nimport faulthandler; faulthandler.enable()\n"
    ended = run(f"import numpy as np\nfrom test_crashes import follow\n{later}{IMPORT}crash()")
    check_text(ended.stderr)  # faulthandler has sent the signal again, without its address
    assert "Fatal Python error: Segmentation fault" in ended.stderr
    assert ended.returncode == -signal.SIGSEGV


@linux_only
def test_a_crash_of_the_report_ends_the_process_with_a_text() -> None:
    broken = "import ctypes\nfrom emu.tile.cpu.run import faults\n"
    broken += "faults._find_location = lambda *_: ctypes.string_at(8)\n"
    ended = run(f"{broken}{IMPORT}crash()")
    assert ended.returncode == -signal.SIGSEGV
    check_text(ended.stderr, "0x1238")


OWN = """
import ctypes, os
@ctypes.CFUNCTYPE(None, ctypes.c_int)
def handler(number):
    os.write(2, b"own handler\\n")
    os._exit(7)
ctypes.CDLL(None).signal(11, handler)
"""


@linux_only
def test_a_handler_that_the_program_has_set_before_is_called_for_other_crashes() -> None:
    ended = run(f"{OWN}{IMPORT}try:\n    crash()\nexcept RuntimeError:\n    ctypes.string_at(8)")
    assert ended.stderr == "own handler\n"
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
def test_a_pe_whose_kernel_faults_raises_the_error() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(_crash_on_one, 2)
    assert any("SIGSEGV in kernel follow" in str(e) for e in caught.value.exceptions)


@pytest.fixture
def edge() -> Iterator[np.ndarray[Any, Any]]:
    """Return 1024 numbers behind which is no memory."""
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.float32)
    start = whole.ctypes.data
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0)
    yield whole[mmap.PAGESIZE // 4 - 1024 : mmap.PAGESIZE // 4]
    assert not libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 3)


@triton.jit
def store_blocks(x_ptr, n, BLOCK: tl.constexpr):
    for block in range(n):
        i = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + i, i.to(tl.float32))


@triton.jit(noinline=True)
def read_one(pointer):
    return tl.load(pointer)


@triton.jit
def read_far(x_ptr, out_ptr, at):
    tl.store(out_ptr, read_one(x_ptr + at))


@triton.jit
def scatter(x_ptr, step, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK) * step
    tl.store(x_ptr + i, 1.0, mask=i != 5)


@triton.jit
def count(x_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)


@triton.jit
def multiply(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    product = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at))
    tl.store(c_ptr + at, product)


def fault(launch: Callable[[], object]) -> ProgramFaultError:
    with pytest.raises(ProgramFaultError) as caught:
        launch()
    return caught.value


def line_of(error: ProgramFaultError) -> str:
    file, line, _ = error.location.rsplit(":", 2)
    return linecache.getline(file, int(line)).strip()


@linux_only
def test_a_store_past_the_end_in_a_loop(edge: np.ndarray[Any, Any]) -> None:
    error = fault(lambda: store_blocks[(1,)](edge, 9, BLOCK=128))
    assert line_of(error) == "tl.store(x_ptr + i, i.to(tl.float32))"
    # The lanes of a block are stored in no order.
    pattern = r"x_ptr: \d{1,3} bytes past its end \(float32 of shape \(1024,\), strides \(1,\)"
    assert re.search(pattern, str(error)), error
    assert edge[-1] == 1023


@linux_only
def test_a_fault_in_a_function_that_is_called(edge: np.ndarray[Any, Any]) -> None:
    error = fault(lambda: read_far[(1,)](edge, np.zeros(1, np.float32), 1024 + 120))
    assert line_of(error) == "return tl.load(pointer)"
    assert "x_ptr: 480 bytes past its end" in str(error)


@linux_only
def test_a_fault_in_a_scatter(edge: np.ndarray[Any, Any]) -> None:
    error = fault(lambda: scatter[(1,)](edge, 9, BLOCK=128))
    assert line_of(error) == "tl.store(x_ptr + i, 1.0, mask=i != 5)"


@linux_only
def test_a_fault_in_an_atomic_update_leaves_no_lock(edge: np.ndarray[Any, Any]) -> None:
    words = (ctypes.c_int64 * 2).from_address(private_memory.LAUNCHES_ADDRESS)
    before = list(words)
    for _ in range(3):
        error = fault(lambda: count[(17,)](edge, BLOCK=64))
        assert line_of(error).startswith("tl.atomic_add")
        assert error.program == (16, 0, 0)
        assert list(words) == before
    large = np.zeros(1 << 17, np.float32)
    count[(1 << 11,)](large, BLOCK=64)
    assert (large == 1).all()


@linux_only
def test_a_fault_in_a_product(edge: np.ndarray[Any, Any]) -> None:
    good = np.ones((32, 32), np.float32)
    error = fault(lambda: multiply[(1,)](good, edge[8:], good, N=32))
    assert "tl.load(b_ptr + at)" in line_of(error)
    assert "nearest tensor b_ptr: " in str(error)


@linux_only
def test_memory_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(4096))
    with (tmp_path / "data").open("rb") as file:
        kept = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
    x = np.frombuffer(kept, np.float32)
    with pytest.raises(ProgramFaultError, match=r"inside of it, at byte \d+"):
        store_blocks[(1,)](Pointer(x), 1, BLOCK=128)


class Pointer:
    """What a launch takes as a pointer of an array that it would refuse to write."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.dtype = tl.float32
        self._array = array

    def data_ptr(self) -> int:
        return int(self._array.ctypes.data)


@linux_only
def test_a_fault_in_another_thread(edge: np.ndarray[Any, Any]) -> None:
    errors = []

    def work() -> None:
        errors.append(fault(lambda: store_blocks[(1,)](edge, 9, BLOCK=128)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 4
    assert all("past its end" in str(error) for error in errors)


@triton.jit
def wait_for(flag_ptr, table_ptr):
    if tl.program_id(0) == 0:
        while tl.load(flag_ptr, volatile=True) == 0:
            pass
    else:
        far = tl.load(table_ptr).to(tl.pointer_type(tl.int32))
        tl.store(flag_ptr, tl.load(far))


@linux_only
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_fault_ends_programs_that_wait(threads: int) -> None:
    flag, table = np.zeros(1, np.int32), np.full(1, 0x1238, np.int64)
    error = fault(lambda: wait_for[(3,)](flag, table, num_threads=threads))
    assert line_of(error) == "tl.store(flag_ptr, tl.load(far))"
    flag[:], table[:] = 1, flag.ctypes.data
    wait_for[(3,)](flag, table, num_threads=threads)


@linux_only
def test_a_file_that_has_become_shorter(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(2 * mmap.PAGESIZE))
    with path.open("r+b") as file:
        x = np.frombuffer(mmap.mmap(file.fileno(), 2 * mmap.PAGESIZE), np.float32)
        file.truncate(mmap.PAGESIZE)
    error = fault(lambda: store_blocks[(1,)](x, 9, BLOCK=128))
    assert "SIGBUS in kernel store_blocks" in str(error)
    assert "x_ptr: inside of it, at byte " in str(error)


@linux_only
def test_a_handler_of_another_signal_whose_kernel_faults() -> None:
    """The launch in the middle of which the handler runs goes on."""
    flag, far = np.zeros(2, np.int32), np.full(1, 0x1238, np.int64)
    caught = []

    def handle(number: int, frame: object) -> None:
        caught.append(fault(lambda: read_far[(1,)](far, flag, 1 << 40)))
        flag[0] = 1

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        wait_for[(1,)](flag, far)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(caught) == 1


def _read_beyond() -> str:
    world = emu.world()
    x = world.alloc((4, 8), np.float32, name="weights")
    table = np.zeros(1, np.int64)
    end = world.segment.address + world.segment.layout.total
    table[0] = end + (1 << 32)
    flag = np.zeros(1, np.int32)
    try:
        count_from[(1,)](x.local, table, flag)
    except ProgramFaultError as error:
        return str(error)
    return ""


@triton.jit
def count_from(x_ptr, table_ptr, out_ptr):
    far = tl.load(table_ptr).to(tl.pointer_type(tl.int32))
    tl.store(out_ptr, tl.load(far) + tl.load(x_ptr).to(tl.int32))


@linux_only
def test_symmetric_memory_is_known() -> None:
    for text in emu.launch(_read_beyond, 2):
        assert "SIGSEGV in kernel count_from" in text
        assert "  x_ptr: ptr<f32> = 0x" in text

"""``emu run --count``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emu.comm.world.world import World
from emu.commands.main import main
from emu.trace.counting.traffic import Traffic

SCRIPT = """
import numpy as np
import emu
import triton
import triton.language as tl


@triton.jit
def double(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + o, 2 * tl.load(x + o, mask=o < n), mask=o < n)


world = emu.world()
x = np.ones(100, np.float32)
for _ in range(1 + world.my_pe):
    double[(1,)](x, 100, B=128)
inbox, flag = world.alloc((100,), np.float32), world.alloc((1,), np.int64)
world.put(inbox, x, 1 - world.my_pe)
world.barrier()
if world.my_pe == 0:
    world.get(inbox, 1, offsets=(10,), shape=(5,))
    world.put_signal(inbox, x, 1, flag, 1)
    world.fetch_add(flag, 1, 1)
"""


def test_a_run_on_two_pes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "doubling.py"
    script.write_text(SCRIPT)
    assert main(["run", "--count", "-n", "2", str(script)]) == 0
    text = capfd.readouterr().out
    assert "double (doubling.py:9)" in text
    assert "launches 3, programs 3" in text
    rows = {
        row.split()[1]: [int(n.replace(",", "")) for n in row.split()[2:]]
        for row in re.findall(r"^PE \d .*$", text, re.MULTILINE)[:2]
    }
    assert rows == {"0": [1, 128, 400, 400], "1": [2, 256, 800, 800]}
    matrix = re.findall(r"^PE \d .*$", text, re.MULTILINE)[2:]
    # PE 0: a put, a put_signal and an atomic operation; PE 1: a put, and what PE 0 got of it.
    assert [row.split()[2:] for row in matrix] == [["0", "816"], ["420", "0"]]


KERNEL = """
import numpy as np
import emu
import triton
from emu import shmem


@triton.jit
def send(source, target, pe):
    shmem.put(target, source, 64, pe)


world = emu.world()
source, target = world.alloc(16, np.float32), world.alloc(16, np.float32)
send[(1,)](source.local, target.local, 1 - world.my_pe)
world.barrier()
"""


def test_what_kernels_move_counts_whether_the_run_is_recorded_or_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "sending.py"
    script.write_text(KERNEL)
    for more in ([], ["--trace", str(tmp_path / "run.emutrace")]):
        assert main(["run", "--count", *more, "-n", "2", str(script)]) == 0
        rows = re.findall(r"^PE \d .*$", capfd.readouterr().out, re.MULTILINE)
        assert [row.split()[2:] for row in rows[-2:]] == [["0", "64"], ["64", "0"]]


def test_a_class_is_made_once_for_each_kind_of_group() -> None:
    traffic = Traffic()
    kind = traffic.counted(World)
    assert traffic.counted(World) is kind
    assert traffic.counted(World._group_type) is kind._group_type


def test_count_with_checks_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "nothing.py"
    script.write_text("")
    for more in (["--check", "bounds"], ["--interpret"]):
        assert main(["run", "--count", *more, "-n", "1", str(script)]) == 2
        assert "count must be given without" in capfd.readouterr().err

"""Sessions of Python's debugger in a kernel, driven through standard input."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SCRIPT = """
import numpy as np
import triton
import triton.language as tl


@triton.jit
def scale(x, factor):
    y = x * factor
    return y


@triton.jit
def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=inside, other=-float("inf"))
    if row == 1:
        STOP
    x = scale(x, 0.5)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * n + columns, e / tl.sum(e, axis=0), mask=inside)


x = np.arange(15, dtype=np.float32).reshape(3, 5)
y = np.zeros_like(x)
softmax[(3,)](x, y, 5, BLOCK=8)
print(np.abs(y.sum(axis=1) - 1).max() < 1e-6)
"""


def session(tmp_path, stop, commands, *options):
    script = tmp_path / "softmax.py"
    script.write_text(SCRIPT.replace("STOP", stop))
    done = subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", "1", "--no-prefix", *options, str(script)],
        input="\n".join([*commands, ""]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return script, done.stdout.splitlines()


@pytest.mark.parametrize("stop", ["breakpoint()", "import pdb; pdb.set_trace()"])
def test_a_kernel_is_stepped_through(tmp_path, stop):
    commands = ["p x", 'p f"{row} {n}"', "s", "s", "w", "r", "n", "n", "p e.numpy().max()", "c"]
    script, lines = session(tmp_path, stop, commands, "--interpret")
    prompts = [line.removeprefix("(Pdb) ") for line in lines if line.startswith("(Pdb) ")]
    assert prompts[:2] == ["tensor(fp32[8], [ 5. 6. 7. 8. 9. -inf -inf -inf])", "'1 5'"]
    assert prompts[2] == "--Call--"  # of scale, not of a function of ours
    assert f"> {script}(8)scale()" in lines
    stack = [line.strip() for line in lines[lines.index(f"(Pdb) > {script}(9)scale()") :]]
    assert stack[2:8] == [
        f"(Pdb)   {script}(28)<module>()",
        "-> softmax[(3,)](x, y, 5, BLOCK=8)",
        f"{script}(21)softmax()",
        "-> x = scale(x, 0.5)",
        f"> {script}(9)scale()",
        "-> y = x * factor",
    ]
    assert f"(Pdb) > {script}(23)softmax()" in lines
    assert lines[-2:] == ["(Pdb) np.float32(1.0)", "(Pdb) True"]


def test_one_program_alone_is_run(tmp_path):
    _, lines = session(tmp_path, "print('row', row)", [], "--interpret", "--program", "1")
    assert lines == ["row 1", "False"]


def test_a_program_is_refused_without_interpret_or_by_a_wrong_number(tmp_path):
    script = tmp_path / "empty.py"
    script.write_text("")
    for options, said in (
        (["--program", "1"], "program must only be given with interpret, but got '1'"),
        (["--interpret", "--program", "1,x"], "must be one to three whole numbers"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "emu", "run", "-n", "1", *options, str(script)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert said in done.stderr


TWO = """
import emu
import numpy as np
import triton
import triton.language as tl


@triton.jit
def count(total_ptr, N: tl.constexpr):
    for _ in range(N):
        tl.atomic_add(total_ptr, 1)


world = emu.world()
total = world.alloc((1,), np.int32, name="total")
world.barrier()
count[(4,)](total.on(0), 250)
world.barrier()
print(int(total.on(0)[0]))
"""


def test_atomic_operations_of_interpreted_kernels_are_atomic_among_pes(tmp_path):
    script = tmp_path / "two.py"
    script.write_text(TWO)
    done = subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", "2", "--interpret", str(script)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] 2000", "[1] 2000"]

"""Sessions of Python's debugger in a kernel, driven through standard input."""

import subprocess
import sys
from pathlib import Path

import pytest
from variants import thorough

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


@pytest.mark.parametrize(
    "stop", thorough(["breakpoint()", "import pdb; pdb.set_trace()"], "breakpoint()")
)
def test_a_kernel_is_stepped_through(tmp_path, stop):
    # Since Python 3.13 the debugger stops at the statement itself, not behind it.
    behind = ["n"] if sys.version_info >= (3, 13) else []
    commands = [
        "p x",
        'p f"{row} {n}"',
        *behind,
        "s",
        "s",
        "w",
        "r",
        "n",
        "n",
        "p e.numpy().max()",
        "c",
    ]
    script, lines = session(tmp_path, stop, commands, "--interpret")
    prompts = [line.removeprefix("(Pdb) ") for line in lines if line.startswith("(Pdb) ")]
    assert prompts[:2] == ["tensor(fp32[8], [ 5. 6. 7. 8. 9. -inf -inf -inf])", "'1 5'"]
    assert prompts[2 + len(behind)] == "--Call--"  # of scale, not of a function of ours
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def pdb_session(tmp_path, commands, *arguments):
    script = tmp_path / "softmax.py"
    script.write_text(SCRIPT.replace("STOP", "pass"))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "emu", "run", "-n", "1", "--no-prefix", "--interpret"),
            *("-m", "pdb", *arguments, str(script)),
        ],
        input="\n".join([*commands, ""]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    lines = done.stdout.splitlines()
    first = SCRIPT.splitlines().index("def scale(x, factor):") + 1
    return [line.replace(str(script), "softmax.py") for line in lines], first


@pytest.mark.slow
def test_a_breakpoint_of_a_file_is_met_in_every_program(tmp_path):
    line = SCRIPT.splitlines().index("    return y") + 1
    lines, _ = pdb_session(
        tmp_path, [f"b softmax.py:{line}", "c", "p x", "c", "p factor", "c", "c", "q"]
    )
    stops = [n for n in lines if n.endswith(f"> softmax.py({line})scale()")]
    assert len(stops) == 3
    assert "(Pdb) tensor(fp32[8], [ 0. 1. 2. 3. 4. -inf -inf -inf])" in lines
    assert "(Pdb) 0.5" in lines


@pytest.mark.slow
def test_a_debugger_steps_from_a_program_into_the_next_one(tmp_path):
    last = (
        SCRIPT.splitlines().index(
            "    tl.store(y_ptr + row * n + columns, e / tl.sum(e, axis=0), mask=inside)"
        )
        + 1
    )
    start = SCRIPT.splitlines().index("def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr):") + 1
    lines, _ = pdb_session(
        tmp_path, [f"b softmax.py:{last}", "c", "s", "s", "s", "s", "p row", "q"]
    )
    places = [n.rpartition("> ")[2] for n in lines if "> softmax.py(" in n]
    assert places[-5:] == [
        f"softmax.py({last})softmax()",
        f"softmax.py({last})softmax()->None",
        f"softmax.py({start})softmax()",
        f"softmax.py({start + 1})softmax()",
        f"softmax.py({start + 2})softmax()",
    ]
    assert "(Pdb) tensor(int32[], 1)" in lines


TEST = """
import numpy as np
import emu.triton as triton
import emu.triton.language as tl


@triton.jit(interpret=True)
def check(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    total = tl.sum(x)
    assert total > 100, f"the sum is {total}"


def test_sum():
    check[(1,)](np.arange(4, dtype=np.float32), BLOCK=4)
"""


def test_pytest_stops_at_the_line_of_the_kernel_that_failed(tmp_path):
    script = tmp_path / "test_sum.py"
    script.write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pdb", str(script)],
        input="p x\np float(total) * 2\nq\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert "(Pdb) tensor(fp32[4], [0. 1. 2. 3.])" in done.stdout
    assert "(Pdb) 12.0" in done.stdout
    assert "AssertionError: the sum is 6.0" in done.stdout


def test_a_trace_function_sees_the_lines_of_a_kernel(tmp_path):
    script = tmp_path / "traced.py"
    script.write_text(
        TEST.replace("> 100", "> 1").replace("def test_sum():", "def run():") + "import sys\n"
        "seen = []\n"
        "def trace(frame, event, argument):\n"
        "    if frame.f_code.co_filename == __file__ and frame.f_code.co_name == 'check':\n"
        "        seen.append((event, frame.f_lineno, sorted(frame.f_locals)))\n"
        "    return trace\n"
        "sys.settrace(trace)\n"
        "run()\n"
        "sys.settrace(None)\n"
        "first = check.fn.__code__.co_firstlineno\n"
        "for event, line, names in seen:\n"
        "    print(event, line - first, *names)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "call 1 BLOCK _emu x_ptr",
        "line 2 BLOCK _emu x_ptr",
        "line 3 BLOCK _emu x x_ptr",
        "line 4 BLOCK _emu total x x_ptr",
        "return 4 BLOCK _emu total x x_ptr",
    ], done.stderr


def test_a_step_into_a_function_reads_its_file_unseen(tmp_path):
    pytest.importorskip("torch")  # whose import replaces a function of inspect
    script = tmp_path / "steps.py"
    script.write_text("""
import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def twice(x):
    return x * 2


@triton.jit
def kernel(x_ptr):
    breakpoint()
    tl.store(x_ptr, twice(3.0))


kernel[(1,)](np.zeros(1, np.float32))
""")
    command = [sys.executable, "-m", "emu", "run", "-n", "1", "--no-prefix", "--interpret"]
    done = subprocess.run(
        [*command, str(script)],
        input="s\ns\np x\nc\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [line for line in done.stdout.splitlines() if "->" in line or "> " in line]
    assert not any("getfile" in line or "genericpath" in line for line in shown), done.stdout
    assert any("twice()" in line for line in shown), done.stdout
    assert "3" in done.stdout

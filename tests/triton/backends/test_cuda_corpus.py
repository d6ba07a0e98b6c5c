"""Kernels of the tests of the room on the CPU and with ``backend="cuda"``: the same memory.

Integers are equal; floats differ by no more than sums in another order and other functions' last bits do, as
``tests/support/triton_on_cuda.py`` says. On a machine with a GPU the same tests run there.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns import one_in
from numba import cuda

ROOT = Path(__file__).parents[3]
FILES = [
    (one_in(4), "codegen/test_loops.py", "codegen/test_blocks.py"),
    pytest.param((one_in(4), "codegen"), marks=pytest.mark.slow),
    # All tests of the language take minutes.
    pytest.param((one_in(10), "language"), marks=[pytest.mark.slow, pytest.mark.timeout(400)]),
    pytest.param(
        (one_in(4), "runtime/test_arguments.py", "runtime/test_jit.py", "test_conformance.py"),
        marks=pytest.mark.slow,
    ),
    pytest.param((1, "test_tutorials.py"), marks=pytest.mark.slow),
]
DIFFER = (
    # The bits of NaN change on their way through a register of fp32.
    "test_bitcasts_keep_the_bits",
    # Of equal values a fast tie-break gives the index of any.
    "test_values_with_their_indices[fast-",
    # What each lane finds depends on their order, which is open.
    "test_atomics_of_one_address_add_up",
    "test_each_thread_does_an_atomic_operation",
)
"""Launches that differ."""


@pytest.mark.parametrize("what", FILES, ids=lambda what: what[1].removesuffix(".py"))
def test_a_kernel_leaves_what_it_leaves_on_the_cpu(what):
    plugins = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    every, *files = what
    environment = {**os.environ, "PYTHONPATH": plugins, "EMU_CUDA_EVERY": str(every)}
    if not cuda.is_available():
        environment["NUMBA_ENABLE_CUDASIM"] = "1"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "triton_on_cuda"),
            *("-p", "no:cacheprovider", *(f"tests/triton/{file}" for file in files)),
            # The simulator runs one program after the other: one cannot wait for a later one.
            *("-k", "not may_wait_for_another_program"),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=390,
        check=False,
    )
    # Whether the tests themselves pass is their own business, without the plugin.
    assert done.returncode in (0, 1), done.stdout[-3000:]
    different = re.findall(r"^DIFFERENT (.*)$", done.stdout, re.MULTILINE)
    assert [d for d in different if not any(name in d for name in DIFFER)] == []
    ((same, launches),) = re.findall(r"^COMPARED: (\d+) of (\d+),", done.stdout, re.MULTILINE)
    assert int(launches) > 0
    assert int(launches) - int(same) == len(different)

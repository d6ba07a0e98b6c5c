"""Kernels of all tests of the room, compiled and as Python: the same bits."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns import one_in

ROOT = Path(__file__).parents[3]
FILES = [  # a process loads all for some seconds before it compares the first launch
    (one_in(3), "codegen/test_loops.py codegen/test_blocks.py codegen/test_functions.py"),
    pytest.param(
        (
            one_in(3),
            (
                "runtime/test_arguments.py runtime/test_jit.py test_conformance.py "
                "tools/test_ragged_tma.py tools/test_tensor_descriptor.py"
            ),
        ),
        marks=pytest.mark.slow,
    ),
    pytest.param((one_in(3), "codegen test_tutorials.py"), marks=pytest.mark.slow),
    pytest.param((one_in(8), "language"), marks=pytest.mark.slow),
]
DIFFER = (
    # An interpreted kernel checks assertions whether it is debugged or not.
    "test_assert_is_checked_while_a_debugged_program_runs",
    "test_the_setting_debug_is_part_of_a_launch",
    # The hook stops compilations, and an interpreted launch compiles nothing.
    "test_a_cache_hook_that_returns_true_stops_the_launch",
    # A function that ends without a return gives None, which cannot be used; a compiled one gives anything.
    "test_a_function_that_returns_nothing_on_one_side_gives_anything_there",
)
"""Launches that differ."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("what", FILES, ids=lambda what: what[1].removesuffix(".py"))
def test_a_kernel_gives_the_same_bits_as_python(what):
    every, files = what
    plugins = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "triton_interpreted"),
            *("-p", "no:cacheprovider", *(f"tests/triton/{file}" for file in files.split())),
            # Interpreted programs run one after the other: one cannot wait for a later one.
            *("-k", "not may_wait_for_another_program"),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": plugins,
            "EMU_INTERPRETED_EVALUATIONS": "2",
            "EMU_INTERPRETED_EVERY": str(every),
        },
        capture_output=True,
        text=True,
        timeout=390,
        check=False,
    )
    # Whether the tests themselves pass is their own business, without the plugin.
    assert done.returncode in (0, 1), done.stdout[-3000:]
    different = re.findall(r"^DIFFERENT (.*)$", done.stdout, re.MULTILINE)
    assert [d for d in different if not any(name in d for name in DIFFER)] == []
    counts = re.findall(r"^COMPARED \w+: (\d+) of (\d+)$", done.stdout, re.MULTILINE)
    assert len(counts) == 2
    assert sum(int(of) for _, of in counts) > 0

"""Programs of JAX become programs of one device, and those compute the same.

The programs are those of tests/conformance/sdy (jax_*.py). JAX runs in processes
of its own: where it has been imported, each later fork in the process warns.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from variants import thorough

import emu.sdy

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance" / "sdy"
PIPELINE = "emu-partition-pipeline"
CONSERVATIVE = f"{PIPELINE}{{conservative-propagation=true}}"
SAME_AS = "0.10.2"  # another release lowers in another way

try:
    INSTALLED = version("jax")
except PackageNotFoundError:
    INSTALLED = "none"
pytestmark = pytest.mark.skipif(
    INSTALLED != SAME_AS, reason=f"written for jax {SAME_AS}; installed: {INSTALLED}"
)

NAMES = [
    name
    for file in ("jax_models.py", "jax_operations.py", "jax_shardings.py")
    for name in re.findall(r"^@program\ndef (\w+)", (CONFORMANCE / file).read_text(), re.MULTILINE)
]

NEVER = {
    "symbolic_shapes": "Shardy propagation only supports ranked tensors with a static shape",
}
"""Why programs are not converted: shapes that are known at a call only (see ``emu-refine-shapes``)."""

NOT_EXACT = {"elementwise", "random_numbers"}
"""With special functions, which have no exact formula: only jaxlib legalizes them."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs, and with those without CHLO in ``legalized``."""
    folder = tmp_path_factory.mktemp("jax")
    for more in ([], ["--legalized"]):
        where = folder / "legalized" if more else folder
        subprocess.run(
            [sys.executable, str(CONFORMANCE / "jax_programs.py"), str(where), *more],
            check=True,
            capture_output=True,
            env={"PYTHONPATH": str(CONFORMANCE.parents[2]), "PATH": "/usr/bin:/bin"},
        )
    return folder


def convert(file: Path, passes: str) -> str | None:
    """None if a program is converted, else the error."""
    module = emu.sdy.parse(file.read_text(encoding="utf-8"))
    try:
        emu.sdy.run_passes(module, passes)
    except emu.sdy.PassFailed as error:
        return str(error)
    left = {op.name for op in module.walk() if op.dialect in {"chlo", "sdy"}}
    assert left <= {"sdy.mesh", "sdy.named_computation", "sdy.return"}
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("passes", [PIPELINE, CONSERVATIVE], ids=["uneven", "even"])
def test_a_program_is_converted(name: str, passes: str, programs: Path) -> None:
    said = convert(programs / "legalized" / f"{name}.mlir", passes)
    if name in NEVER:
        assert said is not None, f"{name} is converted now: take it off the list"
        assert NEVER[name] in said
    else:
        assert said is None


@pytest.mark.slow
@pytest.mark.parametrize("name", thorough(NAMES, *NAMES[::4]))
def test_a_program_is_converted_without_the_help_of_jaxlib(name: str, programs: Path) -> None:
    said = convert(programs / f"{name}.mlir", CONSERVATIVE)
    if name in NOT_EXACT:
        assert said is not None
        assert "failed to legalize operation 'chlo." in said
    else:
        assert (said is None) == (name not in NEVER)


WRONG_ORDER = (
    "sdy-propagation-pipeline,sdy-insert-explicit-reshards{enable-full-version=true},"
    "sdy-reshard-to-collectives,canonicalize,sdy-resolve-permutation-factors,"
    "sdy-pad-for-divisibility,sdy-convert-global-to-local"
)


def test_permutation_factors_are_resolved_before_reshards_become_collectives(
    programs: Path,
) -> None:
    file = programs / "legalized" / "cumulative.mlir"
    said = convert(file, WRONG_ORDER)
    assert said is not None
    assert "failed to legalize operation 'sdy.reshard'" in said
    assert convert(file, PIPELINE) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "cumulative",  # windows over gathered dimensions
        "indexing",  # updates of parts of shards
        "integers_and_bits",  # partial results of and, or, maximum
        "random_generators",  # random bits
        "transformer_forward",  # a loop over layers
        "unconstrained",  # sub-axes
    ],
)
def test_the_program_of_one_device_computes_the_same(name: str, programs: Path) -> None:
    """XLA runs it on as many virtual devices as the mesh has, and the original beside it."""
    done = subprocess.run(
        [
            *(sys.executable, str(CONFORMANCE / "execute.py"), str(programs / "legalized")),
            *("--only", name, "--devices", "8", "--passes", CONSERVATIVE),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(CONFORMANCE.parents[2]), "PATH": "/usr/bin:/bin"},
    )
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert said[name] == "equal", done.stdout + done.stderr

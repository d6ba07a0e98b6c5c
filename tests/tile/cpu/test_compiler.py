"""The CPU compiler does what the reference interpreter does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tile_cases import CASES, QUICK
from tile_cpu_runner import run
from tile_harness import Kernel, Program
from tile_programs import programs
from variants import thorough

from emu.tile import reference
from emu.tile.cpu import native
from emu.tile.ops import Code
from emu.tile.types import F16, F32, I8, I32, Pointer


@pytest.mark.parametrize("program", thorough(CASES, *QUICK), ids=str)
def test_compiled_programs_do_what_the_reference_does(program: Program) -> None:
    program.check(run)


@settings(deadline=None, max_examples=60)
@given(program=programs())
def test_compiled_random_programs_do_what_the_reference_does(program: Program) -> None:
    program.check(run)


def test_compiled_programs_print_what_the_reference_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    k = Kernel()
    b = k.builder
    pointer = k.argument(Pointer(F32), 4096)
    b.print_("here", [])
    b.print_("x:", [b.arange(5, 7)])
    b.print_("both", [b.program_id(0), k.number(1.5, F16)])
    b.print_("bits", [k.number(-1, I8), k.number(1, F32)], hex_=True)
    b.print_(" true: ", [b.compare(Code.LT, b.arange(0, 3), k.number(1, I32, (3,)))])
    b.print_("at", [pointer])
    with b.for_(k.number(0), k.number(2), k.number(1), []) as loop:
        b.print_("turn", [loop.index])
        b.yield_()
    module = k.program("p").module
    expected: list[str] = []
    reference.run(module, [4096], (2, 1, 1), write=expected.append)
    run(module, [4096], (2, 1, 1))
    assert capsys.readouterr().out == "".join(expected)
    assert "pid (1, 0, 0) idx (2) true: 0\n" in expected


@pytest.fixture
def haswell(monkeypatch):
    """Compile for a CPU with AVX2 and without AVX-512, which this one can run."""
    if not all(map(native.has_feature, ("avx2", "fma", "f16c"))):
        pytest.skip("this CPU cannot run code with AVX2")
    wanted = "avx,avx2,bmi,bmi2,cx16,f16c,fma,lzcnt,movbe,popcnt,sse4.2"
    target = native.Target("haswell", ",".join(f"+{name}" for name in wanted.split(",")))
    monkeypatch.setattr(native, "default_target", lambda: target)
    native._features.cache_clear()
    yield
    monkeypatch.undo()
    native._features.cache_clear()


FOR_HASWELL = [
    program
    for program in CASES
    if str(program).startswith(("vector", "reduc", "scan", "dot", "products", "atomic", "loops"))
]


@pytest.mark.slow
@pytest.mark.usefixtures("haswell")
@pytest.mark.parametrize("program", FOR_HASWELL, ids=str)
def test_programs_do_the_same_on_a_cpu_without_avx512(program: Program) -> None:
    assert not native.has_feature("avx512f")
    program.check(run)

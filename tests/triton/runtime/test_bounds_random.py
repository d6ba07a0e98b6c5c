"""Random kernels over random tensors: what the checks of addresses report is what brute force finds, lane by lane."""

from __future__ import annotations

import importlib.util
import linecache
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import shares
from triton_access_programs import Launch, Program, make_launch
from triton_accesses import Bad, States, execute

from emu import triton
from emu.triton import knobs

pytest.importorskip("torch")

HOWS = ("option", "decorated", "knob")
"""Ways to ask for the checks."""

pytestmark = pytest.mark.filterwarnings("ignore:tl.make_block_ptr")  # once in a process


def _load(program: Program, seed: int, folder: Path) -> tuple[Any, str]:
    path = folder / f"random_kernel_{seed}.py"
    path.write_text(program.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, str(path)


def _run(kernel: Any, grid: Any, launch: Launch, how: str, **options: Any) -> Any:
    try:
        if how == "option":
            kernel[grid](**launch.values, **options)
        elif how == "decorated":
            check = options.pop("check")
            triton.jit(kernel.fn, check=check)[grid](**launch.values, **options)
        else:
            with knobs.runtime.scope():
                check = options.pop("check")
                knobs.runtime.check = check
                kernel[grid](**launch.values, **options)
    except triton.OutOfBoundsError as error:
        return error
    return None


def _as_bad(access: Any) -> Bad:
    source = linecache.getline(access.file, access.line)
    # The mask of a block is the language's own, and gone where the whole block is inside its shape.
    masked = _is_block(source) or "its mask is true" in access.text
    return Bad(
        *(access.line, access.verb, access.program, access.lane, access.address),
        *(access.argument, masked),
    )


def _is_block(line: str) -> bool:
    return ".load([" in line or ".store([" in line


def _contents(launch: Launch) -> list[list[int]]:
    return [t.data.tolist() for t in launch.memory]


def _restore(launch: Launch, contents: list[list[int]]) -> None:
    for tensor, data in zip(launch.memory, contents, strict=True):
        if data:
            tensor.data[:] = data


def _check_report(access: Any, launch: Launch, path: str) -> None:
    """Check the fields and the text of a report that follow from the access and the tensors."""
    assert access.kernel == "kernel"
    assert access.file == path
    source = linecache.getline(path, access.line)[access.column - 1 :]
    begins = {"load": ("tl.load(",), "store": ("tl.store(",), "atomic": ("tl.atomic_",)}[
        access.verb
    ]
    is_descriptor = source.split("(")[0].endswith((".load", ".store"))
    assert source.startswith(begins) or is_descriptor, source
    assert f"{access.address:#x}" in access.text
    assert f"program {access.program}" in access.text
    if access.argument is None:
        return
    tensor = launch.tensors[access.argument]
    end = tensor.start + len(tensor.data)
    if access.address < tensor.start:
        assert (access.before_start, access.past_end) == (tensor.start - access.address, None)
    else:
        assert (access.before_start, access.past_end) == (None, access.address - end)
    value = tensor.value
    strides = value.strides if isinstance(value, np.ndarray) else value.stride()
    if isinstance(value, np.ndarray):
        strides = tuple(s // value.itemsize for s in strides)
    for part in (
        f"shape {tuple(value.shape)}",
        f"strides {tuple(strides)}",
        f"({len(tensor.data)} bytes)",
    ):
        assert part in access.text, (part, access.text)


def check_program(seed: int, folder: Path) -> None:
    """Launch a random kernel with random arguments, unless brute force and the checks agree raise AssertionError."""
    program = Program(seed)
    module, path = _load(program, seed, folder)
    random = np.random.default_rng(10_000 + seed)
    for number in range(3):
        launch = make_launch(program, random)
        start = _contents(launch)
        states = execute(program.text, path, launch.model, program.grid, launch.modelled)
        wanted = [
            replace(bad, argument=None) if bad.line in program.unknown else bad
            for bad in launch.model.bad
        ]
        note = f"seed {seed}, launch {number}: {launch.values}\n{program.text}\n{wanted}"
        for check, threads in (("bounds:all", 1), ("bounds", 1), ("bounds:all", 2)):
            how = HOWS[int(random.integers(len(HOWS)))]
            _restore(launch, start)
            error = _run(module.kernel, program.grid, launch, how, check=check, num_threads=threads)
            found = [] if error is None else list(error.accesses)
            now = f"{check} by {how}, {threads} threads: {error}\n{note}"
            assert bool(wanted) == bool(found), now
            launch.arena.check_gaps()
            for access in found:
                assert _as_bad(access) in wanted, now
                _check_report(access, launch, path)
            if threads == 1:
                _check_choice(check, found, wanted, now)
                # What a kernel finds of its own stores in the same memory is not what is tested here.
                assert program.in_place or _is_right(check, launch, wanted, states), now


def _check_choice(check: str, found: list[Any], wanted: list[Bad], note: str) -> None:
    """Check which of the bad accesses are reported: of each place one, or one of the first program that has one."""
    if check == "bounds:all":
        places = {(bad.line, bad.verb) for bad in wanted}
        assert {(a.line, a.verb) for a in found} == places, note
    elif wanted:
        assert [a.program for a in found] == [wanted[0].program], note


def _is_right(check: str, launch: Launch, wanted: list[Bad], states: States) -> bool:
    """Return whether memory holds what it should: a program that was stopped has made some of its stores."""
    if check == "bounds:all" or not wanted:
        return _contents(launch) == launch.model.contents()
    before, later = states[wanted[0].program]
    return _contents(launch) in (before, *later)


@pytest.mark.parametrize("seed", range(8))
def test_random_kernels_are_reported_as_brute_force_finds_them(seed: int, tmp_path: Path) -> None:
    check_program(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", shares(8))
def test_more_random_kernels(seed: int, tmp_path: Path) -> None:
    check_program(1000 + seed, tmp_path)

"""Random kernels over random tensors: what the checks of addresses report is what brute force finds, lane by lane."""

from __future__ import annotations

import importlib.util
import linecache
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from triton_access_programs import Launch, Program, make_launch
from triton_accesses import Bad, execute

from emu import triton
from emu.triton import knobs

pytest.importorskip("torch")

CAMPAIGN = int(os.environ.get("EMU_BOUNDS_PROGRAMS", "200"))
"""Programs of the long run."""


def _load(program: Program, seed: int, folder: Path) -> tuple[Any, str]:
    path = folder / f"random_kernel_{seed}.py"
    path.write_text(program.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, str(path)


def _found(error: triton.OutOfBoundsError | None) -> list[Any]:
    return [] if error is None else list(error.accesses)


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
    masked = "its mask is true" in access.text
    return Bad(
        *(access.line, access.verb, access.program, access.lane, access.address),
        *(access.argument, masked),
    )


def _contents(launch: Launch) -> list[list[int]]:
    return [t.data.tolist() for t in launch.real]


def _restore(launch: Launch, contents: list[list[int]]) -> None:
    for tensor, data in zip(launch.real, contents, strict=True):
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
    program = Program(seed)
    module, path = _load(program, seed, folder)
    kernel, random = module.kernel, np.random.default_rng(10_000 + seed)
    for number in range(3):
        launch = make_launch(program, random)
        start = _contents(launch)
        states = execute(program.text, path, launch.model, program.grid, launch.modelled)
        wanted = [
            Bad(b.line, b.verb, b.program, b.lane, b.address, None, b.masked)
            if b.line in program.unknown
            else b
            for b in launch.model.bad
        ]
        note = f"seed {seed}, launch {number}: {launch.values}\n{program.text}\n{wanted}"

        def is_right(launch: Launch) -> bool:
            return program.in_place or _contents(launch) == launch.model.contents()

        hows = ["option", "decorated", "knob"]
        for check in ("bounds:all", "bounds"):
            how = hows[int(random.integers(3))]
            _restore(launch, start)
            error = _run(kernel, program.grid, launch, how, check=check, num_threads=1)
            found = _found(error)
            note_now = f"{check} by {how}: {error}\n{note}"
            assert bool(wanted) == bool(found), note_now
            launch.arena.check_gaps()
            for access in found:
                assert _as_bad(access) in wanted, note_now
                _check_report(access, launch, path)
            if check == "bounds:all":
                first: dict[Any, Bad] = {}
                for bad in sorted(wanted, key=lambda b: b.program[::-1]):
                    first.setdefault((bad.line, bad.verb), bad)
                assert {(a.line, a.verb) for a in found} == set(first), note_now
                assert is_right(launch), note_now
            elif wanted:
                assert len(found) == 1, note_now
                assert found[0].program == wanted[0].program, note_now
                before, later = states[wanted[0].program]
                assert program.in_place or _contents(launch) in (before, *later), note_now
            else:
                assert is_right(launch), note_now
        _restore(launch, start)
        error = _run(kernel, program.grid, launch, "option", check="bounds:all", num_threads=2)
        assert bool(wanted) == bool(error), note
        assert all(_as_bad(a) in wanted for a in _found(error)), (str(error), note)
        launch.arena.check_gaps()


@pytest.mark.parametrize("seed", range(8))
def test_random_kernels_are_reported_as_brute_force_finds_them(seed: int, tmp_path: Path) -> None:
    check_program(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1000 + CAMPAIGN))
def test_more_random_kernels(seed: int, tmp_path: Path) -> None:
    check_program(seed, tmp_path)

"""FLOPs compared with XLA's own count, where JAX is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import emu.sdy

jax = pytest.importorskip("jax")


def programs() -> ModuleType:
    path = Path(__file__).parent / "programs" / "make.py"
    spec = importlib.util.spec_from_file_location("cost_programs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["mlp", "transformer_block"])
def test_flops_are_those_that_xla_counts(name: str) -> None:
    function, arguments, _ = programs().PROGRAMS[name]
    lowered = jax.jit(function).lower(*arguments)
    theirs = lowered.cost_analysis()
    ours = emu.sdy.cost(lowered.as_text())
    # XLA folds the division of one constant by another; loops it counts once, so there are none here.
    assert abs(ours.flops - theirs["flops"]) <= 1
    assert ours.transcendentals == theirs["transcendentals"]


def test_a_program_of_jax_names_its_source_lines() -> None:
    made = programs()
    function, arguments, shardings = made.PROGRAMS["mlp"]
    module = emu.sdy.from_jax(function, *arguments, in_shardings=tuple(shardings))
    found = emu.sdy.cost(module)
    assert len(found.collectives) == 4
    source = Path(made.__file__).read_text().splitlines()
    for each in found.collectives:
        file, _, line = each.place.rpartition(":")
        assert file == made.__file__
        assert "jnp.mean" in source[int(line) - 1]

"""Compiled programs beside the reference."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence

import numpy as np

import emu.sdy
from emu.stablehlo.compiled import BoundProgram, compile_program
from emu.stablehlo.compiled.fallback import Fallback
from emu.stablehlo.compiled.forms import Step
from emu.stablehlo.reference import evaluate
from emu.stablehlo.reference.dtypes import is_complex, is_float
from emu.stablehlo.reference.scope import CustomCall


def function(body: str, arguments: str = "", results: str = "tensor<f32>") -> str:
    """Return the text of a module with one function."""
    return f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}"


def check(
    text: str,
    *inputs: np.ndarray,
    rtol: float = 0.0,
    atol: float = 0.0,
    fallbacks: int | None = 0,
    custom_calls: Mapping[str, CustomCall] | None = None,
    donated: Sequence[int] = (),
) -> BoundProgram:
    """Compare a compiled program with the reference: pickled, called twice, with and without outputs.

    Args:
        text: The module.
        *inputs: What ``main`` takes.
        rtol: Relative tolerance of floats. Default: none; NaN equals NaN.
        atol: Absolute tolerance of floats.
        fallbacks: How many steps the reference may compute; None for any number.
        custom_calls: Custom calls.
        donated: Donated inputs; those are copied before.

    Returns:
        The bound program.
    """
    module = emu.sdy.parse(text)
    expected = evaluate(module, *inputs, custom_calls=custom_calls)
    program = pickle.loads(pickle.dumps(compile_program(module, donated=donated)))
    assert program.planned is not None
    if fallbacks is not None:
        assert n_fallbacks(program.planned.steps) == fallbacks
    bound = program.bind(custom_calls=custom_calls)
    before = [x.copy() for x in inputs]
    outputs = [np.empty_like(x) for x in expected]
    for targets in (None, outputs, outputs, None):
        found = bound([x.copy() for x in inputs] if donated else inputs, targets)
        if targets is not None:
            assert all(a is b for a, b in zip(found, targets, strict=True))
        for a, b in zip(found, expected, strict=True):
            check_close(a, b, rtol, atol)
    for a, b in zip(inputs, before, strict=True):
        assert a.tobytes() == b.tobytes(), "an input has changed"
    return bound


def check_close(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> None:
    """Compare arrays of one shape and dtype."""
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if is_complex(a.dtype) or is_float(a.dtype):
        wide = np.complex128 if is_complex(a.dtype) else np.float64
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=rtol, atol=atol)
    else:
        assert np.array_equal(a, b), (a, b)


def n_fallbacks(steps: Sequence[Step]) -> int:
    """Return how many steps the reference computes."""
    return sum(
        isinstance(step.form, Fallback) + sum(map(n_fallbacks, step.blocks)) for step in steps
    )

"""Programs that JAX once wrote give what JAX once computed; neither needs JAX now."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from variants import thorough

import emu.sdy
from emu.sdy.execution.executable import Path as Way

HERE = Path(__file__).parent / "programs"
EXPECTED = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))


def inputs(types: list[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    """Return what ``programs/make.py`` gave to JAX."""
    found = []
    for index, (shape, dtype) in enumerate(types):
        count = np.arange(int(np.prod(shape)), dtype=np.int64) + 7 * index
        values = count * 5 % 32 if dtype.kind == "i" else (count * 37 % 101 - 50) / 50
        found.append(values.reshape(shape).astype(dtype))
    return found


@pytest.mark.parametrize("path", thorough(["compiled", "reference"], "compiled"))
@pytest.mark.parametrize("name", EXPECTED)
def test_the_program_gives_what_jax_gave(name: str, path: Way) -> None:
    module = emu.sdy.parse((HERE / f"{name}.mlir").read_text(encoding="utf-8"))
    with emu.sdy.compile(module, path=path, check="outputs") as program:
        types = [each.type for each in program.partitioned.inputs]
        dtypes = [np.dtype({"f32": "f4", "i32": "i4"}[str(each.element)]) for each in types]
        shapes = [each.static_shape for each in types]
        results = program(*inputs(list(zip(shapes, dtypes, strict=True))))
    assert program.n_devices == 8
    assert len(results) == len(EXPECTED[name])
    for got, wanted in zip(results, EXPECTED[name], strict=True):
        np.testing.assert_allclose(got.reshape(-1)[:12], wanted, rtol=1e-3, atol=1e-5)

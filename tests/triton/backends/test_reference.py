"""The backend ``"reference"``: the meaning that the others are compared with."""

import numpy as np
from triton_kernels import copy, place

from emu import triton


def blocks(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def test_both_backends_give_the_same():
    x = np.arange(100, dtype=np.float32)
    results = []
    for backend in ("cpu", "reference"):
        y = np.zeros_like(x)
        assert copy[blocks](x, y, 100, backend=backend).metadata.backend == backend
        results.append(y.tolist())
    assert results[0] == results[1] == x.tolist()


def test_numbers_become_what_an_argument_of_their_dtype_holds():
    y = np.zeros(1, np.float64)
    place[(1,)](y, 0.1, backend="reference")
    assert y[0] == np.float32(0.1)


def test_its_kernels_are_not_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path))
    triton.jit(place.fn)[(1,)](np.zeros(1, np.int32), 3, backend="reference")
    assert not list(tmp_path.rglob("*.kernel"))

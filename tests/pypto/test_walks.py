"""An op on a part of what it walks gives that part of what the whole op gives, bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu import pypto
from emu.pypto import operation
from emu.pypto.backend import run_pieces
from emu.pypto.context import CONTEXT
from emu.pypto.division import find_division, touched
from emu.pypto.operation import LocalOp
from emu.pypto.pieces import blocks_of

DTYPES = [pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16]

OPS: dict[str, Callable] = {
    "add": lambda a, _: a + a,
    "broadcast": lambda a, _: a * pypto.view(a, [1] * (a.ndim - 1) + [a.shape[-1]]),
    "exp": lambda a, _: pypto.exp(a),
    "cast": lambda a, _: pypto.cast(a, pypto.DT_FP32),
    "amax": lambda a, rng: pypto.amax(a, rng.randrange(a.ndim), bool(rng.randrange(2))),
    "sum": lambda a, rng: pypto.sum(a, -1, bool(rng.randrange(2))),
    "sum over axes": lambda a, rng: pypto.sum(a, [a.ndim - 1, a.ndim - 2], bool(rng.randrange(2))),
    "mean": lambda a, rng: pypto.mean(a, -1, bool(rng.randrange(2))),
    "var": lambda a, rng: pypto.var(a, -1, keepdim=bool(rng.randrange(2))),
    "prod": lambda a, rng: pypto.prod(a, -1, bool(rng.randrange(2))),
    "any": lambda a, rng: pypto.any(a, rng.randrange(a.ndim), bool(rng.randrange(2))),
    "argmin": lambda a, rng: pypto.argmin(a, rng.randrange(a.ndim), bool(rng.randrange(2))),
    "cumsum": lambda a, rng: pypto.cumsum(a, rng.randrange(a.ndim)),
    "cumprod": lambda a, rng: pypto.cumprod(a, rng.randrange(a.ndim)),
    "sort": lambda a, rng: pypto.sort(a, rng.randrange(a.ndim)),
    "topk": lambda a, rng: pypto.topk(a, 1, rng.randrange(a.ndim)),
    "dynamic_quantize": lambda a, rng: pypto.dynamic_quantize(a, rng.randrange(a.ndim)),
    "softmax": lambda a, _: pypto.softmax(a),
    "log_softmax": lambda a, _: pypto.log_softmax(a),
    "rms_norm": lambda a, _: pypto.rms_norm(a, _row(a)),
    "layer_norm": lambda a, _: pypto.layer_norm(a, _row(a), _row(a)),
    "transpose": lambda a, rng: pypto.transpose(a, rng.randrange(a.ndim), rng.randrange(a.ndim)),
    "permute": lambda a, rng: pypto.permute(a, rng.sample(range(a.ndim), a.ndim)),
    "unsqueeze": lambda a, rng: pypto.unsqueeze(a, rng.randrange(a.ndim)),
    "squeeze": lambda a, _: pypto.squeeze(pypto.view(a, [*a.shape[:-1], 1]), -1),
    "broadcast_to": lambda a, _: pypto.broadcast_to(a, [3, *a.shape]),
    "matmul": lambda a, _: pypto.matmul(a, pypto.transpose(a, -2, -1)),
    "matmul of a transposed": lambda a, _: pypto.matmul(a, a, a_trans=True),
    "matmul with a row": lambda a, _: pypto.matmul(a, a, b_trans=True, bias=_square_row(a)),
    "matmul in place": lambda a, _: pypto.matmul(a, a, b_trans=True, accumulate=_square(a)),
}


def _row(a):
    return pypto.from_numpy(np.linspace(-1, 2, a.shape[-1], dtype=np.float32))


def _square_row(a):
    return pypto.from_numpy(np.linspace(-1, 2, a.shape[-2], dtype=np.float32))


def _square(a):
    return pypto.full([*a.shape[:-1], a.shape[-2]], 0.5, a.dtype)


def _values(rng: np.random.Generator, shape: list[int], dtype: pypto.DataType) -> np.ndarray:
    x = rng.standard_normal(shape) * 3
    flat = x.reshape(-1)
    flat[rng.integers(0, flat.size, 2)] = rng.choice([0.0, 65000.0, 1e-7, -2.0], 2)
    return x.astype(dtype.np_dtype)


def _bits(op: LocalOp) -> list[bytes]:
    return [np.ascontiguousarray(t.array).tobytes() for t, writes in touched(op) if writes]


@settings(max_examples=400, deadline=None)
@given(
    name=st.sampled_from(sorted(OPS)),
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=2),
    columns=st.one_of(st.integers(1, 9), st.sampled_from([16, 130, 257, 1100])),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1 << 30),
    backend=st.sampled_from(["native", "reference"]),
)
def test_parts_are_those_of_the_whole(name, shape, columns, dtype, seed, backend):
    shape, rng = [*shape, columns], random.Random(seed)
    made: list[LocalOp] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operation, "LEAST_ELEMENTS", 1)
        source = pypto.from_numpy(_values(np.random.default_rng(seed), shape, dtype))
        submit_local = CONTEXT.graph.submit_local

        def noted(op, deps):
            made.append(op)
            return submit_local(op, deps)

        patch.setattr(CONTEXT.graph, "submit_local", noted)
        with pypto.set_options(backend=backend):
            OPS[name](source, rng)
            op = made[-1]
            whole = _bits(op)
            divided = find_division(op)
            assert divided is not None, f"{name} is not divided"
            space = divided.walk.space
            tile = [rng.randrange(1, n + 1) for n in space]
            for axis in divided.walk.uncut:
                tile[axis] = space[axis]
            if name == "matmul in place":
                op[2][0].array[...] = 0.5
            else:
                for t in op[2]:
                    t.array[...] = 0
            blocks = list(blocks_of(space, tuple(tile)))
            rng.shuffle(blocks)
            for block in blocks:
                run_pieces([divided.piece(block)], is_large=True)
    assert _bits(op) == whole

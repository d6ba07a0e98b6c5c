"""Collectives of NVSHMEM's names against NumPy's definitions, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from distributed_tensors import BF16, everything, given, values
from emulated_devices import refused
from nvshmem_start import start

import emu
from emu.comm.errors import CollectiveMismatchError

pytest.importorskip("torch")

_REDUCE = {"sum": np.sum, "min": np.min, "max": np.max}
_DTYPES = {"float32": np.float32, "int32": np.int32, "bfloat16": BF16, "float64": np.float64}


def run_collectives() -> None:
    torch, nv = start()
    me, n = nv.my_pe(), nv.n_pes()

    def symmetric(array: np.ndarray, name: str) -> Any:
        made = nv.tensor(array.shape, getattr(torch, name))
        bits = array.view(np.int16) if name == "bfloat16" else array
        host = torch.from_numpy(np.ascontiguousarray(bits))
        made.copy_(host.view(made.dtype) if name == "bfloat16" else host)
        return made

    for name, kind in _DTYPES.items():
        all_ = everything(n, (2 * n, 3), np.float32).astype(kind)
        if name == "int32":
            all_ = everything(n, (2 * n, 3), kind)
        src = symmetric(all_[me], name)
        dst = symmetric(np.zeros((2 * n, 3), kind), name)
        for op, numpy in _REDUCE.items():
            wide = all_.astype(np.float32) if name == "bfloat16" else all_
            expected = numpy(wide, 0, dtype=wide.dtype) if op == "sum" else numpy(wide, 0)
            if op == "sum":  # in the order of the members
                expected = wide[0].copy()
                for each in wide[1:]:
                    expected += each
            nv.reduce(nv.Teams.TEAM_WORLD, dst, src, op)
            np.testing.assert_array_equal(values(dst), expected.astype(kind))
            part = symmetric(np.zeros((2, 3), kind), name)
            nv.reducescatter(nv.Teams.TEAM_NODE, part, src, op, stream=torch.cuda.current_stream())
            np.testing.assert_array_equal(values(part), expected.astype(kind)[2 * me : 2 * me + 2])
            nv.free_tensor(part)
        nv.alltoall(0, dst, src)
        expected = np.concatenate([each[2 * me : 2 * me + 2] for each in all_])
        np.testing.assert_array_equal(values(dst), expected)
        nv.broadcast(0, dst, src, root=n - 1)
        np.testing.assert_array_equal(values(dst), all_[n - 1])
        many = symmetric(np.zeros((n, 2 * n, 3), kind), name)
        nv.fcollect(0, many, src)
        np.testing.assert_array_equal(values(many), all_)
        nv.reduce(0, src, src, "max")  # in place
        np.testing.assert_array_equal(values(src), all_.max(0))
        nv.sync_all()
    raw = nv.tensor(2 * n, torch.float8_e4m3fn)
    raw.copy_(torch.full((2 * n,), float(me)))
    nv.alltoall(0, raw, raw)
    assert raw.float().tolist() == [float(pe) for pe in range(n) for _ in range(2)]
    nv.finalize()


def run_buffers() -> None:
    torch, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    x, y = nv.tensor(2 * n), nv.tensor(2 * n)
    x.copy_(torch.from_numpy(given(me, 2 * n)))
    (src, *_), (dst, *_) = nv.tensor_get_buffer(x), nv.tensor_get_buffer(y)
    total = everything(n, 2 * n)[0].copy()
    for each in everything(n, 2 * n)[1:]:
        total += each
    nv.collective_on_buffer("reduce", 0, dst, src, dtype="float", op="sum")
    np.testing.assert_array_equal(values(y), total)
    nv.collective_on_buffer("broadcast", 0, dst, src, root=1)
    np.testing.assert_array_equal(values(y), given(1, 2 * n))
    nv.collective_on_buffer("alltoall", 0, dst, src, dtype=torch.float32)
    expected = everything(n, 2 * n)[:, 2 * me : 2 * me + 2].ravel()
    np.testing.assert_array_equal(values(y), expected)
    a, b = nv.array((n, 2), "int32"), nv.array(2, "int32")
    b[:] = me
    nv.fcollect(0, a, b)
    np.testing.assert_array_equal(a, np.repeat(np.arange(n), 2).reshape(n, 2))
    one, two = nv.buffer(16 * n), nv.buffer(16)
    torch.as_tensor(one).fill_(1)
    nv.collective_on_buffer("reducescatter", 0, two, one, dtype="uchar", op="sum")
    assert torch.as_tensor(two).eq(n).all()
    nv.collective_on_buffer("fcollect", 0, one, two)
    assert torch.as_tensor(one).eq(n).all()
    nv.finalize()


def run_errors() -> None:
    torch, nv = start()
    n = nv.n_pes()
    x, y, small = nv.tensor(4 * n), nv.tensor(4 * n), nv.tensor(4)
    wide, raw = nv.tensor(2 * n, torch.float64), nv.buffer(16 * n)
    own = torch.zeros(4 * n, device="cuda")
    y.fill_(3)
    for call, text in (
        (lambda: nv.reduce(0, y, own, "sum"), "reduce: src must lie in PE"),
        (lambda: nv.reduce(0, own, y, "sum"), "reduce: dst must lie in PE"),
        (lambda: nv.reduce(0, y, x, "prod"), "op must be one of 'sum', 'min', 'max', but got 'pr"),
        (lambda: nv.reduce(0, y, small, "sum"), "dst must have as many bytes as src, 16"),
        (lambda: nv.reduce(0, y, wide, "sum"), "must have the dtype of src, float64"),
        (lambda: nv.reduce(88, y, x, "sum"), "team must be one of Teams"),
        (lambda: nv.reduce(0, raw, raw, "sum"), "dtype must be one of .* got buffers without one"),
        (lambda: nv.reducescatter(0, y, x, "sum"), f"src must have {n} times the bytes"),
        (lambda: nv.fcollect(0, y, x), f"dst must have {n} times the bytes"),
        (
            lambda: nv.alltoall(0, small[: n + 1], small[: n + 1]),
            f"src must have a multiple of {n}",
        ),
        (lambda: nv.broadcast(0, y, x, root=n), f"root must be in .*, but got {n}"),
        (lambda: nv.collective_on_buffer("scan", 0, y, x), "coll must be one of 'reduce'"),
        (
            lambda: nv.collective_on_buffer("reduce", 0, raw, raw, dtype="quad", op="sum"),
            "dtype must be one of .*'quad'",
        ),
        (lambda: nv.barrier(0, stream=object()), "barrier: stream must be"),
    ):
        refused(call, nv.NvshmemInvalid, text)
    refused(
        lambda: nv.reduce(0, y, x, "sum" if nv.my_pe() else "max"), CollectiveMismatchError, "op"
    )
    assert y.eq(3).all()
    nv.finalize()


@pytest.mark.parametrize(
    ("run", "n"),
    [
        (run_collectives, 2),
        (run_collectives, 3),
        (run_buffers, 2),
        (run_buffers, 3),
        (run_errors, 2),
    ],
)
def test_collectives(run: Callable[[], None], n: int) -> None:
    emu.launch(run, n, preload=["torch"])

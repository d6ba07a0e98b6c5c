"""Block pointers: loads and stores against NumPy, moves, and one warning."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from language_harness import Pointer, Scalar, emit, evaluate, value

import emu.triton.language as tl
from emu import triton

pytestmark = pytest.mark.filterwarnings("ignore:tl.make_block_ptr:FutureWarning")


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], tuple[int, ...]]:
    rank = draw(st.integers(1, 3))
    block = [draw(st.sampled_from([1, 2, 8, 32])) for _ in range(rank)]
    shape = [draw(st.integers(1, 40)) for _ in range(rank)]
    starts = [draw(st.integers(-35, 45)) for _ in range(rank)]
    order = draw(st.permutations(range(rank)))
    return block, shape, starts, tuple(order)


@settings(deadline=None, max_examples=40)
@given(_cases(), st.sampled_from([None, "", "zero", "nan"]), st.booleans())
def test_a_block_is_loaded_and_stored_wherever_it_begins(
    case: tuple[list[int], list[int], list[int], tuple[int, ...]], padding: Any, native: bool
) -> None:
    block, shape, starts, order = case
    rank, axes = len(block), tuple(range(len(block)))
    # ``order`` says in which order the axes lie in memory.
    memory = np.arange(int(np.prod(shape)), dtype=np.float32).reshape([shape[a] for a in order])
    target = np.full_like(memory, -1)
    x, y = (m.transpose(np.argsort(order)) for m in (memory, target))
    strides = [s // 4 for s in x.strides]

    def work(p: Any, q: Any, *numbers: Any) -> Any:
        extents, steps, offsets = (numbers[i * rank : (i + 1) * rank] for i in range(3))
        contiguous = tuple(reversed(order))
        source = tl.make_block_ptr(p, extents, steps, [0] * rank, block, contiguous)
        to = tl.make_block_ptr(q, extents, steps, offsets, block, contiguous)
        found = tl.load(tl.advance(source, offsets), boundary_check=axes, padding_option=padding)
        tl.store(to, found, boundary_check=axes)
        return found

    scalars = [Scalar(n, "int64") for n in (*shape, *strides, *starts)]
    found = evaluate(work, Pointer(memory), Pointer(target), *scalars, native=native)
    wanted = np.full(block, np.nan if padding == "nan" else 0, np.float32)
    stored = np.full(shape, -1, np.float32)
    for place in np.ndindex(*block):
        at = tuple(s + p for s, p in zip(starts, place, strict=True))
        if all(0 <= a < n for a, n in zip(at, shape, strict=True)):
            wanted[place] = stored[at] = x[at]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(y, stored)


@triton.jit
def _product(
    a_ptr, b_ptr, c_ptr, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    a = tl.make_block_ptr(
        base=a_ptr,
        shape=(M, K),
        strides=(sa, 1),
        offsets=(m, 0),
        block_shape=(BM, BK),
        order=(1, 0),
    )
    b = tl.make_block_ptr(b_ptr, (K, N), (1, sb), (0, n), (BK, BN), (0, 1))
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        total = tl.dot(
            tl.load(a, boundary_check=(0, 1), padding_option="zero"),
            tl.load(b, boundary_check=[1, 0]),
            total,
        )
        a = tl.advance(a, (0, BK))
        b = b.advance([BK, 0])
    c = tl.make_block_ptr(c_ptr, (M, N), (sc, 1), (m, n), (BM, BN), (1, 0))
    tl.store(c, total.to(c.dtype.element_ty), boundary_check=(0, 1))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (37, 29, 51)])
def test_a_product_by_block_pointers(m: int, n: int, k: int, backend: str) -> None:
    random = np.random.default_rng(0)
    a = random.standard_normal((m, k), np.float32)
    b = random.standard_normal((n, k), np.float32)
    c = np.full((m, n), np.nan, np.float16)
    grid = (triton.cdiv(m, 16), triton.cdiv(n, 16))
    _product[grid](a, b, c, m, n, k, k, k, n, 16, 16, 16, backend=backend)
    np.testing.assert_allclose(c, a @ b.T, rtol=2e-3, atol=2e-3)


@triton.jit
def _next(pointer, by):
    return tl.advance(pointer, (by,))


@triton.jit
def _every_other(x_ptr, y_ptr, n, B: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (B,), (0,))
    y = tl.make_block_ptr(y_ptr, (n,), (1,), (0,), (B,), (0,))
    done = 0
    while done < n:
        if done % (2 * B) == 0:
            tl.store(y, tl.load(x))
        else:
            tl.store(y, -tl.load(x))
        x = _next(x, B)
        y = _next(y, B)
        done += B


def test_functions_and_loops_carry_block_pointers() -> None:
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    _every_other[(1,)](x, y, 32, 8)
    np.testing.assert_array_equal(y.reshape(4, 8), x.reshape(4, 8) * [[1], [-1], [1], [-1]])


def test_types_are_those_of_pointers_to_blocks() -> None:
    def work() -> Any:
        return tl.make_block_ptr(value("*fp16"), (9, 9), (9, 1), (0, 0), (4, 8), (1, 0))

    made, _ = emit(work)
    assert made.dtype is made.type
    assert made.dtype.is_ptr()
    assert not made.dtype.is_block()
    assert made.dtype.element_ty == tl.block_type(tl.float16, [4, 8])
    assert made.dtype.element_ty.element_ty == tl.float16
    assert str(made) == "pointer<<[4, 8], fp16>>"
    assert made.type == emit(work)[0].type
    assert made.type.mangle() == "Pfp16S4_8S"


def _made(**changed: Any) -> Any:
    arguments = {
        "base": value("*fp32"),
        "shape": (9, 9),
        "strides": (9, 1),
        "offsets": (0, 0),
        "block_shape": (4, 8),
        "order": (1, 0),
    }
    return tl.make_block_ptr(**(arguments | changed))


WRONG: list[tuple[type[Exception], str, Any]] = [
    (TypeError, "base must be a pointer, but got fp32", lambda: _made(base=value("fp32"))),
    (ValueError, "shape must have 2 items", lambda: _made(shape=(9,))),
    (ValueError, "strides must have 2 items", lambda: _made(strides=(9, 1, 1))),
    (ValueError, "offsets must have 2 items", lambda: _made(offsets=())),
    (TypeError, r"offsets\[0\] must be an integer", lambda: _made(offsets=(0.5, 1))),
    (ValueError, "must be a power of 2", lambda: _made(block_shape=(4, 12))),
    (ValueError, "order must have each axis once", lambda: _made(order=(1, 1))),
    (ValueError, "order must have 2 items", lambda: _made(order=(0,))),
    (ValueError, "boundary_check must have axes in", lambda: tl.load(_made(), boundary_check=(2,))),
    (
        ValueError,
        "boundary_check must name each axis once",
        lambda: tl.load(_made(), boundary_check=(0, -2)),
    ),
    (
        TypeError,
        r"boundary_check\[0\] must be an int",
        lambda: tl.load(_made(), boundary_check=("a",)),
    ),
    (TypeError, "boundary_check must be a list", lambda: tl.load(_made(), boundary_check="01")),
    (ValueError, "padding_option must be", lambda: tl.load(_made(), padding_option="one")),
    (
        ValueError,
        "padding_option must not be 'nan' for integers",
        lambda: tl.load(_made(base=value("*int32")), padding_option="nan"),
    ),
    (ValueError, "mask of load must not be given", lambda: tl.load(_made(), mask=True)),
    (ValueError, "other of load must not be given", lambda: tl.load(_made(), other=1.0)),
    (ValueError, "mask of store must not be given", lambda: tl.store(_made(), 1.0, mask=True)),
    (
        ValueError,
        "value of store must broadcast",
        lambda: tl.store(_made(), value("fp32", (8, 4))),
    ),
    (TypeError, "base must be a block pointer", lambda: tl.advance(value("*fp32"), (1,))),
    (ValueError, "offsets must be 2, one an axis", lambda: tl.advance(_made(), (1,))),
]


@pytest.mark.parametrize(("error", "said", "function"), WRONG)
def test_what_is_wrong_is_named(error: type[Exception], said: str, function: Any) -> None:
    with pytest.raises(error, match=said):
        emit(function)


PROGRAM = """
import warnings
import numpy as np
from emu import triton
import emu.triton.language as tl

@triton.jit
def kernel(x_ptr, n, B: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (B,), (0,))
    tl.store(x, tl.load(x) + 1, boundary_check=(0,))

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for block in (2, 4, 8):
        kernel.warmup(np.zeros(8, np.int32), 8, block, grid=(1,), backend="reference")
print([w.category.__name__ for w in seen])
"""


def test_a_process_is_warned_once(tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout == "['FutureWarning']\n"

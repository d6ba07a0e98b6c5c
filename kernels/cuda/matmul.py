"""Matrix products in device memory.

Each element is one chain of fused multiply-adds, k increasing, in fp32 for fp32, fp16 and bf16, in
fp64 for fp64, in int32 for int8: the bits do not depend on sizes, strides or device.
Everything runs on the default stream, after what was put there before.
"""

from __future__ import annotations

from emu.kernels.core.checks import check
from emu.kernels.core.dtypes import BY_NAME
from emu.kernels.cuda.arrays import DeviceArray, empty, place
from emu.kernels.cuda.checks import check_aligned, check_apart, check_written
from emu.kernels.cuda.device import launch, sm_count
from emu.kernels.cuda.matmul_kernels import (
    INPUTS,
    LARGE,
    PRODUCT_KERNELS,
    RESULTS,
    SUMS,
    TILINGS,
    Bias,
    Extents,
    Operand,
    Result,
    Tiling,
)
from emu.kernels.errors import ArgumentError

_KINDS = {
    BY_NAME[name].numpy: BY_NAME[name].short
    for name in ("float32", "float64", "float16", "bfloat16", "int8", "int32")
}
_NAMES = {kind: dtype for dtype, kind in _KINDS.items()}
_MAX_BLOCKS_DOWN = 65535  # of a grid, along y: taller products take several launches


def matmul(
    a: object,
    b: object,
    *,
    out: object = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: object = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> DeviceArray:
    """Multiply matrices: ``alpha * (a @ b) + beta * out + bias``.

    The sums are scaled in the dtype in which they were taken, each operation rounded by itself, and
    the result is rounded once to its dtype. int32 wraps.

    Args:
        a: Matrix of shape (m, k), or (k, m) with ``transpose_a``; float32, float64, float16,
            bfloat16 or int8, any strides.
        b: Matrix of shape (k, n), or (n, k) with ``transpose_b``; the dtype of ``a``, any strides.
        out: Where the result goes, of shape (m, n), any strides, sharing no memory with other
            arguments: float64 for float64, int32 for int8, else float32, float16 or bfloat16. None
            makes a new array, int32 for int8, else of the dtype of ``a``.
        alpha: Factor of the product; an integer for int8.
        beta: Factor of what ``out`` holds; an integer for int8. With 0, ``out`` is not read.
        bias: One number a column, of the dtype of the result; None adds nothing.
        transpose_a: Take ``a`` transposed.
        transpose_b: Take ``b`` transposed.

    Returns:
        The result, in device memory.

    Raises:
        ArgumentError: An argument is not so. Nothing was changed.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    left, right = _matrix(place(a, "a"), "a", transpose_a), _matrix(place(b, "b"), "b", transpose_b)
    _check_inputs(left, right)
    source = _KINDS[left.dtype]
    (m, k), n = left.shape, right.shape[1]
    alpha, beta = _check_factors(source, alpha, beta, out)
    target = _target(source, (m, n), out)
    result = _KINDS[target.dtype]
    column = None if bias is None else _bias(place(bias, "bias"), target)
    read = [(left, "a"), (right, "b"), *([] if column is None else [(column, "bias")])]
    for array, name in read:
        check_aligned(array, name)
        check_apart(target, array, name, "out")
    check_written(target, "out")
    if target.size == 0:
        return target
    tiling = _tiling(source, m, n)
    chunk = _MAX_BLOCKS_DOWN * tiling.rows
    shared = tiling.shared_bytes(SUMS[INPUTS[source]].dtype.itemsize)
    for row in range(0, m, chunk):
        rows = min(chunk, m - row)
        launch(
            PRODUCT_KERNELS[source, result, tiling],
            (-(-n // tiling.columns), -(-rows // tiling.rows)),
            (tiling.threads,),
            _operand(left.address + row * left.strides[0], left.strides),
            _operand(right.address, right.strides[::-1]),  # its columns are its rows here
            Result(target.address + row * target.strides[0], *target.strides),
            Extents(rows, n, k),
            alpha,
            beta,
            Bias(0, 0, 0) if column is None else Bias(column.address, column.strides[0], 1),
            touches=[array.window for array in (target, *(array for array, _ in read))],
            shared_bytes=shared,
        )
    return target


def _matrix(array: DeviceArray, name: str, transposed: bool) -> DeviceArray:
    transposed = check.flag(f"transpose_{name}", transposed)
    if array.ndim != 2:
        raise ArgumentError(f"{name} must have rank 2, but got rank {array.ndim}")
    return array.T if transposed else array


def _check_inputs(left: DeviceArray, right: DeviceArray) -> None:
    if _KINDS.get(left.dtype) not in INPUTS:
        names = ", ".join(_NAMES[kind].name for kind in INPUTS)
        raise ArgumentError(f"a must have one of the dtypes {names}, but got {left.dtype}")
    if right.dtype != left.dtype:
        raise ArgumentError(f"b must have a's dtype {left.dtype}, but got {right.dtype}")
    if left.shape[1] != right.shape[0]:
        raise ArgumentError(
            f"a and b must agree in k, but got the shapes {left.shape} and {right.shape} (after "
            "transposition)"
        )


def _check_factors(source: str, alpha: object, beta: object, out: object) -> tuple[float, float]:
    alpha, beta = check.number("alpha", alpha), check.number("beta", beta)
    if beta != 0 and out is None:
        raise ArgumentError(f"beta must be 0 where out is None, but got {beta}")
    if source == "i8":
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not float(value).is_integer() or not -(2**31) <= value < 2**31:
                raise ArgumentError(f"{name} must be an int32 for int8 matrices, but got {value}")
    return alpha, beta


def _target(source: str, shape: tuple[int, int], out: object) -> DeviceArray:
    sums = INPUTS[source]
    if out is None:
        return empty(shape, _NAMES["i32" if source == "i8" else source])
    target = place(out, "out")
    allowed = [_NAMES[kind] for kind, wanted in RESULTS.items() if wanted == sums]
    if target.dtype not in allowed:
        raise ArgumentError(
            f"out must have one of the dtypes {', '.join(kind.name for kind in allowed)} for "
            f"{_NAMES[source].name} matrices, but got {target.dtype}"
        )
    if target.shape != shape:
        raise ArgumentError(f"out must have the shape {shape}, but got {target.shape}")
    return target


def _bias(bias: DeviceArray, target: DeviceArray) -> DeviceArray:
    if bias.dtype != target.dtype or bias.shape != target.shape[1:]:
        raise ArgumentError(
            f"bias must have the dtype {target.dtype} and the shape {target.shape[1:]}, but got "
            f"{bias.dtype} and {bias.shape}"
        )
    return bias


def _tiling(source: str, m: int, n: int) -> Tiling:
    """Choose large tiles where they give every multiprocessor one; fp64 has no kernels for them."""
    blocks = -(-m // LARGE.rows) * -(-n // LARGE.columns)
    return TILINGS[0] if source != "f64" and blocks >= sm_count() else TILINGS[-1]


def _operand(address: int, strides: tuple[int, ...]) -> Operand:
    """Return a matrix at an address for a kernel; the strides are those along the other axis and along k."""
    step, k_step = strides
    return Operand(address, step, k_step, int(abs(k_step) <= abs(step)))


__all__ = ["matmul"]

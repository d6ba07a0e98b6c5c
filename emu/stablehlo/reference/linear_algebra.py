"""Factorisations, triangular systems, Fourier transforms and batch normalisation, by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from emu.mlir.attributes import BoolAttr, FloatAttr
from emu.mlir.floats import value_of
from emu.mlir.ir import Operation
from emu.stablehlo.attributes import FftType, Transpose
from emu.stablehlo.checks import integer
from emu.stablehlo.reference.dtypes import result_dtype
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import Scope, handles
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.syntax import ints


def _flag(op: Operation, name: str) -> bool:
    found = op.properties.get(name)
    return isinstance(found, BoolAttr) and found.value


def _in_double(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@handles("stablehlo.cholesky")
def _cholesky(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    x = args[0]
    lower = _flag(op, "lower")
    wide = _in_double(x if lower else np.conj(np.swapaxes(x, -1, -2)))
    result = np.full_like(wide, np.nan)
    for index in np.ndindex(*x.shape[:-2]):
        try:
            result[index] = np.linalg.cholesky(wide[index])
        except np.linalg.LinAlgError:
            continue  # XLA gives NaN where a matrix is not positive definite
    found = result if lower else np.conj(np.swapaxes(result, -1, -2))
    return (found.astype(x.dtype),)


@handles("stablehlo.triangular_solve")
def _triangular_solve(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    a, b = (_in_double(x) for x in args)
    is_lower = _flag(op, "lower")
    if _flag(op, "unit_diagonal"):
        identity = np.eye(a.shape[-1], dtype=a.dtype)
        a = np.where(identity != 0, identity, a)
    kind = op.properties["transpose_a"]
    assert isinstance(kind, Transpose)
    if kind.value in ("TRANSPOSE", "ADJOINT"):
        a, is_lower = np.swapaxes(a, -1, -2), not is_lower
    if kind.value == "ADJOINT":
        a = np.conj(a)
    if _flag(op, "left_side"):
        found = _substituted(a, b, is_lower)
    else:
        turned = np.swapaxes(a, -1, -2)
        found = np.swapaxes(_substituted(turned, np.swapaxes(b, -1, -2), not is_lower), -1, -2)
    return (found.astype(args[1].dtype),)


def _substituted(a: Array, b: Array, is_lower: bool) -> Array:
    """Solve ``a x = b`` by substitution, for the lower or the upper triangles of ``a``: zeros in the diagonal divide."""
    found = np.zeros(b.shape, b.dtype)
    count = a.shape[-1]
    for row in range(count) if is_lower else reversed(range(count)):
        known = slice(0, row) if is_lower else slice(row + 1, count)
        total = np.matmul(a[..., row : row + 1, known], found[..., known, :])[..., 0, :]
        found[..., row, :] = (b[..., row, :] - total) / a[..., row, row, None]
    return found


_TRANSFORMS: dict[str, Callable[[Array, Sequence[int], Sequence[int]], Array]] = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}


@handles("stablehlo.fft")
def _fft(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    kind, lengths = op.properties["fft_type"], ints(op.properties["fft_length"])
    assert isinstance(kind, FftType)
    if not args[0].size or 0 in lengths:
        return (np.zeros(result_shape(op), result_dtype(op.result.type)),)
    axes = list(range(args[0].ndim - len(lengths), args[0].ndim))
    found = _TRANSFORMS[kind.value](_in_double(args[0]), lengths, axes)
    return (found.astype(result_dtype(op.result.type)),)


# Batch normalisation


def _along(op: Operation, x: Array) -> tuple[tuple[int, ...], list[int], float]:
    """Return the other dimensions, the shape of a feature's number, and epsilon."""
    feature, epsilon = integer(op, "feature_index"), op.properties["epsilon"]
    if not isinstance(epsilon, FloatAttr):
        raise EvaluationError("epsilon must be a number")
    others = tuple(d for d in range(x.ndim) if d != feature)
    shape = [-1 if d == feature else 1 for d in range(x.ndim)]
    return others, shape, float(value_of(epsilon.bits, str(epsilon.type)))


@handles("stablehlo.batch_norm_inference")
def _inference(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    _, shape, epsilon = _along(op, args[0])
    x, scale, offset, mean, variance = (_in_double(a) for a in args)
    scale, offset, mean, variance = (a.reshape(shape) for a in (scale, offset, mean, variance))
    found = scale * (x - mean) / np.sqrt(variance + epsilon) + offset
    return (found.astype(args[0].dtype),)


@handles("stablehlo.batch_norm_training")
def _training(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    others, shape, epsilon = _along(op, args[0])
    x, scale, offset = (_in_double(a) for a in args)
    # Of no elements NumPy's own mean would warn; it is NaN.
    count = x.size / max(x.shape[integer(op, "feature_index")], 1)
    mean = np.asarray(x.sum(others) / count)
    variance = np.asarray(((x - mean.reshape(shape)) ** 2).sum(others) / count)
    centred = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + epsilon)
    found = scale.reshape(shape) * centred + offset.reshape(shape)
    return [each.astype(args[0].dtype) for each in (found, mean, variance)]


@handles("stablehlo.batch_norm_grad")
def _gradient(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    others, shape, epsilon = _along(op, args[0])
    x, scale, mean, variance, gradient = (_in_double(a) for a in args)
    deviation = np.sqrt(variance + epsilon).reshape(shape)
    centred = x - mean.reshape(shape)
    count = x.size / max(mean.size, 1)
    by_offset = gradient.sum(others)
    by_scale = (gradient * centred / deviation).sum(others)
    moved = (gradient * centred).sum(others).reshape(shape) * centred / deviation**2
    by_input = (
        scale.reshape(shape) / deviation / count
        * (count * gradient - by_offset.reshape(shape) - moved)
    )  # fmt: skip
    return [each.astype(args[0].dtype) for each in (by_input, by_scale, by_offset)]

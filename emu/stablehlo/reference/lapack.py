"""Custom calls of LAPACK, which JAX emits on CPUs: computed by SciPy, whose LAPACK is JAX's own.

Operands and results are those of XLA's handlers: batches of matrices, pivots that start at 1, and an
``info`` per matrix that is not 0 where the routine failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from emu.mlir.attributes import BoolAttr
from emu.mlir.ir import Operation
from emu.stablehlo.reference.custom_calls import computes, number_option, options_of, target_of
from emu.stablehlo.reference.dtypes import result_dtype
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import Scope
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array

Routine = Callable[..., Any]
"""A routine of SciPy for one dtype."""

Solver = Callable[[Operation, Sequence[Array], "Routines"], Sequence[Any]]
"""Computes what a target gives for one matrix of a batch."""

_PREFIXES: dict[str, type[np.generic]] = {
    "s": np.float32,
    "d": np.float64,
    "c": np.complex64,
    "z": np.complex128,
}


class Routines:
    """The routines of LAPACK and BLAS for one dtype."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self._dtype = dtype

    def __call__(self, name: str) -> Routine:
        """Return a routine by its name without the letter of the dtype."""
        from scipy.linalg import get_blas_funcs, get_lapack_funcs

        find = get_blas_funcs if name == "trsm" else get_lapack_funcs
        (found,) = find((name,), dtype=self._dtype)
        return found  # type: ignore[no-any-return]  # SciPy has no types

    def workspace(self, name: str, *args: Any, **kwargs: Any) -> list[int]:
        """Return the best sizes of a routine's workspaces: blocks, and so rounding, depend on them."""
        *sizes, info = self(f"{name}_lwork")(*args, **kwargs)
        if info:
            raise EvaluationError(f"LAPACK's {name} refused its sizes ({info})")
        return [int(np.real(size)) for size in sizes]


def _define(name: str, solver: Solver, *, letters: str = "sdcz", batch: int = 2) -> None:
    """Define ``lapack_<letter><name>_ffi``, whose first operand has ``batch`` own dimensions."""
    for letter in letters:
        target = f"lapack_{letter}{name}_ffi"
        computes(target)(_batched(solver, Routines(_PREFIXES[letter]), batch))


def _batched(solver: Solver, routines: Routines, own: int) -> Callable[..., Sequence[Array]]:
    def handler(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
        try:
            import scipy.linalg  # noqa: F401  # checked before a routine is looked for
        except ImportError:
            raise EvaluationError("needs the package scipy, which is not installed") from None
        batch = args[0].shape[: args[0].ndim - own]
        results = [
            np.zeros(result_shape(op, i), result_dtype(r.type)) for i, r in enumerate(op.results)
        ]
        for index in np.ndindex(*batch):
            given = [each[index] for each in args]
            if any(not each.size for each in given):
                found = _empty(op, given, solver)
            else:
                found = solver(op, given, routines)
            if len(found) != len(results):
                raise EvaluationError(
                    f"@{target_of(op)} has {len(found)} results, but the operation has {len(results)}"
                )
            for result, value in zip(results, found, strict=True):
                if value is not None:
                    result[index] = value
        return results

    return handler


def _empty(op: Operation, args: Sequence[Array], solver: Solver) -> Sequence[Any]:
    """Return what a matrix without elements gives; LAPACK refuses some of them."""
    if solver in (_orgqr, _ormqr):
        # No reflections: Q is the identity, and a product with it changes nothing.
        matrix = args[0] if solver is _orgqr else args[2]
        return [np.eye(*matrix.shape, dtype=matrix.dtype) if solver is _orgqr else matrix]
    return [None] * len(op.results)


def _letter(op: Operation, name: str) -> str:
    """Return an option that is a letter's code."""
    return chr(number_option(op, name))


def _is_set(op: Operation, name: str) -> bool:
    found = options_of(op).get(name)
    return isinstance(found, BoolAttr) and found.value


# Factorisations


def _potrf(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    return lapack("potrf")(args[0], lower=_letter(op, "uplo") == "L", clean=False)  # type: ignore[no-any-return]


def _getrf(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    lu, pivots, info = lapack("getrf")(args[0])
    return lu, pivots + 1, info


def _geqrf(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    (size,) = lapack.workspace("geqrf", *args[0].shape)
    qr, tau, _, info = lapack("geqrf")(args[0], lwork=size)
    return (qr, tau) if len(op.results) == 2 else (qr, tau, info)


def _geqp3(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    if args[1].any():
        raise EvaluationError("a QR factorisation with columns that stay in front is not evaluated")
    qr, pivots, tau, _, _ = lapack("geqp3")(args[0])
    return qr, pivots, tau


def _orgqr(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    a, tau = args
    name = "ungqr" if a.dtype.kind == "c" else "orgqr"
    *_, work, _ = lapack(name)(a, tau, lwork=-1)
    q, _, _ = lapack(name)(a, tau, lwork=int(work[0].real))
    return (q,)


def _ormqr(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    a, tau, c = args
    reflectors = a[:, : len(tau)]
    is_complex = a.dtype.kind == "c"
    name, transposed = ("unmqr", "C") if is_complex else ("ormqr", "T")
    side = "L" if _is_set(op, "left") else "R"
    way = transposed if _is_set(op, "transpose") else "N"
    _, work, _ = lapack(name)(side, way, reflectors, tau, c, lwork=-1)
    product, _, _ = lapack(name)(side, way, reflectors, tau, c, lwork=int(work[0].real))
    return (product,)


def _gehrd(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    low, high = number_option(op, "low") - 1, number_option(op, "high") - 1
    (size,) = lapack.workspace("gehrd", args[0].shape[0], lo=low, hi=high)
    return lapack("gehrd")(args[0], lo=low, hi=high, lwork=size)  # type: ignore[no-any-return]


def _sytrd(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    name = "hetrd" if args[0].dtype.kind == "c" else "sytrd"
    lower = _letter(op, "uplo") == "L"
    (size,) = lapack.workspace(name, args[0].shape[0], lower=lower)
    return lapack(name)(args[0], lower=lower, lwork=size)  # type: ignore[no-any-return]


# Eigenvalues and singular values


def _syevd(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    (a,), lower = args, _letter(op, "uplo") == "L"
    vectors = _letter(op, "mode") == "V"
    name = "heevd" if a.dtype.kind == "c" else "syevd"
    sizes = lapack.workspace(name, a.shape[0], compute_v=vectors, lower=lower)
    names = ("lwork", "liwork") if len(sizes) == 2 else ("lwork", "liwork", "lrwork")
    given = dict(zip(names, sizes, strict=True))
    values, v, info = lapack(name)(a, compute_v=vectors, lower=lower, **given)
    return v, values, info


def _geev(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    (a,) = args
    left, right = (_letter(op, f"compute_{side}") == "V" for side in ("left", "right"))
    (size,) = lapack.workspace("geev", a.shape[0], compute_vl=left, compute_vr=right)
    *values, vl, vr, info = lapack("geev")(a, compute_vl=left, compute_vr=right, lwork=size)
    if a.dtype.kind != "c":
        # Pairs of conjugate vectors lie beside each other, as real and imaginary part.
        vl, vr = (
            _unpacked(values[1], v) if wanted else None for v, wanted in ((vl, left), (vr, right))
        )
    return [*values, vl if left else None, vr if right else None, info]


def _unpacked(imaginary: Array, vectors: Array) -> Array:
    found = vectors.astype(np.result_type(vectors.dtype, np.complex64))
    column = 0
    while column < len(imaginary):
        if imaginary[column] == 0 or column + 1 == len(imaginary):
            column += 1
            continue
        pair = vectors[:, column] + 1j * vectors[:, column + 1]
        found[:, column], found[:, column + 1] = pair, pair.conj()
        column += 2
    return found


def _gees(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    if _letter(op, "sort") == "S":
        raise EvaluationError("a Schur form with sorted eigenvalues is not evaluated")
    vectors = _letter(op, "mode") == "V"

    def unused(*_: object) -> None:
        return None

    *_, work, _ = lapack("gees")(unused, args[0], compute_v=vectors, lwork=-1)
    form, count, *values, v, _, info = lapack("gees")(
        unused, args[0], compute_v=vectors, lwork=int(work[0].real)
    )
    return [form, v if vectors else None, *values, count, info]


def _svd(name: str) -> Solver:
    def solver(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
        mode = _letter(op, "mode")
        vectors, full = mode != "N", mode == "A"
        sizes = {"compute_uv": vectors, "full_matrices": full}
        (size,) = lapack.workspace(name, *args[0].shape, **sizes)
        u, s, vt, info = lapack(name)(args[0], lwork=size, **sizes)
        return args[0], s, u if vectors else None, vt if vectors else None, info

    return solver


# Systems


def _trsm(op: Operation, args: Sequence[Array], blas: Routines) -> Sequence[Any]:
    a, b = args
    found = blas("trsm")(
        1,
        a,
        b,
        side=int(_letter(op, "side") == "R"),
        lower=int(_letter(op, "uplo") == "L"),
        trans_a="NTC".index(_letter(op, "trans_x")),
        diag=int(_letter(op, "diag") == "U"),
    )
    return (found,)


def _gtsv(op: Operation, args: Sequence[Array], lapack: Routines) -> Sequence[Any]:
    low, diagonal, high, b = args
    *_, found, info = lapack("gtsv")(low[1:], diagonal, high[:-1], b)
    # LAPACK writes its factors over the diagonals; what is left there has no meaning.
    return low, diagonal, high, found, info


_define("potrf", _potrf)
_define("getrf", _getrf)
_define("geqrf", _geqrf)
_define("geqp3", _geqp3)
_define("orgqr", _orgqr, letters="sd")
_define("ungqr", _orgqr, letters="cz")
_define("ormqr", _ormqr, letters="sd")
_define("unmqr", _ormqr, letters="cz")
_define("gehrd", _gehrd)
_define("sytrd", _sytrd, letters="sd")
_define("hetrd", _sytrd, letters="cz")
_define("syevd", _syevd, letters="sd")
_define("heevd", _syevd, letters="cz")
_define("geev", _geev)
_define("gees", _gees)
_define("gesdd", _svd("gesdd"))
_define("gesvd", _svd("gesvd"))
_define("trsm", _trsm)
_define("gtsv", _gtsv, batch=1)

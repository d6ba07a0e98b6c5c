"""LAPACK's custom calls give what JAX computes with them on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
from variants import thorough

import emu.sdy
from emu.stablehlo.reference import EvaluationError, evaluate

jax = pytest.importorskip("jax")
pytest.importorskip("scipy")
jnp, lax = jax.numpy, jax.lax
linalg = jax.scipy.linalg
internal = pytest.importorskip("jax._src.lax.linalg")

DTYPES = thorough(("float32", "float64", "complex64", "complex128"), "float32", "complex128")
SHAPES = ((1, 1), (2, 3, 7, 7), (0, 3, 3), (2, 0, 0), (33, 33))
TALL = ((7, 3), (3, 7), (2, 5, 1), (2, 3, 1, 6), (40, 33))


def matrices(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape)
    if "complex" in dtype:
        found = found + 1j * rng.normal(size=shape)
    return found.astype(dtype)


def definite(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    a = matrices(shape, dtype)
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + 3 * np.eye(shape[-1])).astype(dtype)


def check(function, *arguments: np.ndarray) -> None:
    """Compare with what XLA runs; LAPACK is the same, so only the products around it may differ."""
    with jax.enable_x64(True):
        lowered = jax.jit(function).lower(*arguments)
        module = emu.sdy.parse(lowered.as_text())
        expected = jax.tree.leaves(lowered.compile()(*arguments))
    found = evaluate(module, *arguments)
    assert len(found) == len(expected)
    for got, wanted in zip(found, map(np.asarray, expected), strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        tolerance = 200 * float(np.finfo(got.dtype).eps) if got.dtype.kind in "fc" else 0
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


SQUARE = {
    "cholesky": lambda a: jnp.linalg.cholesky(a),
    "cholesky of the upper part": lambda a: linalg.cholesky(a, lower=False),
    "lu": lambda a: lax.linalg.lu(a),
    "eigh": lambda a: lax.linalg.eigh(a, lower=True),
    "eigh of the upper part": lambda a: lax.linalg.eigh(a, lower=False),
    "inverse": jnp.linalg.inv,
    "determinant": jnp.linalg.slogdet,
    "solve": lambda a: jnp.linalg.solve(a, a[..., :1] + 1),
    "hessenberg": lambda a: lax.linalg.hessenberg(a),
    "tridiagonal": lambda a: lax.linalg.tridiagonal(a, lower=True),
    "schur": lambda a: lax.linalg.schur(a),
    "eigenvalues": lambda a: lax.linalg.eig(a),
    "cholesky solve": lambda a: linalg.cho_solve((jnp.linalg.cholesky(a), True), a),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", thorough(list(SQUARE), *list(SQUARE)[::2]))
def test_square_matrices(name: str, dtype: str) -> None:
    for shape in SHAPES:
        if shape[-1] < {"tridiagonal": 2, "hessenberg": 1}.get(name, 0):
            continue  # JAX itself fails there
        check(SQUARE[name], definite(shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", thorough(["eigenvalues", "schur", "lu", "inverse", "hessenberg"], "eigenvalues", "lu")
)
def test_matrices_that_are_not_symmetric(name: str, dtype: str) -> None:
    for shape in ((1, 1), (2, 2), (2, 5, 5), (9, 9)):
        check(SQUARE[name], matrices(shape, dtype, 3))


RECTANGULAR = {
    "qr": lambda a: jnp.linalg.qr(a),
    "complete qr": lambda a: jnp.linalg.qr(a, "complete"),
    "qr with pivots": lambda a: linalg.qr(a, pivoting=True, mode="economic"),
    "product with q": lambda a: internal.ormqr(
        *internal.geqrf(a), jnp.ones((*a.shape[:-2], a.shape[-2], 3), a.dtype), transpose=True
    ),
    "lu": lambda a: lax.linalg.lu(a),
    "svd": lambda a: jnp.linalg.svd(a, full_matrices=False),
    "full svd": lambda a: jnp.linalg.svd(a, full_matrices=True),
    "svd by qr": lambda a: lax.linalg.svd(
        a, full_matrices=False, algorithm=lax.linalg.SvdAlgorithm.QR
    ),
    "singular values": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "pseudo-inverse": jnp.linalg.pinv,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", thorough(list(RECTANGULAR), *list(RECTANGULAR)[::2]))
def test_rectangular_matrices(name: str, dtype: str) -> None:
    for shape in TALL:
        if len(shape) > 2 and name == "qr with pivots":
            continue  # JAX takes one matrix there
        check(RECTANGULAR[name], matrices(shape, dtype, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transposed", [False, True])
def test_triangular_systems(dtype: str, left: bool, lower: bool, transposed: bool) -> None:
    for unit in (False, True):
        for conjugate in (False, True):
            a = matrices((2, 4, 4), dtype) + 4 * np.eye(4, dtype=dtype)
            b = matrices((2, 4, 3) if left else (2, 3, 4), dtype, 2)
            check(
                lambda a, b, unit=unit, conjugate=conjugate: lax.linalg.triangular_solve(
                    a,
                    b,
                    left_side=left,
                    lower=lower,
                    transpose_a=transposed,
                    conjugate_a=conjugate,
                    unit_diagonal=unit,
                ),
                a,
                b,
            )


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_systems(dtype: str) -> None:
    for batch in ((), (3,)):
        diagonals = [matrices((*batch, 6), dtype, i) + (4 if i == 1 else 0) for i in range(3)]
        check(lax.linalg.tridiagonal_solve, *diagonals, matrices((*batch, 6, 2), dtype, 5))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_matrices(dtype: str) -> None:
    a = matrices((5, 5), dtype)
    check(linalg.expm, a)
    check(jnp.linalg.det, a)
    check(lambda a: jnp.linalg.lstsq(a, a[:, :2]), a)
    check(jax.grad(lambda a: jnp.linalg.slogdet(a @ a.T + jnp.eye(5))[1]), a)
    check(jax.grad(lambda a: jnp.linalg.eigvalsh(a @ a.T).sum()), a)


def test_what_has_no_factorisation_is_nan_as_in_jax() -> None:
    a = definite((3, 4, 4), "float32")
    a[1, 2, 2] = -5
    a[2, 0, 0] = np.nan
    check(jnp.linalg.cholesky, a)
    singular = np.zeros((3, 3), np.float32)
    check(lambda a: lax.linalg.lu(a), singular)
    with np.errstate(all="ignore"):
        check(jnp.linalg.inv, singular)


def test_columns_that_stay_in_front_are_refused_by_name() -> None:
    a = matrices((4, 3), "float32")
    lowered = jax.jit(lambda a, p: internal.geqp3(a, p)).lower(a, np.ones(3, np.int32))
    module = emu.sdy.parse(lowered.as_text())
    with pytest.raises(
        EvaluationError, match="custom_call: a QR factorisation with columns that stay"
    ):
        evaluate(module, a, np.ones(3, np.int32))

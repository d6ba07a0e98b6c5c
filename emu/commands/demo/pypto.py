"""Two PyPTO programs in bf16 on several PEs, each compared with NumPy.

The programs are those of ``emu.pypto.programs``. No array is sent to the PEs: each makes its own part
from a seed, or cuts it out of the file. The reference is computed in float64 from the same bf16 inputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from emu.commands import weights

Array = np.ndarray[Any, np.dtype[Any]]
BF16 = np.dtype(ml_dtypes.bfloat16)

GATHER = "AllGather+MatMul"
REDUCE = "MatMul+AllReduce+RMSNorm"
EPSILON = 1e-6
REPEATS = 8
"""The first ones build what is kept for the later ones: plans, buffers."""
_SHAPE = (256, 1024, 512)
_MAX_SIDE = 2048
_MAX_MATRICES = 4


@dataclass(frozen=True, kw_only=True)
class Case:
    """One operation on one shape: x[m, k] times w[k, n]."""

    operation: str
    m: int
    k: int
    n: int
    n_pes: int
    file: Path | None = None
    """File with w. Default: w is random."""
    matrix: str = ""
    """Name of w in the file."""

    @property
    def tolerance(self) -> float:
        """Largest error that is allowed, as :func:`error_of` measures it.

        2^-7 for one rounding to bf16; n_pes times that for a sum over PEs, which rounds at every
        addition, and at least four times: product, residual and norm round as well.
        """
        return (1 if self.operation == GATHER else max(self.n_pes, 4)) * 2.0**-7

    @property
    def moved(self) -> int:
        """Smallest number of bytes that must pass between PEs, over all of them."""
        share = self.m * (self.k if self.operation == GATHER else 2 * self.n)
        return share * (self.n_pes - 1) * 2


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a case."""

    case: Case
    error: float
    seconds: float
    """Time of the slowest PE, in the fastest of the repeats."""

    @property
    def passed(self) -> bool:
        """True if the error is within the tolerance; NaN is not."""
        return self.error <= self.case.tolerance


def random_case(operation: str, n_pes: int) -> Case:
    """Return an operation on random matrices, with sides rounded up to multiples of ``n_pes``."""
    m, k, n = (_up(side, n_pes) for side in _SHAPE)
    return Case(operation=operation, m=m, k=k, n=n, n_pes=n_pes)


def cases_of_file(path: Path, n_pes: int) -> tuple[list[Case], list[str]]:
    """Choose weights from a file.

    Args:
        path: A ``.npy`` or ``.safetensors`` file.
        n_pes: Number of PEs.

    Returns:
        The cases, and notes for the user on what was left out, cut off and padded.

    Raises:
        WeightFileError: The file is broken, or has no fp32, fp16 or bf16 matrix.
    """
    arrays = weights.read(path)
    matrices = weights.float_matrices(arrays)
    if not matrices:
        raise weights.WeightFileError(
            f"{path}: must have a matrix of fp32, fp16 or bf16, but has none among "
            f"{len(arrays)} arrays"
        )
    chosen = dict(list(matrices.items())[:_MAX_MATRICES])
    notes = [
        f"{path.name}: {len(arrays)} arrays, {len(matrices)} float matrices, {len(chosen)} used"
    ]
    cases = []
    for name, matrix in chosen.items():
        k, n = (min(side, _MAX_SIDE) for side in matrix.shape)
        if (k, n) != matrix.shape:
            notes.append(f"{name}: the first {k} x {n} of {matrix.shape[0]} x {matrix.shape[1]}")
        if matrix.dtype != BF16:
            notes.append(f"{name}: rounded from {matrix.dtype} to bfloat16")
        base = Case(operation=GATHER, m=16 * n_pes, k=k, n=n, n_pes=n_pes, file=path, matrix=name)
        gather = replace(base, n=_up(n, n_pes))
        reduce = replace(base, operation=REDUCE, k=_up(k, n_pes))
        if gather.n != n:
            notes.append(f"{name}: {gather.n - n} zero columns added for {GATHER}")
        if reduce.k != k:
            notes.append(f"{name}: {reduce.k - k} zero rows added for {REDUCE}")
        cases += [gather, reduce]
    return cases, notes


def run_case(case: Case) -> Outcome:
    """Run one case and compare what every PE has with the reference."""
    from emu.comm.process.launching import launch

    results = launch(_on_pe, case.n_pes, args=(case,))
    x, w, gamma, residual = (array.astype(np.float64) for array in _inputs(case))
    if case.operation == GATHER:
        error = error_of(np.concatenate([result for result, _ in results], axis=1), x @ w)
    else:
        wide = x @ w + residual
        reference = wide / np.sqrt(np.mean(wide**2, axis=1, keepdims=True) + EPSILON) * gamma
        error = float(np.max([error_of(result, reference) for result, _ in results]))
    times = np.array([seconds for _, seconds in results])
    return Outcome(case=case, error=error, seconds=float(times.max(axis=0).min()))


def error_of(result: Array, reference: Array) -> float:
    """Return the largest difference, relative to the element or the mean magnitude if that is larger."""
    magnitude = np.abs(reference)
    scale = np.maximum(magnitude, magnitude.mean() or 1.0)
    return float(np.max(np.abs(result.astype(np.float64) - reference) / scale))


def _on_pe(case: Case) -> tuple[Array, list[float]]:
    """Run the case REPEATS times on this PE; return its result and the seconds of each."""
    from emu.comm.world.current import world
    from emu.pypto import programs

    here = world()
    x, w, gamma, residual = _inputs(case)
    if case.operation == GATHER:
        x, w = _part(x, 0), _part(w, 1)
        out = np.empty((case.m, w.shape[1]), BF16)

        def call() -> None:
            programs.allgather_matmul(x, w, out)
    else:
        x, w = _part(x, 1), _part(w, 0)
        out = np.empty((case.m, case.n), BF16)

        def call() -> None:
            programs.matmul_allreduce_rmsnorm(x, w, residual, gamma, out, case.n_pes, EPSILON)

    return out, [_timed(call, here.barrier) for _ in range(REPEATS)]


def _part(array: Array, axis: int) -> Array:
    """Return this PE's share of an array along an axis."""
    from emu.comm.world.current import world

    here = world()
    return np.ascontiguousarray(np.split(array, here.n_pes, axis=axis)[here.my_pe])


def _timed(call: Callable[[], None], barrier: Callable[[], None]) -> float:
    barrier()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _inputs(case: Case) -> tuple[Array, Array, Array, Array]:
    """Return x, w, gamma and residual, the same in every process."""
    x, w, residual = (
        np.random.default_rng(seed).standard_normal(shape, np.float32).astype(BF16)
        for seed, shape in enumerate([(case.m, case.k), (case.k, case.n), (case.m, case.n)])
    )
    gamma = np.linspace(0.5, 1.5, case.n, dtype=np.float32).astype(BF16).reshape(1, case.n)
    return x, w if case.file is None else _from_file(case, case.file), gamma, residual


def _from_file(case: Case, file: Path) -> Array:
    """Return the case's matrix, cut off and padded with zeros to k x n."""
    found = weights.read(file)[case.matrix][: case.k, : case.n]
    padded = np.zeros((case.k, case.n), BF16)
    padded[: found.shape[0], : found.shape[1]] = found.astype(BF16)
    return padded


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple

"""The programs of the tour: each runs one thing, checks it, and returns a `Result`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np

from emu.commands.demo import pypto
from emu.commands.demo.pypto import Array, error_of
from emu.commands.demo.result import Result, duration

_REPEATS = 5
_VECTOR = 1_000_000
_ROWS, _COLUMNS = 1024, 781
_BANDWIDTH, _LATENCY = 25e9, 2e-6
_QUIET_SECONDS = 1.0

# A layer of two products, its batch over one axis of the mesh and its hidden features over the other: the second
# product sums over hidden features, so there must be one all-reduce, and nothing else.
_LAYERS = """
sdy.mesh @mesh = <["data"=16, "model"=16]>
func.func @main(%x: tensor<512x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                %up: tensor<1024x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
                %down: tensor<4096x1024xf32>) -> tensor<512x1024xf32> {
  %h = stablehlo.dot %x, %up : (tensor<512x1024xf32>, tensor<1024x4096xf32>) -> tensor<512x4096xf32>
  %a = stablehlo.tanh %h : tensor<512x4096xf32>
  %y = stablehlo.dot %a, %down : (tensor<512x4096xf32>, tensor<4096x1024xf32>) -> tensor<512x1024xf32>
  return %y : tensor<512x1024xf32>
}
"""


def vector_add() -> Result:
    """Add two vectors with a Triton kernel, beside NumPy."""
    from emu.commands.demo.kernels import add_kernel

    x, y = (_random(seed, (_VECTOR,)) for seed in range(2))
    out = np.empty_like(x)
    grid = (-(-_VECTOR // 4096),)

    def launch() -> None:
        add_kernel[grid](x, y, out, _VECTOR, BLOCK=4096)

    launch()
    expected = np.empty_like(x)
    return Result(
        system="Triton",
        what=f"vector add, {_VECTOR:,} fp32",
        n_pes=1,
        reference="NumPy, every bit",
        seconds=_fastest(launch),
        beside=f"NumPy {duration(_fastest(lambda: np.add(x, y, out=expected)))}",
        error=float(np.count_nonzero(out != expected)),
    )


def softmax() -> Result:
    """Compute a softmax with a Triton kernel, beside torch if that is installed, else NumPy."""
    from emu.commands.demo.kernels import softmax_kernel

    x = _random(0, (_ROWS, _COLUMNS))
    out = np.empty_like(x)

    def launch() -> None:
        softmax_kernel[(_ROWS,)](x, out, _COLUMNS, BLOCK=1024)

    launch()
    wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    name, peer = _softmax_of_others(x)
    peer()
    return Result(
        system="Triton",
        what=f"softmax, {_ROWS} x {_COLUMNS} fp32",
        n_pes=1,
        reference="NumPy in fp64",
        error=error_of(out, wide / wide.sum(axis=1, keepdims=True)),
        limit=1e-6,
        seconds=_fastest(launch),
        beside=f"{name} {duration(_fastest(peer))}",
    )


def _softmax_of_others(x: Array) -> tuple[str, Callable[[], object]]:
    if find_spec("torch") is not None:
        import torch

        tensor = torch.from_numpy(x)
        return "torch", lambda: torch.softmax(tensor, dim=1)

    def softmax_of_numpy() -> Array:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    return "NumPy", softmax_of_numpy


def allgather_matmul(n_pes: int) -> Result:
    """Multiply gathered rows with PyPTO."""
    return pypto_case(pypto.random_case(pypto.GATHER, n_pes))


def matmul_allreduce_rmsnorm(n_pes: int) -> Result:
    """Multiply, sum over PEs and normalise with PyPTO."""
    return pypto_case(pypto.random_case(pypto.REDUCE, n_pes))


def pypto_case(case: pypto.Case) -> Result:
    """Run a PyPTO program on one shape."""
    outcome = pypto.run_case(case)
    return Result(
        system="PyPTO",
        what=f"{case.operation}, {case.m} x {case.k} x {case.n} bf16",
        n_pes=case.n_pes,
        reference="NumPy in fp64",
        error=outcome.error,
        limit=case.tolerance,
        seconds=outcome.seconds,
    )


def fused_over_a_link(n_pes: int) -> Result:
    """Gather and multiply with the fused operator of MC2, over an emulated link."""
    from emu.comm.link_model import Link
    from emu.comm.process.launching import launch

    link = Link(bandwidth=_BANDWIDTH, latency=_LATENCY)
    parts = launch(_gather_and_multiply, n_pes, link=link)
    x = np.concatenate([_half_matrix(pe, 128, 1024) for pe in range(n_pes)])
    expected = x.astype(np.float64) @ _half_matrix(-1, 1024, 512).astype(np.float64)
    return Result(
        system="MC2",
        what=f"AllGatherMatmul, {len(x)} x 1024 x 512 fp16, link of 25 GB/s and 2 us",
        n_pes=n_pes,
        reference="NumPy in fp64",
        error=max(error_of(y, expected) for y, _ in parts),
        limit=2.0**-10,  # one rounding to fp16
        seconds=float(np.array([seconds for _, seconds in parts]).max(axis=0).min()),
    )


def _half_matrix(seed: int, rows: int, columns: int) -> Array:
    generator = np.random.default_rng(seed + 1)
    return (generator.uniform(-1, 1, (rows, columns)) / 16).astype(np.float16)


def _gather_and_multiply() -> tuple[Array, list[float]]:
    """Be a PE of `fused_over_a_link`: return the product and the times of the calls after the first."""
    from emu.comm.world.current import world
    from emu.mc2 import all_gather_matmul

    here = world()
    x1, x2 = _half_matrix(here.my_pe, 128, 1024), _half_matrix(-1, 1024, 512)
    y, _ = all_gather_matmul(x1, x2, comm_turn=4)  # starts the communication server
    times = []
    for _ in range(pypto.REPEATS):
        here.barrier()
        start = time.perf_counter()
        y, _ = all_gather_matmul(x1, x2, comm_turn=4)
        times.append(time.perf_counter() - start)
    return np.asarray(y), times


def quant_scatter() -> Result:
    """Quantise rows into a cache with the operator of torch_npu, on NumPy arrays."""
    from emu.torch_npu import npu_quant_scatter_

    batch, length, width = 64, 256, 512
    updates = _random(0, (batch, 1, width)).astype(ml_dtypes.bfloat16)
    scales = np.linspace(0.01, 0.05, width).astype(ml_dtypes.bfloat16)
    positions = np.arange(batch, dtype=np.int32) * 3
    cache = np.zeros((batch, length, width), np.int8)

    def call() -> None:
        npu_quant_scatter_(cache, positions, updates, scales, axis=-2, quant_axis=-1)

    call()
    expected = np.zeros_like(cache)
    quotient = updates.astype(np.float32) / scales.astype(np.float32)
    expected[np.arange(batch), positions] = np.clip(np.rint(quotient[:, 0]), -128, 127)
    return Result(
        system="torch_npu",
        what=f"npu_quant_scatter_, {batch} rows of {width} bf16 into int8",
        n_pes=1,
        reference="NumPy, every bit",
        error=float(np.count_nonzero(cache != expected)),
        seconds=_fastest(call),
    )


def sharded_layers() -> Result:
    """Propagate and partition a sharded program, and count its collectives."""
    import emu.sdy
    from emu.mlir.ir import Operation

    def partition() -> Operation:
        module = emu.sdy.parse(_LAYERS)
        emu.sdy.run_passes(module, "emu-partition-pipeline")
        return module

    module = partition()
    counts: dict[str, int] = {}
    for name in re.findall(
        r"stablehlo\.(all_\w+|reduce_scatter|collective_\w+)", emu.sdy.to_text(module)
    ):
        counts[name] = counts.get(name, 0) + 1
    found = ", ".join(f"{count} {name}" for name, count in counts.items()) or "no collective"
    return Result(
        system="Shardy",
        what=f"two layers on a 16 x 16 mesh, partitioned: {found} per device",
        n_pes=1,
        reference="1 all_reduce, by hand",
        right=counts == {"all_reduce": 1},
        seconds=_fastest(partition),
    )


def deadlock() -> Result:
    """Have two PEs wait for each other, and show what the report says."""
    from emu.comm.errors import DeadlockError
    from emu.comm.process.launching import launch

    start = time.perf_counter()
    report = ""
    try:
        launch(_wait_for_each_other, 2, timeout=_QUIET_SECONDS)
    except ExceptionGroup as group:
        if not any(isinstance(error, DeadlockError) for error in group.exceptions):
            raise
        report = group.message
    return Result(
        system="machine",
        what="a deadlock: two PEs wait for each other",
        n_pes=2,
        reference="a report that names both",
        right=all(f"PE {pe}" in report for pe in range(2)),
        seconds=time.perf_counter() - start,
        report_title="What the deadlock's report said",
        report=report,
    )


def _wait_for_each_other() -> None:
    from emu.comm.ops import Cmp
    from emu.comm.world.current import world

    here = world()
    ready = here.alloc((1,), np.int64, key="ready")
    here.wait_until(ready, Cmp.GE, 1)  # both wait first; either would signal the other afterwards
    here.signal_op(ready, 1, 1 - here.my_pe)


def _random(seed: int, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _fastest(call: Callable[[], object]) -> float:
    """Return the seconds that the fastest of some calls took."""
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)

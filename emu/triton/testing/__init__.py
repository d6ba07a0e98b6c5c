"""Tests and measurements of kernels: ``triton.testing``."""

from emu.triton.runtime import timing
from emu.triton.runtime.timing import do_bench, do_bench_cudagraph, do_bench_proton
from emu.triton.testing.comparison import assert_close
from emu.triton.testing.graphs import cuda_graph_without_gc
from emu.triton.testing.limits import (
    get_dram_gbps,
    get_max_simd_tflops,
    get_max_tensorcore_tflops,
    nvsmi,
)
from emu.triton.testing.report import Benchmark, Mark, perf_report

__all__ = [
    "Benchmark",
    "Mark",
    "assert_close",
    "cuda_graph_without_gc",
    "do_bench",
    "do_bench_cudagraph",
    "do_bench_proton",
    "get_dram_gbps",
    "get_max_simd_tflops",
    "get_max_tensorcore_tflops",
    "nvsmi",
    "perf_report",
]

_summarize_statistics = timing.summarize_statistics  # which other libraries' autotuners take

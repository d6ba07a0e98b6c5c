"""A fused softmax written for a GPU, with device="cuda" and a benchmark of it beside torch.

Run with: emu run -n 1 examples/triton/fused_softmax.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(y_ptr, x_ptr, stride, n_rows, n_columns, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * stride + columns, mask=inside, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * stride + columns, e / tl.sum(e, axis=0), mask=inside)


def softmax(x):
    assert x.is_cuda
    n_rows, n_columns = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_columns)
    softmax_kernel[(min(n_rows, 256),)](y, x, x.stride(0), n_rows, n_columns, BLOCK=block)
    return y


x = torch.randn(1823, 781, device="cuda")
triton.testing.assert_close(softmax(x), torch.softmax(x, dim=1), atol=1e-6)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n_columns"],
        x_vals=[256, 781, 2048],
        line_arg="provider",
        line_vals=["triton", "torch"],
        line_names=["Triton", "Torch"],
        ylabel="GB/s",
        plot_name="softmax",
        args={"n_rows": 512},
    )
)
def benchmark(n_rows, n_columns, provider):
    x = torch.randn(n_rows, n_columns, device="cuda")
    run = softmax if provider == "triton" else (lambda x: torch.softmax(x, dim=1))
    ms = triton.testing.do_bench(lambda: run(x), rep=20)
    return 2 * x.numel() * x.element_size() / ms * 1e-6


benchmark.run(print_data=True)

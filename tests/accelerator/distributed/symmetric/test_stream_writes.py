"""Words written by streams, products that wait for them, and barriers in CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from distributed_tensors import begin
from emulated_devices import refused

import emu

pytest.importorskip("torch.distributed")


def run_words() -> None:
    torch, _, _ = begin()
    import torch.distributed._symmetric_memory as symm_mem

    kind = symm_mem._SymmetricMemory
    words = torch.zeros(6, dtype=torch.uint32, device="cuda")
    kind.memset32(words, offset=1, val=(1 << 32) - 1, count=2)
    kind.stream_write_value32(words, 5, 7)
    torch.ops.symm_mem.memset32_(words, 0, 3, 1)
    assert words.tolist() == [3, (1 << 32) - 1, (1 << 32) - 1, 0, 0, 7]
    for call, text in (
        (lambda: kind.memset32(words, -1, 0, 1), "greater than or equal to 0"),
        (lambda: kind.memset32(words, 0, 1 << 32, 1), r"\(uint32_t\)"),
        (lambda: kind.memset32(words, 0, 0, 0), "count must be a positive"),
        (lambda: kind.memset32(words, 4, 0, 3), "exceeded the numel"),
        (lambda: kind.memset32(words.view(2, 3), 0, 0, 1), "flat, contiguous uint32"),
    ):
        refused(call, RuntimeError, text)


def run_product() -> None:
    """The product is submitted before its input has come, as asynchronous tensor parallelism does."""
    torch, _, _ = begin()
    import torch.distributed._symmetric_memory as symm_mem

    left = torch.zeros(4, 3, device="cuda")
    right = torch.rand(3, 2, device="cuda")
    words = torch.zeros(2, dtype=torch.uint32, device="cuda")
    product = torch.ops.symm_mem._async_input_mm(left, right, words, 0)
    left.copy_(torch.rand(4, 3))
    symm_mem._SymmetricMemory.stream_write_value32(words, 0, 1)
    symm_mem._SymmetricMemory.stream_write_value32(words, 1, 1)
    torch.testing.assert_close(product, left @ right)
    refused(
        lambda: torch.ops.symm_mem._async_input_mm(left, left, words, 0), RuntimeError, "multiplied"
    )


def run_graph() -> None:
    torch, dist, _ = begin()
    import torch.distributed._symmetric_memory as symm_mem

    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    mine = symm_mem.empty(4, device="cuda")
    handle = symm_mem.rendezvous(mine, "0")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        mine.add_(rank + 1)
        handle.barrier()
        total = torch.ops.symm_mem.one_shot_all_reduce(mine, "sum", "0")
        handle.barrier()
    assert not mine.any()
    for turn in (1, 2, 3):
        graph.replay()
        assert total.eq(3 * turn).all()


@pytest.mark.parametrize(("run", "n"), [(run_words, 1), (run_product, 1), (run_graph, 2)])
def test_streams_write_words(run: Callable[[], None], n: int) -> None:
    emu.launch(run, n, preload=["torch"])

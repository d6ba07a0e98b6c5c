"""Collectives where the order of streams is checked."""

from __future__ import annotations

from typing import Any

import pytest
from distributed_tensors import begin
from emulated_devices import LOADED_ONCE

import emu

pytest.importorskip("torch.distributed")


def run_checked() -> None:
    torch, dist, _ = begin()
    from emu.accelerator import stream_check
    from emu.accelerator.stream_errors import StreamOrderError

    stream_check.start()
    n = dist.get_world_size()

    def fresh() -> Any:
        return torch.ones(4, device="cuda")

    def reported(call: Any) -> tuple[str, str, str]:
        stream_check.forget_reports()
        with pytest.raises(StreamOrderError) as caught:
            call()
        (race,) = caught.value.races
        return race.first.what, race.second.what, race.advice.partition(" of ")[0]

    x = fresh()
    work = dist.all_reduce(x, async_op=True)
    forgotten = "nobody waited for the collective"
    assert reported(lambda: x * 2) == ("allreduce", "mul", forgotten)
    assert reported(lambda: x.zero_()) == ("allreduce", "zero_", forgotten)
    work.wait()
    assert (x * 2).tolist() == [2.0 * n] * 4
    # What is waited for on one stream is not waited for on another.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    x = fresh()
    work = dist.all_reduce(x, async_op=True)
    with torch.cuda.stream(side):
        assert reported(lambda: x * 2) == ("allreduce", "mul", forgotten)
        work.wait()
        x * 2
    torch.cuda.synchronize()
    # The collective itself waits for the stream that it is called on, and for no other.
    with torch.cuda.stream(side):
        x = fresh()
    first, second, advice = reported(lambda: dist.all_reduce(x))
    assert (first, second) == ("ones", "allreduce")
    assert advice.startswith("the stream that called the collective never waited for")
    torch.cuda.synchronize()
    dist.all_reduce(x)
    outputs = [fresh() for _ in range(n)]
    dist.all_gather(outputs, fresh())
    assert torch.cat(outputs).sum().item() == 4 * n
    dist.broadcast(outputs[0], 0)
    outputs[0].add_(1)
    work = dist.all_gather(outputs, fresh(), async_op=True)
    assert work.is_completed()
    outputs[0] + outputs[1]
    found = torch.distributed._functional_collectives.all_reduce(fresh(), "sum", list(range(n)))
    assert (found + 1).tolist() == [n + 1.0] * 4
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4, device="cuda"))
    for _ in range(2):
        model(fresh()).sum().backward()
        for parameter in model.parameters():
            parameter.grad.zero_()
    stream_check.stop()


def test_collectives_are_ordered_by_their_waits() -> None:
    emu.launch(run_checked, 2, preload=LOADED_ONCE)

"""Wrong arguments to the host's calls of symmetric memory, and to ``emu.shmem.team``, end in errors that name them.

``EMU_FUZZ_CALLS`` sets how many calls are made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from distributed_tensors import begin
from emulated_devices import LOADED_ONCE
from fuzzing import Fuzzer, Target

import emu
from emu import shmem
from emu.comm.errors import ArgumentError

pytest.importorskip("torch.distributed")

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "600"))


def _targets(torch: Any, kind: Any, symm_mem: Any) -> Iterator[Target]:
    device = torch.device("cuda", 0)
    tensor = symm_mem.empty(4, 6, device=device)
    handle = symm_mem.rendezvous(tensor, "0")
    words = symm_mem.empty(8, dtype=torch.uint32, device=device)

    def target(function: Any, also: Any = None, **good: Any) -> Target:
        name = getattr(function, "__qualname__", repr(function))
        return Target(name=name, function=function, arguments=lambda: dict(good), also=also or {})

    yield target(
        kind.empty_strided_p2p, {"size": ("sizes",)}, size=(4, 6), stride=(6, 1), dtype=torch.float32, device=device,
    )  # fmt: skip
    yield target(
        kind.empty_strided_p2p, {"size": ("sizes",)}, size=[3], stride=[1], dtype=torch.int8, device=device, group_name="0",
    )  # fmt: skip
    size = ("requested size",)
    yield target(
        handle.get_buffer, {"sizes": size, "storage_offset": size, "dtype": size},
        rank=0, sizes=(2, 3), dtype=torch.float32, storage_offset=2,
    )  # fmt: skip
    yield target(
        handle.get_remote_tensor, {"sizes": size, "dtype": size}, peer=0, sizes=(4, 6), dtype=torch.float32,
    )  # fmt: skip
    yield target(
        handle.get_signal_pad, {"sizes": size, "storage_offset": size, "dtype": size},
        rank=0, sizes=(3,), dtype=torch.uint32, storage_offset=2,
    )  # fmt: skip
    yield target(handle.barrier, channel=1, timeout_ms=50)
    yield target(kind.rendezvous, {"group_name": ("group",)}, tensor=tensor, group_name="0")
    yield target(kind.set_backend, {"name": ("backend",)}, name="CUDA")
    yield target(kind.get_backend, device=device)
    yield target(kind.memset32, {"input": ("numel",)}, input=words, offset=2, val=5, count=3)
    yield target(kind.stream_write_value32, {"input": ("numel",)}, input=words, offset=2, val=5)
    yield target(
        lambda size: setattr(kind, "signal_pad_size", size),
        {"size": ("signal_pad_size",)},
        size=9216,
    )
    yield target(shmem.team, group=emu.world())


def run_fuzzer(calls: int) -> None:
    torch, dist, _ = begin()
    import torch.distributed._symmetric_memory as symm_mem

    kind = symm_mem._SymmetricMemory

    def extra() -> list[Any]:
        return [
            torch.zeros(3), torch.zeros(3, device="cuda"), torch.float16, torch.complex64, torch.device("cpu"),
            torch.device("cuda"), torch.device("cuda", 5), torch.device("meta"), "cuda", "cuda:0", torch.Size((2,)),
            emu.world(), dist.group.WORLD, kind,
        ]  # fmt: skip

    fuzzer = Fuzzer(
        list(_targets(torch, kind, symm_mem)), (RuntimeError, ArgumentError), seed=7, extra=extra
    )
    fuzzer.run(calls).check()


def test_wrong_arguments_are_named() -> None:
    emu.launch(run_fuzzer, 1, args=(CALLS,), preload=LOADED_ONCE)

"""What pytest loads beside a library's tests: which of them have no meaning here, and the marks of their plugins."""

from __future__ import annotations

import os

import pytest
import record
from libraries import LIBRARIES


def pytest_configure(config: pytest.Config) -> None:
    """Tell the record what is absent, and declare marks of plugins that are not installed."""
    library = LIBRARIES[os.environ["CONFORMANCE_LIBRARY"]]
    record.absent += library.absent
    if library.pes:
        _join()
    if library.ranks:
        import torch_processes

        torch_processes.install(library.ranks)
    for mark in library.marks:
        config.addinivalue_line("markers", f"{mark}: a mark of the library's suite")


def _join() -> None:
    """Make the process group that tests on several PEs find; PE 0 alone keeps the record, unless another one fails."""
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    record.is_kept = rank == 0

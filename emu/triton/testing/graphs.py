"""CUDA graphs of torch around launches."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cuda_graph_without_gc(*args: object, **kwargs: object) -> Iterator[object]:
    """Capture a graph with ``torch.cuda.graph`` while the garbage collector is off.

    Args:
        *args: Those of ``torch.cuda.graph``.
        **kwargs: Those of ``torch.cuda.graph``.

    Raises:
        NotEmulatedError: The device is emulated, whose graphs nobody captures.
    """
    import torch

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(*args, **kwargs) as graph:  # type: ignore[arg-type, unused-ignore] # torch checks them
            yield graph
    finally:
        if was_enabled:
            gc.enable()

"""What the operators of symmetric memory read and write there, told to the check of races between PEs.

The check sees an operator's own arguments, and only once it has run: behind its last barrier, where they may be the others'
again. So it leaves these operators out, and they tell of each use when it happens.
"""

from __future__ import annotations

import numpy as np
import torch

from emu.accelerator.annotations import Tensor
from emu.comm.world.listened_heaps import find_heaps


def tell(op: str, tensor: Tensor, *, writes: bool) -> None:
    """Tell of the use of a contiguous tensor, if it lies in symmetric memory and somebody listens."""
    heaps = find_heaps()
    if heaps is None:
        return
    with torch._C.DisableTorchFunction():
        start = tensor.data_ptr()
        nbytes = tensor.numel() * tensor.element_size()
    if nbytes and heaps.low <= start < heaps.high:
        span = np.array([[start, start + nbytes]], np.int64)
        heaps.listener.used_spans(f"torch symm_mem::{op}", span, writes=writes)

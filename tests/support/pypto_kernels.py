"""Kernels' common steps, for the tests of PyPTO's communication."""

from __future__ import annotations

import pytest

import emu
import emu.pypto as p
from emu.comm.errors import DeadlockError

d = p.distributed
FP32 = p.DT_FP32


def deadlock_of(function, n_pes=2, **kwargs) -> str:
    """Launch what must hang; return the report."""
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(function, n_pes, timeout=1.0, **kwargs)
    found = caught.value.split(DeadlockError)[0]
    assert found is not None
    return str(caught.value)

"""Injected faults: PEs that die or are slow, stores that arrive late or wrong, lost signals, lack of memory.

``emu run --fault SPEC`` and ``emu.launch(fn, n, faults=emu.Faults(...))`` inject them. Without them nothing of this package is
loaded. docs/faults.md shows each kind.

Internal: names may change in any release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.comm.fault_options import Faults

if TYPE_CHECKING:
    from emu.comm.memory.segment import Segment
    from emu.comm.world.steering import Steering


def inject(segment: Segment, pe: int, faults: Faults, inner: Steering | None) -> Steering:
    """Return what steers PE ``pe``, with faults; ``inner``: what else steers it."""
    from emu.fault.at_once import AtOnce
    from emu.fault.injected import Injected

    return Injected(segment, pe, faults, AtOnce() if inner is None else inner)

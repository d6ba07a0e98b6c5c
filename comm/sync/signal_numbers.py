"""Numbers of operations on words and results of barriers; loads no Numba."""

from __future__ import annotations

FETCH, SET, ADD, SWAP, CAS = range(5)
"""Operations of :func:`emu.comm.sync.signals.atomic`."""

DONE, DIFFERS = 1 << 40, (1 << 40) + 1
"""Results of a passed barrier, with and without agreement; distinct from every int32 generation."""

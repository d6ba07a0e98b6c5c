"""Footprints: what each program of a grid accesses, as far as it follows from the arguments alone.

``lines`` is the arithmetic of offsets that are affine in the lanes of a tile, ``evaluation`` finds the footprints of a
kernel for one grid, ``proofs`` shows that those of different programs are disjoint. Nothing is executed, and memory is
not looked at.

Internal: names may change in any release.
"""

__all__: list[str] = []  # the names are in its modules

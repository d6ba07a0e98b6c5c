"""Matrix products fused with communication: AllGatherMatmul and its family, turn by turn.

Every operator is called by all PEs of a group. It cuts its rows into turns; while the group's
communication servers move one turn, this PE multiplies another. The bits of a result depend on
neither the number of turns nor who was fast: they are those of the whole product and one collective.

Importing this package loads nothing heavy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

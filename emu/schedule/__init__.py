"""Orders of the operations of PEs: explored, shrunk and repeated.

``emu.explore(fn, n)`` and ``emu run --explore`` run a program in many orders, each of which can be repeated exactly;
``emu.launch(fn, n, schedule=emu.Schedule(...))`` runs it in one. docs/schedules.md shows them.

Importing this package loads nothing heavy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

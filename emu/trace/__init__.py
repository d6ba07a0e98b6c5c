"""What happened on every PE, and when: events of a run, their file, and what is read from it.

``emu run --trace FILE`` records a run, ``emu.launch(fn, n, trace=FILE)`` a launch; the end of the file's name says in which format.
``emu.trace.range(name)`` adds what the program wants to see. docs/tracing.md shows them. Without a trace nothing is recorded, and
nothing of this package is on the way.

Importing this package loads nothing heavy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

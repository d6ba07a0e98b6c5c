"""``import triton`` in the processes in which Inductor compiles: :mod:`emu.triton` under its usual name.

Internal: names may change in any release.
"""

from emu.triton import alias

alias.install()

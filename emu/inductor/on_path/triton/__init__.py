"""``import triton`` in the processes in which Inductor compiles: :mod:`emu.triton` under its usual name."""

from emu.triton import alias

alias.install()

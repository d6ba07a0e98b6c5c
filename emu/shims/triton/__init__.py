"""``import triton`` in ``emu run``: the very module :mod:`emu.triton` under its usual name."""

from emu.triton import alias

alias.install()

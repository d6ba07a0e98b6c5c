"""``import triton`` in ``emu run``: the very module :mod:`emu.triton` under its usual name.

What extends Triton by modules that it alone can load is told of it, for when a program imports it.
"""

from emu import triton_distributed
from emu.triton import alias

alias.install()
triton_distributed.install()

"""``import triton`` in the processes in which Inductor compiles: :mod:`emu.triton` under its usual name.

Internal: names may change in any release.
"""

from functools import partial

from emu.accelerator.import_hooks import after_import
from emu.accelerator.patches import Ledger
from emu.inductor import configs
from emu.triton import alias

alias.install()
_ledger = Ledger()  # for good: these processes compile for one program
after_import(configs.MODULE, partial(configs.install, _ledger), _ledger)

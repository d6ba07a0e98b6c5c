"""``import nvshmem`` as another name of :mod:`emu.accelerator.nvshmem`: the very module, and so are its submodules.

The name is ours whether NVIDIA's package is installed or not, as it is with ``triton`` and ``torch_npu``: that one loads a
library that needs a GPU. Nothing is loaded before a program imports it.
"""

from __future__ import annotations

import sys

from emu.accelerator.patches import record
from emu.kernels.core.module_alias import ModuleAlias

_alias = ModuleAlias("nvshmem", __name__.rpartition(".")[0])


def install() -> None:
    """Give :mod:`emu.accelerator.nvshmem` the name ``nvshmem``, until the emulated devices go.

    A second call does nothing. What a program has imported under this name before keeps it for those who hold it.
    """
    if _alias in sys.meta_path:
        return
    _alias.forget()
    sys.meta_path.insert(0, _alias)

    def undo() -> None:
        sys.meta_path.remove(_alias)
        _alias.forget()

    record("sys.meta_path", "nvshmem is a name of emu's module", undo)

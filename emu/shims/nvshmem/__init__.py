"""``import nvshmem`` in ``emu run``: the very module :mod:`emu.accelerator.nvshmem` under its usual name.

It needs torch, with which the emulated devices come; once torch is loaded, the name is found without this folder.
"""

from __future__ import annotations

import importlib
import sys

importlib.import_module("torch")
_accelerator = importlib.import_module("emu.accelerator")
_accelerator.install()  # importing torch has done it, but for `python -S` and its like
sys.modules.pop(__name__, None)
sys.modules[__name__] = importlib.import_module(__name__)

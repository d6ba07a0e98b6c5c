"""``import torch_npu`` in ``emu run``: the very module :mod:`emu.torch_npu` under its usual name.

With torch installed, importing it brings the emulated devices too, and ``torch_npu.npu`` is
``torch.npu``. Without torch the operators are there for NumPy arrays, and ``npu`` is not.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def _load_torch() -> ModuleType | None:
    """Return torch with its emulated devices, or None where there is no torch."""
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":  # torch is there, but something that it needs is not
            raise
        return None
    import emu.accelerator

    emu.accelerator.install()  # importing torch has done it, but for `python -S` and its like
    return torch


def _version(torch: ModuleType | None) -> str:
    """Return torch's release, which torch_npu's own follows, with the suffix ``+emu``."""
    return "0+emu" if torch is None else f"{torch.__version__.partition('+')[0]}+emu"


def _furnish(home: ModuleType, torch: ModuleType | None) -> None:
    """Add the attributes of the module torch_npu that are not operators to ``home``."""
    vars(home).setdefault("__version__", _version(torch))
    home.contrib = importlib.import_module(f"{__name__}.contrib")  # type: ignore[attr-defined] # a new name
    if torch is None:
        return
    home.npu = torch.npu  # type: ignore[attr-defined] # a new name
    sys.modules[f"{__name__}.npu"] = torch.npu
    for name in [name for name in sys.modules if name.startswith("torch.npu.")]:
        sys.modules[name.replace("torch.", f"{__name__}.", 1)] = sys.modules[name]


_torch = _load_torch()
_home = importlib.import_module("emu.torch_npu")
_furnish(_home, _torch)
sys.modules[__name__] = _home

"""PyTorch's accelerators on a machine that has none: ``"cuda"`` and ``"npu"`` tensors in host memory.

A tensor on an emulated device is an ordinary CPU tensor whose *storage* carries a tag; so views,
parameters, detached and saved tensors are on the device of their memory, as they are on a real one. One
torch function mode sees every call that Python code makes into torch: it sends ``device=`` arguments to
the CPU and tags the results, answers ``.device`` and ``.is_cuda``, and refuses what a device refuses:
mixing devices, ``numpy()`` without a copy to the host. Nothing is imported before :func:`install`.

Why a mode, and not tensors of a device of their own: PyTorch's extension point for a device in Python
serves one device type, and never ``"cuda"``; a wrapper tensor that claims to be on ``"cuda"`` ends the
process in autograd, where a build for the CPU has no such device.
"""

from __future__ import annotations

import sys

from emu.accelerator.errors import NotEmulatedError

__all__ = ["NotEmulatedError", "install", "installed", "uninstall"]

_MODE = "emu.accelerator.mode"


def installed() -> bool:
    """Return whether :func:`install` was called in this process; never import torch."""
    mode = sys.modules.get(_MODE)
    return mode is not None and mode.active()


def install() -> None:
    """Emulate the devices ``"cuda"`` and ``"npu"`` in torch from now on.

    Threads started from now on see them too. ``emu run`` calls this when a script imports torch; a
    second call does nothing.

    Raises:
        ModuleNotFoundError: torch is not installed.
    """
    if installed():
        return
    from emu.accelerator.setup import set_up

    set_up()


def uninstall() -> None:
    """Give torch back what :func:`install` replaced; without emulated devices do nothing.

    Meant for tests. Tensors on emulated devices are CPU tensors afterwards. Three things remain: PyTorch's
    "PrivateUse1" device keeps the name ``"npu"``, with a module ``torch.npu`` that has no devices, ``torch.distributed`` keeps the backend "hccl", and threads
    that were started in between keep their mode until they end.

    Raises:
        RuntimeError: A torch function mode entered after :func:`install` is still active in this thread.
    """
    if not installed():
        return
    from emu.accelerator.setup import tear_down

    tear_down()

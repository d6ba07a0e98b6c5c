"""``torch.compile`` through emu: Inductor writes Triton kernels for the CPU, and emu compiles them.

Inductor writes C++ for tensors of the CPU, and needs a C++ compiler for it; for GPUs it writes Triton. After
:func:`install` it writes Triton for the CPU too, the kernels that a GPU would get but for the sizes of
their blocks. ``emu run`` installs it by itself.
"""

from __future__ import annotations

import sys

from emu.inductor.errors import InductorError

__all__ = ["InductorError", "install", "installed", "uninstall"]

_SETUP = "emu.inductor.setup"


def installed() -> bool:
    """Return whether Inductor writes Triton for the CPU in this process; never import torch."""
    setup = sys.modules.get(_SETUP)
    return setup is not None and setup.ledger.is_open


def install() -> None:
    """Let ``torch.compile`` write Triton kernels for the CPU, which emu compiles, from now on.

    ``import triton`` gives :mod:`emu.triton` then, here and in the processes in which Inductor compiles. What
    was compiled before stays as it is. A second call does nothing.

    Raises:
        InductorError: Inductor has been loaded without Triton or with another one, which it does not forget.
        ModuleNotFoundError: torch is not installed.
    """
    if installed():
        return
    from emu.inductor.setup import set_up

    set_up()


def _install_when_needed() -> None:
    """Call :func:`install` once torch.compile is used, as it takes a while to load what that needs."""
    from emu.accelerator import compilers
    from emu.accelerator.import_hooks import after_import

    compilers.allow()
    after_import("torch._dynamo", lambda _: install())


def uninstall() -> None:
    """Let ``torch.compile`` write C++ for the CPU again; without :func:`install` do nothing.

    Meant for tests: what Inductor has loaded of :mod:`emu.triton` stays, and so does its name ``triton``.
    """
    if not installed():
        return
    from emu.inductor.setup import tear_down

    tear_down()

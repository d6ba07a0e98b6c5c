"""The stand-ins: ``triton``, ``torch_npu``, ``pypto`` and ``nvshmem`` can be imported, and torch has emulated devices."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

FOLDER = str(Path(__file__).parents[1] / "shims")
"""Where they are."""


def install() -> None:
    """Let this process import the stand-ins, and the Python processes that it starts; a second call does nothing.

    Their folder becomes the first of ``sys.path``. torch gets its devices when it is imported, or now.
    """
    if FOLDER in sys.path:
        sys.path.remove(FOLDER)
    sys.path.insert(0, FOLDER)
    inherited = os.environ.get("PYTHONPATH", "")
    if FOLDER not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([FOLDER, inherited] if inherited else [FOLDER])
    importlib.import_module("_emu_imports").install()

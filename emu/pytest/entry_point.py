"""What pytest finds by itself where emu is installed: it registers :mod:`emu.pytest`, unless ``-p`` has done so."""

from __future__ import annotations

import importlib
from typing import Any


def pytest_addoption(pluginmanager: Any) -> None:
    """Register the plugin, so that its options exist; it does nothing unless it is asked to."""
    name = __package__
    assert name is not None
    if not pluginmanager.has_plugin(name):
        pluginmanager.register(importlib.import_module(name), name)

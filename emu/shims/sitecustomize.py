"""Runs when a Python process starts below `emu run`: imports are those of a PE."""

import _emu_imports

_emu_imports.install()
_emu_imports.run_next_sitecustomize()

"""Passes: frozen dataclasses whose fields are their options."""

import emu.sdy.dialect  # noqa: F401  # registers the dialects of the modules that passes work on

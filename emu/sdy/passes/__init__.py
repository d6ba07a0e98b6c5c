"""Passes: frozen dataclasses whose fields are their options.

Internal: names may change in any release.
"""

import emu.sdy.dialect  # noqa: F401  # registers the dialects of the modules that passes work on

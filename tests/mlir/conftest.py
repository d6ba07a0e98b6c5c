"""Dialects that the texts of these tests are written in."""

import emu.sdy.dialect  # noqa: F401  # registers StableHLO and sdy with the parser

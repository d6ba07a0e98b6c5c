"""Hand-written programs of the tile IR: each operation at least once, over its dtypes."""

from __future__ import annotations

import tile_cases_along_axes  # noqa: F401 - they register their programs
import tile_cases_of_effects  # noqa: F401 - as above
import tile_cases_of_values  # noqa: F401 - as above
from tile_case_registry import MAKERS
from tile_harness import Program

CASES: list[Program] = [program for make in MAKERS for program in make()]
"""Every program."""

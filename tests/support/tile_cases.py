"""Hand-written programs of the tile IR: each operation at least once, over its dtypes."""

from __future__ import annotations

import re

import tile_cases_along_axes  # noqa: F401 - they register their programs
import tile_cases_of_effects  # noqa: F401 - as above
import tile_cases_of_values  # noqa: F401 - as above
from tile_case_registry import MAKERS
from tile_harness import Program

CASES: list[Program] = [program for make in MAKERS for program in make()]
"""Every program."""

_SIMILAR = [p for p in CASES if re.search(r"-(int|float|narrow)$|^(copy|cast|bitcast)-", str(p))]
QUICK: list[Program] = [p for p in CASES if p not in _SIMILAR or p in _SIMILAR[::3]]
"""Of programs that differ in one operation or dtype every third: each is compiled."""

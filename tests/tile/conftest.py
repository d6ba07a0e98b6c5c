"""Makes what tests of the tile IR share importable: ``tile_harness``, ``tile_cases``, ``tile_programs``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

NAMES = (
    "harness",
    "case_registry",
    "cases_of_values",
    "cases_of_effects",
    "cases_along_axes",
    "cases",
    "programs",
)

for name in NAMES:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"tile_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"tile_{name}"] = module
    spec.loader.exec_module(module)

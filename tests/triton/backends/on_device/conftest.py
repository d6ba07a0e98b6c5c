"""The tests of this folder run on a GPU where there is one, else in Numba's CUDA simulator.

The simulator must be chosen before Numba is imported: each test function is called by name in a helper process,
that of the tests of ``emu.kernels.cuda``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from numba import cuda

_path = Path(__file__).parents[3] / "kernels" / "cuda" / "on_device" / "conftest.py"
_spec = importlib.util.spec_from_file_location("cuda_helper_processes_of_triton", _path)
assert _spec is not None
assert _spec.loader is not None
_helpers: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_helpers)

pytest_pyfunc_call = _helpers.pytest_pyfunc_call
pytest_sessionfinish = _helpers.pytest_sessionfinish


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.fixturenames.append("device")
    metafunc.parametrize("device", ["gpu" if cuda.is_available() else "simulated"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Simulating a device is slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)

"""The tests of this folder run on a GPU where there is one, else in Numba's CUDA simulator."""

from __future__ import annotations

import pytest
from cuda_devices import parametrize_devices, pytest_pyfunc_call, pytest_sessionfinish

__all__ = ["pytest_generate_tests", "pytest_pyfunc_call", "pytest_sessionfinish"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_devices(metafunc)

"""The tests of this folder run on a CUDA device (``cuda_devices`` says which)."""

from __future__ import annotations

import pytest
from cuda_devices import parametrize_devices, pytest_pyfunc_call, pytest_sessionfinish

__all__ = ["pytest_generate_tests", "pytest_pyfunc_call", "pytest_sessionfinish"]

COMPILED = ("test_tiles.py", "test_quant.py", "test_matmul.py")  # who launches only our kernels


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_devices(metafunc, compiled=metafunc.definition.path.name in COMPILED)

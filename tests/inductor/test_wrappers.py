"""Where Inductor writes the code that calls kernels in C++: AOTInductor and ``cpp_wrapper``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's own, of its compiler
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor compiles its C++ with g++"),
]


def test_the_wrapper_in_cpp_calls_kernels_in_cpp(
    inductor: Any, count_launches: Callable[[], int]
) -> None:
    torch = inductor

    def function(x: Any) -> Any:
        return torch.softmax(x.sin(), -1)

    x = torch.randn(30, 41)
    found = torch.compile(function, options={"cpp_wrapper": True})(x)
    torch.testing.assert_close(found, function(x))
    assert count_launches() == 0
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(function)(x), function(x))
    assert count_launches() > 0


def test_a_model_is_packaged_ahead_of_time(inductor: Any, tmp_path: Path) -> None:
    torch = inductor
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU())
    x = torch.randn(4, 8)
    program = torch.export.export(model, (x,))
    with torch.no_grad():
        package = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "model.pt2")
        )
        loaded = torch._inductor.aoti_load_package(package)
        torch.testing.assert_close(loaded(x), model(x))

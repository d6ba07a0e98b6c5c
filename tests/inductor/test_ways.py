"""Ways to compile other than a plain ``torch.compile``, and settings of Inductor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of its compiler


def test_several_results_of_one_masked_row(inductor: Any) -> None:
    torch = inductor

    def function(
        x: Any,
    ) -> Any:  # rows that end within a run of lanes, in a block that ends within the rows
        return x.sum(-1), torch.softmax(x, -1)

    x = torch.randn(12, 100)
    torch.testing.assert_close(torch.compile(function)(x), function(x))


def test_combined_kernels(inductor: Any, count_launches: Callable[[], int]) -> None:
    torch = inductor

    def function(x: Any, y: Any) -> Any:
        return x.sin() + 1, y.cos() * 2

    given = torch.randn(30, 40), torch.randn(7, 9)
    options = {"combo_kernels": True, "combo_kernels_autotune": 0}
    torch.testing.assert_close(torch.compile(function, options=options)(*given), function(*given))
    assert count_launches() >= 1


def test_lists_of_tensors_are_one_kernel(inductor: Any, count_launches: Callable[[], int]) -> None:
    torch = inductor
    given = [[torch.randn(n) for n in (3, 70, 1200)] for _ in range(2)]
    found = torch.compile(torch._foreach_add)(*given)
    assert count_launches() == 1
    torch.testing.assert_close(found, torch._foreach_add(*given))


def test_an_exported_program(inductor: Any) -> None:
    torch = inductor
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU())
    x = torch.randn(4, 8)
    exported = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(torch.compile(exported, fullgraph=True)(x), model(x))


def test_each_block_by_itself(inductor: Any) -> None:
    torch = inductor
    blocks = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(3)]
    model = torch.nn.Sequential(*blocks)
    x = torch.randn(4, 8)
    expected = model(x)
    for block in blocks:
        block.compile()
    torch.testing.assert_close(model(x), expected)


def test_breaks_of_graphs_are_explained(inductor: Any) -> None:
    torch = inductor

    def function(x: Any) -> Any:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    told = torch._dynamo.explain(function)(torch.randn(3))
    assert (told.graph_count, told.graph_break_count) == (2, 1)

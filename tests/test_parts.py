"""``--part``: the tests are dealt out among the parts, those of one function together."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

import pytest


def chosen(conftest: Any, names: list[str], part: tuple[int, int] | None) -> list[str]:
    left: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: left.extend(items))
    config: Any = SimpleNamespace(option=SimpleNamespace(part=part), hook=hook)
    items = [SimpleNamespace(nodeid=name) for name in names]
    conftest.leave_to_other_parts(config, items)
    assert sorted(item.nodeid for item in (*items, *left)) == sorted(names)
    return [item.nodeid for item in items]


@pytest.fixture
def conftest(pytestconfig: pytest.Config) -> Any:
    found = [
        p for p in pytestconfig.pluginmanager.get_plugins() if hasattr(p, "leave_to_other_parts")
    ]
    assert len(found) == 1
    return found[0]


def test_each_test_is_in_one_part_beside_those_of_its_function(conftest: Any) -> None:
    names = [f"tests/test_{file}.py::test_it[{case}]" for file in range(60) for case in range(3)]
    parts = [chosen(conftest, names, (number, 3)) for number in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    functions = [{name.partition("[")[0] for name in part} for part in parts]
    assert [3 * len(f) for f in functions] == [len(part) for part in parts]
    assert min(map(len, functions)) >= 10
    assert chosen(conftest, names, None) == names


def test_each_example_is_in_a_part_of_its_own(conftest: Any) -> None:
    names = [f"tests/test_documents.py::test_it[examples/{n}.py]" for n in range(60)]
    parts = [chosen(conftest, names, (number, 3)) for number in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert all(len(part) > 5 for part in parts)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", ""])
def test_a_part_that_is_none_is_refused(conftest: Any, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"K/N with 1 <= K <= N, but got '{text}'"):
        conftest.as_part(text)
    assert conftest.as_part("2/3") == (2, 3)

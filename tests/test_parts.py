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


class Case:
    """As much of an item as marking needs."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.marks: list[str] = []

    def add_marker(self, mark: str) -> None:
        self.marks.append(mark)


def test_some_cases_of_a_long_test_stay_and_the_others_are_thorough(conftest: Any) -> None:
    kept = conftest.read_long_tests(
        "# why\n\na.py::test_many 3\na.py::test_one 0\na.py::C::test_few 9\n"
    )
    assert kept == {"a.py::test_many": 3, "a.py::test_one": 0, "a.py::C::test_few": 9}
    names = [f"a.py::test_many[{n}]" for n in range(9)]
    names += ["a.py::test_one", "a.py::test_other", *(f"a.py::C::test_few[{n}]" for n in range(2))]
    cases = [Case(name) for name in names]
    conftest.mark_long_tests(cases, kept)
    quick = [case.nodeid for case in cases if not case.marks]
    assert quick == [
        *(f"a.py::test_many[{n}]" for n in (1, 4, 7)),
        "a.py::test_other",
        *(f"a.py::C::test_few[{n}]" for n in range(2)),
    ]
    assert {mark for case in cases for mark in case.marks} == {"slow"}


def test_every_long_test_is_there(conftest: Any) -> None:
    root = conftest.LONG_TESTS.parent.parent
    for test in conftest.read_long_tests(conftest.LONG_TESTS.read_text("utf-8")):
        file, _, name = test.partition("::")
        assert f"def {name.rpartition('::')[2]}(" in (root / file).read_text("utf-8"), test

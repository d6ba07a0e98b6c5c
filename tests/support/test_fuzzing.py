"""The fuzzer finds planted defects, and is content with a function that checks its arguments."""

from __future__ import annotations

from typing import Any

import pytest
from fuzzing import Fuzzer, Target


class Counter:
    """Something with a state."""

    def __init__(self) -> None:
        self.value = 0

    def good(self, step: int) -> None:
        if type(step) is not int or not 0 <= step < 10:
            raise ValueError(f"step must be an integer in [0, 10), but got {step!r}")

    def raw(self, step: int) -> Any:
        return None if step is None else step + "1"  # type: ignore[operator]

    def too_early(self, step: int) -> None:
        self.value += 1
        self.good(step)

    def nameless(self, step: int) -> None:
        if type(step) is not int or not 0 <= step < 10:
            raise ValueError("that is wrong")


def fuzz(method: str) -> list[str]:
    counter = Counter()
    target = Target(name=method, function=getattr(counter, method), arguments=lambda: {"step": 3})
    fuzzer = Fuzzer([target], (ValueError,), seed=1, state=lambda: counter.value)
    return sorted({finding.problem.split(":")[0] for finding in fuzzer.run(200).findings})


def test_a_function_that_checks_has_no_findings() -> None:
    assert fuzz("good") == []


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("raw", "raw TypeError"),
        ("too_early", "the state changed, and then it raised"),
        ("nameless", "names none of ['step']"),
    ],
)
def test_planted_defects_are_found(method: str, problem: str) -> None:
    assert problem in fuzz(method)


def test_calls_are_a_function_of_the_seed() -> None:
    def calls(seed: int) -> list[str]:
        seen: list[str] = []
        target = Target(
            name="f",
            function=lambda step: seen.append(repr(type(step))),
            arguments=lambda: {"step": 3},
        )
        Fuzzer([target], (), seed=seed).run(50)
        return seen

    assert calls(4) == calls(4) != calls(5)

"""Checks of arguments that are looked at once: what passes, as what, and what is refused."""

import numpy as np
import pytest

from emu.triton.runtime import checks


@pytest.mark.parametrize(
    ("given", "found"), [(None, []), ((), []), (["a", "b"], ["a", "b"]), ({"a": 1}, ["a"])]
)
def test_names_come_as_a_list(given, found):
    assert checks.as_names("key", given) == found


@pytest.mark.parametrize("given", ["ab", b"cd", 3, [1], ["a", None]])
def test_what_is_no_list_of_names_is_refused(given):
    with pytest.raises(TypeError, match=r"^key must be a list"):
        checks.as_names("key", given)


def test_a_mapping_is_copied():
    given = {"a": 1}
    found = checks.as_mapping("kwargs", given)
    assert found == given
    assert found is not given
    assert checks.as_mapping("kwargs", None) == {}


@pytest.mark.parametrize("given", [[("a", 1)], {1: "a"}, "a", 3])
def test_what_is_no_mapping_by_name_is_refused(given):
    with pytest.raises(TypeError, match=r"^kwargs must be a dict by name, but got"):
        checks.as_mapping("kwargs", given)


def test_a_function_or_none_passes():
    assert checks.check_function("pre_hook", None) is None
    assert checks.check_function("pre_hook", len) is len
    with pytest.raises(TypeError, match=r"^pre_hook must be a function, but got 3"):
        checks.check_function("pre_hook", 3)


@pytest.mark.parametrize(
    ("given", "found"), [(True, True), (0, False), (1, True), (np.bool_(True), True)]
)
def test_flags_are_bools_or_0_and_1(given, found):
    assert checks.as_flag("debug", given) is found


@pytest.mark.parametrize("given", [2, -1, 1.0, "1", None])
def test_other_flags_are_refused(given):
    with pytest.raises(TypeError, match=r"^debug must be a bool, but got"):
        checks.as_flag("debug", given)


@pytest.mark.parametrize("given", [4, np.int8(4)])
def test_integers_of_any_kind_pass(given):
    assert checks.as_integer("num_warps", given, 1) == 4


@pytest.mark.parametrize(
    ("given", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), ("1", TypeError)]
)
def test_other_integers_are_refused(given, error):
    with pytest.raises(error, match=r"^num_warps must be "):
        checks.as_integer("num_warps", given, 1)

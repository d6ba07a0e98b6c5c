"""Facts about syntax trees and exits that the visits of blocks and loops rely on."""

import ast

import pytest

from emu.tile import types as tile
from emu.tile.ir import Region, Value
from emu.triton.codegen.frame import Fork, Leave, assigned_names, has_return
from emu.triton.codegen.values import constexpr


def statement(text):
    return ast.parse(text).body[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("return", True),
        ("if a:\n    pass\nelse:\n    for i in b:\n        return i", True),
        ("while a:\n    if b:\n        return", True),
        ("a = b", False),
        ("def inner():\n    return 1", False),
        ("if a:\n    def inner():\n        return 1", False),
        ("f(lambda: 1)", False),
    ],
)
def test_a_return_counts_if_it_leaves_the_function_itself(text, found):
    assert has_return(statement(text)) is found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a = b", {"a"}),
        ("a, (b, *c) = d", {"a", "b", "c"}),
        ("a += b", {"a"}),
        ("for i in range(n):\n    a = i", {"i", "a"}),
        ("if (a := b):\n    c: int = 3\nelse:\n    d = 1", {"a", "c", "d"}),
        ("a[b] = c", set()),
        ("f(a)", set()),
    ],
)
def test_a_statement_can_assign_every_name_that_it_stores_to(text, names):
    assert assigned_names(statement(text)) == names


def test_a_fork_has_every_place_where_the_function_is_left_in_order():
    def leave(value):
        return Leave(Region(), constexpr(value), ast.Pass(), None)

    def fork(then, other):
        return Fork(Region(), Value(tile.I1), (Region(), Region()), then, other, None)

    tree = fork(fork(leave(1), leave(2)), fork(leave(3), fork(leave(4), leave(5))))
    assert [end.value.value for end in tree.leaves()] == [1, 2, 3, 4, 5]

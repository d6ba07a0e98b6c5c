"""Trees of profiles."""

from emu.triton.profiler.tree import Node


def test_a_tree_is_the_same_after_json():
    root = Node("ROOT")
    root.child("a").child("b").add({"n": 1})
    root.child("a").child("b").add({"n": 2.5, "m": 1})
    assert root.children["a"].children["b"].metrics == {"n": 3.5, "m": 1}
    assert Node.from_json(root.to_json()) == root

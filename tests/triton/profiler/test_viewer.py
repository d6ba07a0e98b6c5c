"""Reading and printing profiles."""

import pytest

from emu.triton.profiler import sessions, viewer
from emu.triton.profiler.tree import Node


@pytest.fixture
def tree():
    root = Node("ROOT")
    outer = root.child("outer")
    outer.add({"flops16": 4e12, "bytes": 2e9})
    outer.child("kernel").add({"time (ns)": 2e9, "count": 4})
    return root


def test_metrics_of_a_scope_are_those_of_all_in_it(tree):
    expected = {
        "time/s": 2,
        "time/ms": 2000,
        "avg_time/s": 0.5,
        "tflop/s": 2,
        "tflop16/s": 2,
        "gbyte/s": 1,
        "flop/s": 2e12,
    }
    for node in (tree, tree.children["outer"]):
        for metric, number in expected.items():
            assert viewer.value(node, metric) == pytest.approx(number), metric
    assert viewer.value(tree.children["outer"], "bytes") == 2e9
    assert viewer.value(tree, "bytes") is None
    assert viewer.value(Node("empty"), "avg_time/ms") is None
    assert viewer.value(Node("empty"), "tflop/s") is None
    assert viewer.value(tree, "tflop8/s") is None
    assert viewer.value(tree, "xflop/s") is None


def test_a_file_is_read_and_printed(tree, tmp_path, capsys):
    path = str(tmp_path / "x.hatchet")
    sessions.write(path, tree)
    found, metrics = viewer.parse(["time/s", "count"], path)
    assert found == tree
    viewer.print_tree(found, metrics)
    assert capsys.readouterr().out == (
        "time/s count\n2.000 - ROOT\n  2.000 - outer\n    2.000 4.000 kernel\n"
    )


@pytest.mark.parametrize("content", ["", "[]", "{}", "[{}]", "[3]"])
def test_what_is_no_profile_is_refused(tmp_path, content):
    path = tmp_path / "x.hatchet"
    path.write_text(content)
    with pytest.raises(ValueError, match="must be a profile in Hatchet's format"):
        viewer.read(str(path))

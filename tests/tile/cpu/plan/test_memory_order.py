"""Sequences of memory operations keep their order; the check finds a scheduler that does not."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap

from tile_sequences import check_stretch, is_found, sequence, sequences

from emu.tile.cpu.plan import memory_order, schedule


def test_sequences_of_memory_operations_keep_every_dependence():
    for steps in sequences():
        check_stretch(sequence(steps))


def mutants(cls):
    """Return variants of a class with one fault each: an update lost, an off by one, a counter ignored."""
    source = textwrap.dedent(inspect.getsource(cls))
    for number in itertools.count():
        tree = ast.parse(source)
        sites = []
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("place_"):
                continue
            if isinstance(node, ast.FunctionDef):
                for block in (node.body, *(n.body for n in node.body if hasattr(n, "body"))):
                    sites += [
                        ("lost", block, s)
                        for s in block
                        if isinstance(s, ast.Assign) and "self." in ast.unparse(s.targets[0])
                    ]
                for inner in ast.walk(node):
                    if isinstance(inner, ast.BinOp) and isinstance(inner.right, ast.Constant):
                        sites.append(("off by one", inner, inner.right))
                    if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "max":
                        sites += [("ignored", inner.args, a) for a in inner.args]
        if number == len(sites):
            return
        kind, parent, node = sites[number]
        text = f"{kind}: {ast.unparse(node)} at line {node.lineno}"
        if kind == "lost":
            parent[parent.index(node)] = ast.copy_location(ast.Pass(), node)
        elif kind == "off by one":
            node.value = 0
            text = f"{kind}: {ast.unparse(parent)} at line {node.lineno}"
        else:
            parent.remove(node)
            if len(parent) == 1:
                parent.append(parent[0])
        names = dict(vars(memory_order))
        exec(compile(ast.fix_missing_locations(tree), "mutant", "exec"), names)  # noqa: S102 - our own text
        yield text, names[cls.__name__]


HARMLESS = {
    # Loops of one level run in the order of their first operations, and an atomic has a loop of its own.
    "off by one: earlier + 0",
}


def test_every_fault_in_the_order_of_memory_is_found(monkeypatch):
    missed = []
    for text, mutant in mutants(memory_order.MemoryOrder):
        monkeypatch.setattr(schedule, "MemoryOrder", mutant)
        if not is_found():
            missed.append(text)
    missed = [text for text in missed if text.split(" at line ")[0] not in HARMLESS]
    assert not missed, "\n".join(missed)

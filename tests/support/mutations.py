"""Mutants of right programs: each lacks one thing that orders, masks or excludes; and what a run under all checks says of it.

The syntax tree says what can be removed:

* an element of ``pred=[…]``, or a ``pred`` that is no list;
* a wait, a fence, a quiet, a barrier, a sync, taking a lock, releasing it: a statement becomes ``pass``, and the token of a graph's wait or
  barrier becomes that of nothing;
* ``mask=`` of a load, a store or an atomic operation, with its ``other=``;
* ``sem="acquire"``, ``"release"`` or ``"acq_rel"``, which becomes ``"relaxed"``.
"""

from __future__ import annotations

import ast
import copy
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

WAITS = ("wait_until", "wait_until_all", "wait_until_any", "wait_until_some", "wait_for", "Wait")
ORDER = {
    **dict.fromkeys(WAITS, "wait"),
    **{name: name for name in ("fence", "quiet", "barrier", "sync")},
    "set_lock": "lock",
    "clear_lock": "unlock",
}
TOKENS = {"shmem_wait_until": "wait", "shmem_barrier_all": "barrier"}
CHECKS = "race,bounds:all,uninit,streams"
"""All but leaks, of which the examples have some: processes end without freeing."""
NOTHING = "pypto.zeros([1, 1], pypto.DT_INT32)"


class Mutant(NamedTuple):
    """A program that lacks something.

    Attributes:
        kind: What it lacks.
        what: Text of that; with a number, from the second on, where the program has it several times.
        line: Line of the program.
        source: The mutant.
    """

    kind: str
    what: str
    line: int
    source: str


class Verdict(NamedTuple):
    """What a run said: ``how`` is ``race``, ``deadlock``, ``check`` (of another kind), ``error``, ``silent`` or ``time``."""

    how: str
    text: str

    @property
    def is_found(self) -> bool:
        """Whether the run said that something is wrong."""
        return self.how != "silent"


Change = Callable[[ast.AST], None]


def find_mutants(source: str) -> Iterator[Mutant]:
    """Return all mutants of a program."""
    tree = ast.parse(source)
    seen: Counter[tuple[str, str]] = Counter()
    for place, node in enumerate(ast.walk(tree)):
        for kind, what, change in _changes(node):
            seen[kind, what] += 1
            number = seen[kind, what]
            mutant = copy.deepcopy(tree)
            change(list(ast.walk(mutant))[place])
            text = ast.unparse(ast.fix_missing_locations(mutant)) + "\n"
            line = getattr(node, "lineno", 0)
            yield Mutant(kind, what if number == 1 else f"{what} #{number}", line, text)


def _called(node: ast.AST) -> str:
    """Return the name of the function that is called; empty: none is."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _changes(node: ast.AST) -> Iterator[tuple[str, str, Change]]:
    if isinstance(node, ast.Expr) and _called(node.value) in ORDER:
        yield ORDER[_called(node.value)], ast.unparse(node), _to_pass
    if not isinstance(node, ast.Call):
        return
    text = ast.unparse(node)
    if _called(node) in TOKENS:
        yield TOKENS[_called(node)], text, _to_nothing
    for keyword in node.keywords:
        if keyword.arg == "pred":
            value = keyword.value
            if isinstance(value, ast.List) and len(value.elts) > 1:
                for number, element in enumerate(value.elts):
                    yield "pred", f"{ast.unparse(element)} in {text}", _without_element(number)
            else:
                yield "pred", text, _without("pred")
        elif keyword.arg == "mask":
            yield "mask", text, _without("mask", "other")
        elif keyword.arg == "sem" and ast.literal_eval(keyword.value) != "relaxed":
            yield str(ast.literal_eval(keyword.value)), text, _relaxed


def _to_pass(node: ast.AST) -> None:
    """Make a statement do nothing, in place."""
    assert isinstance(node, ast.Expr)
    node.value = ast.Constant(value=None)


def _to_nothing(node: ast.AST) -> None:
    """Make a call the token of nothing; what it had in ``pred`` is behind it no more."""
    assert isinstance(node, ast.Call)
    new = ast.parse(NOTHING, mode="eval").body
    assert isinstance(new, ast.Call)
    node.func, node.args, node.keywords = new.func, new.args, new.keywords


def _without(*names: str) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Call)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg not in names]

    return change


def _without_element(number: int) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Call)
        for keyword in node.keywords:
            if keyword.arg == "pred" and isinstance(keyword.value, ast.List):
                del keyword.value.elts[number]

    return change


def _relaxed(node: ast.AST) -> None:
    assert isinstance(node, ast.Call)
    for keyword in node.keywords:
        if keyword.arg == "sem":
            keyword.value = ast.Constant(value="relaxed")


def run_checked(
    source: str, name: str, n_pes: int, folder: Path, *, beside: Path, checks: str = CHECKS
) -> Verdict:
    """Run a program once under all checks.

    Args:
        source: The program.
        name: Name of its file.
        n_pes: Number of PEs.
        folder: An empty folder, for the program.
        beside: Folder whose files the program may read.
        checks: What is checked.
    """
    for path in beside.iterdir():
        if path.suffix in (".json", ".h"):
            (folder / path.name).write_bytes(path.read_bytes())
    program = folder / name
    program.write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "emu", "run", "-n", str(n_pes), "--check", checks]
    try:
        done = subprocess.run(
            [*command, str(program)],
            capture_output=True,
            text=True,
            timeout=100,
            env=environment,
            cwd=folder,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Verdict("time", str(error.stderr))
    return Verdict(_how(done.returncode, done.stderr), done.stderr)


def _how(status: int, text: str) -> str:
    if "race:" in text or "GridRaceError" in text:
        return "race"
    if "deadlock" in text.lower():
        return "deadlock"
    if status == 3:
        return "check"
    return "error" if status else "silent"

"""Print the metrics of the source tree that docs/dev/plan.md quotes.

Run it from anywhere: ``python docs/dev/metrics.py``. It needs nothing but the standard library.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef
BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.Assert)


def sources() -> dict[Path, str]:
    """Return the product's modules, each once: kernels/ and comm/ by their real paths."""
    emu = (p for p in (ROOT / "emu").rglob("*.py") if p.relative_to(ROOT).parts[1] not in LINKS)
    files = [*(ROOT / "kernels").rglob("*.py"), *(ROOT / "comm").rglob("*.py"), *emu]
    return {path.relative_to(ROOT): path.read_text() for path in sorted(files)}


LINKS = ("kernels", "comm")


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yield every function and method of a module."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def lines_of(function: Function) -> int:
    """Return the number of lines of a function."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def parameters(function: Function) -> int:
    """Return the number of parameters, ``self`` and ``cls`` left out."""
    args = function.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def complexity(function: Function) -> int:
    """Return McCabe's cyclomatic complexity, nested functions included."""
    nodes = list(ast.walk(function))
    operators = sum(len(n.values) - 1 for n in nodes if isinstance(n, ast.BoolOp))
    return 1 + sum(isinstance(n, BRANCHES) for n in nodes) + operators


def comments(text: str) -> int:
    """Return the number of comments, directives such as ``noqa`` left out."""
    found = (
        t
        for t in tokenize.generate_tokens(io.StringIO(text).readline)
        if t.type == tokenize.COMMENT
    )
    return sum(not re.match(r"#\s*(noqa|type:|fmt:)", t.string) for t in found)


def annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations of parameters, results and variables."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.returns is not None:
            yield node.returns
        elif isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation is not None:
            yield node.annotation


def has_any(annotation: ast.expr) -> bool:
    """Return whether ``Any`` occurs in an annotation."""
    return any(isinstance(n, ast.Name) and n.id == "Any" for n in ast.walk(annotation))


def directives(text: str) -> tuple[int, int]:
    """Return the number of ``noqa`` and ``type: ignore``, and how many of them give a reason."""
    found = re.findall(r"#\s*(?:noqa|type:\s*ignore)\b(.*)", text)
    reasons = [
        re.sub(r"^:?\s*[A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)*|^\[[\w, -]+\]", "", rest) for rest in found
    ]
    return len(found), sum(bool(re.search(r"\w{2}", reason)) for reason in reasons)


def mirrored(paths: list[Path]) -> tuple[int, int]:
    """Return the number of modules, and of those with a test file of their name in their room."""
    tests = {p.relative_to(ROOT / "tests") for p in (ROOT / "tests").rglob("test_*.py")}
    rooms: dict[str, set[str]] = {}
    for test in tests:
        rooms.setdefault(test.parts[0], set()).add(test.stem.removeprefix("test_"))
    named = [p for p in paths if p.stem not in ("__init__", "__main__") and "shims" not in p.parts]

    def has_test(path: Path) -> bool:
        parts = path.parts[1:] if path.parts[0] == "emu" else path.parts
        return path.stem.strip("_") in rooms.get(parts[0], set())

    return len(named), sum(map(has_test, named))


def main() -> None:
    """Print the table."""
    texts = sources()
    trees = {path: ast.parse(text) for path, text in texts.items()}
    found = [(path, f) for path, tree in trees.items() for f in functions(tree)]
    sizes = [text.count("\n") for text in texts.values()]
    lengths = sorted(lines_of(f) for _, f in found)
    rooms = Counter()
    for path, text in texts.items():
        rooms["/".join(path.parts[: 2 if path.parts[0] == "emu" else 1])] += text.count("\n")
    test_lines = sum(p.read_text().count("\n") for p in (ROOT / "tests").rglob("*.py"))
    silent = [p for p, text in texts.items() if text.count("\n") >= 100 and not comments(text)]
    marks = [a for tree in trees.values() for a in annotations(tree)]
    ignored = [directives(text) for text in texts.values()]
    modules, tested = mirrored(list(texts))
    print(
        f"modules {len(texts)}, lines {sum(sizes)}; median {statistics.median(sizes)}, max {max(sizes)}"
    )
    print("lines per room:", ", ".join(f"{room} {n}" for room, n in rooms.most_common()))
    print(
        f"functions {len(found)}: lines median {statistics.median(lengths)}, "
        f"p90 {lengths[len(lengths) * 9 // 10]}, max {lengths[-1]}; "
        f"over 50 lines {sum(n > 50 for n in lengths)}; "
        f"over 8 parameters {sum(parameters(f) > 8 for _, f in found)}; "
        f"complexity over 15 {sum(complexity(f) > 15 for _, f in found)}"
    )
    count = sum(map(comments, texts.values()))
    print(
        f"comments {count}, {100 * count / sum(sizes):.2f} per 100 lines; {len(silent)} modules of 100 lines have none"
    )
    print(f"annotations {len(marks)}, with Any {100 * sum(map(has_any, marks)) / len(marks):.1f} %")
    print(
        f"noqa and type: ignore {sum(n for n, _ in ignored)}, with a reason {sum(n for _, n in ignored)}"
    )
    print(
        f"tests {test_lines} lines, {test_lines / sum(sizes):.2f} per product line; a test file of their name: {tested} of {modules} modules"
    )


if __name__ == "__main__":
    main()

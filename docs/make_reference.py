"""Write docs/reference/ from the docstrings, without importing the package.

``python docs/make_reference.py`` writes the pages; with ``--check`` it writes nothing, names the
pages that are out of date and fails if there are any. The same sources always give the same bytes.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
# (folder, the name it is imported by); the symlinks inside emu/ are not followed.
ROOMS = ((ROOT / "emu", "emu"), (ROOT / "comm", "emu.comm"), (ROOT / "kernels", "emu.kernels"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> Iterator[tuple[str, Path]]:
    """Yield (dotted name, file) of every public module, in order of name."""
    found = []
    for folder, package in ROOMS:
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            inside_link = any(parent.is_symlink() for parent in path.parents if parent != folder)
            hidden = any(part.startswith("_") and part != "__init__" for part in parts)
            if inside_link or hidden or "shims" in parts:
                continue
            names = [part for part in parts if part != "__init__"]
            found.append((".".join([package, *names]), path))
    yield from sorted(found)


def page(module: str, path: Path) -> str | None:
    """Return the page of one module, or None where nothing in it is documented."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    doc = ast.get_docstring(tree)
    body = "".join(section(node, 2) for node in tree.body)
    if doc is None and not body:
        return None
    return f"# `{module}`\n\n{doc or ''}\n{body}"


def section(node: ast.stmt, level: int) -> str:
    """Return what the page says of one definition; empty for a private or undocumented one."""
    if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("_"):
        return ""
    doc = ast.get_docstring(node)
    if doc is None:
        return ""
    heading = f"\n{'#' * level} `{node.name}`\n\n"
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        code = f"class {node.name}({bases})" if bases else f"class {node.name}"
        members = fields(node) + "".join(section(inner, level + 1) for inner in node.body)
    else:
        code = signature(node)
        members = ""
    return f"{heading}```python\n{code}\n```\n\n{block(doc)}\n{members}"


def fields(node: ast.ClassDef) -> str:
    """List the attributes of a class which are followed by a string that describes them."""
    lines = []
    for field, text in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)):
            continue
        target = (
            field.targets[0] if isinstance(field, ast.Assign) else getattr(field, "target", None)
        )
        if isinstance(target, ast.Name) and isinstance(text.value.value, str):
            lines.append(f"- `{target.id}`: {' '.join(text.value.value.split())}\n")
    return "\n" + "".join(lines) if lines else ""


def signature(node: Function) -> str:
    """Return the decorators that matter to a caller and the ``def`` line."""
    marks = [f"@{ast.unparse(mark)}\n" for mark in node.decorator_list]
    kept = [
        mark for mark in marks if mark.strip() in {"@property", "@classmethod", "@staticmethod"}
    ]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{''.join(kept)}def {node.name}({ast.unparse(node.args)}){returns}"


def block(doc: str) -> str:
    """Turn a Google-style docstring into Markdown: sections become lists."""
    lines, listing = [], False
    for line in inspect.cleandoc(doc).splitlines():
        if line in {"Args:", "Returns:", "Raises:", "Yields:", "Attributes:"}:
            lines += [f"**{line[:-1]}**", ""]
            listing = True
        elif listing and line.startswith("    ") and not line.startswith("     "):
            lines.append(f"- {line.strip()}")
        elif listing and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            listing = listing and not line
            lines.append(line)
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Return file name to contents for the whole folder."""
    result, index = {}, ["# Reference", "", "Written from the docstrings by `make docs`.", ""]
    for module, path in modules():
        text = page(module, path)
        if text is not None:
            result[f"{module}.md"] = text.rstrip() + "\n"
            first = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split(
                "\n"
            )[0]
            index.append(f"- [`{module}`]({module}.md): {first}")
    result["index.md"] = "\n".join(index) + "\n"
    return result


def main() -> int:
    """Write the pages, or compare them with what stands there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    check = parser.parse_args().check
    wanted = pages()
    present = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
    stale = sorted(
        name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name)
    )
    if check:
        for name in stale:
            print(f"docs/reference/{name} is out of date: run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    REFERENCE.mkdir(exist_ok=True)
    for name in stale:
        if name in wanted:
            (REFERENCE / name).write_text(wanted[name], encoding="utf-8")
        else:
            (REFERENCE / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The gallery: a section for each example, from its docstring, its source and what it printed.

Examples are not run by the build. The recorded outputs lie in ``docs/gallery``, and
``tests/commands/test_examples.py`` runs every example and compares what it prints with them.
"""

import ast
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
OUTPUTS = ROOT / "docs" / "gallery"
MARKER = "<!-- examples -->"
ROOMS = {
    "comm": "PEs and symmetric memory",
    "kernels": "Kernels on plain arrays",
    "triton": "Triton",
    "pypto": "PyPTO",
    "mc2": "MC2",
    "torch_npu": "torch_npu",
    "torch": "PyTorch",
    "sdy": "Shardy",
    "trace": "Traces, counts, predictions",
}


def examples(room: str) -> list[Path]:
    """Return the examples of a room in the order of their names."""
    return sorted((EXAMPLES / room).glob("*.py"))


def output_of(example: Path) -> Path:
    """Return where the recorded output of an example lies."""
    return OUTPUTS / f"{example.parent.name}-{example.stem}.txt"


def section(example: Path) -> str:
    """Return the Markdown of one example."""
    name = example.relative_to(ROOT).as_posix()
    text = ast.get_docstring(ast.parse(example.read_text())) or ""
    prose, _, how = text.partition("Run with: ")
    title, _, rest = prose.partition("\n")
    command = re.match(r"[^,\n]*", how)
    return "\n".join(
        [
            f"### {name.removeprefix('examples/')}",
            "",
            f"{title} {rest.strip()}",
            "",
            "```console",
            f"$ {command[0] if command else ''}",
            output_of(example).read_text().rstrip(),
            "```",
            "",
            "```{raw} html",
            "<details><summary>Source</summary>",
            "```",
            f"```{{literalinclude}} ../{name}",
            "```",
            "```{raw} html",
            "</details>",
            "```",
            "",
        ]
    )


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Put the examples where the page has its marker."""
    if MARKER not in source[0]:
        return
    parts = []
    for room, title in ROOMS.items():
        parts += [f"## {title}", "", *map(section, examples(room))]
        for example in examples(room):
            app.env.note_dependency(str(example))
            app.env.note_dependency(str(output_of(example)))
    source[0] = source[0].replace(MARKER, "\n".join(parts))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

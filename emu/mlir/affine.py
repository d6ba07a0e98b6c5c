"""Affine maps and sets, which are kept as text.

MLIR renames dimensions to ``d0 …`` and symbols to ``s0 …``, and prints each map under a short name
that is defined before the module. Expressions are not simplified.
"""

from __future__ import annotations

import re

_FORM = re.compile(
    r"(affine_(?:map|set)<)\(([^)]*)\)\s*(?:\[([^\]]*)\])?\s*(->|:)\s*(.*)>", re.DOTALL
)
_WORD = re.compile(r"[A-Za-z_][\w$.]*")
_IN_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|affine_(map|set)<(?:->|>=|<=|[^<>"])*>')


def normalize(text: str) -> str:
    """Return a map or set with MLIR's names for dimensions and symbols."""
    match = _FORM.fullmatch(text)
    if match is None:
        return text
    head, dims, symbols, arrow, body = match.groups()
    names: dict[str, str] = {}
    for letter, part in (("d", dims), ("s", symbols or "")):
        for number, name in enumerate(_WORD.findall(part)):
            names[name] = f"{letter}{number}"
    inputs = [name for name in names.values() if name[0] == "d"]
    extra = [name for name in names.values() if name[0] == "s"]
    tail = f"[{', '.join(extra)}]" if extra else ""
    body = _WORD.sub(lambda m: names.get(m[0], m[0]), re.sub(r"\s+", " ", body).strip())
    return f"{head}({', '.join(inputs)}){tail} {arrow} {body}>"


def with_short_names(text: str) -> tuple[str, str]:
    """Replace the maps and sets of a printed module by short names.

    Returns:
        The lines that define the names, and the text.
    """
    if "affine_" not in text:
        return "", text
    # By kind, since maps and sets are counted apart: #map, #map1, #set.
    names: dict[str, dict[str, str]] = {"map": {}, "set": {}}

    def name(match: re.Match[str]) -> str:
        kind = match[1]
        if kind is None:
            return match[0]
        known = names[kind]
        return known.setdefault(match[0], f"#{kind}{len(known) or ''}")

    text = _IN_TEXT.sub(name, text)
    lines = [f"{short} = {full}\n" for known in names.values() for full, short in known.items()]
    return "".join(lines), text

"""Texts of errors about names: what was probably meant, and how a call does not fit a function."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Sequence

_SAME = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keep_dims",
    "keepdims": "keep_dims",
    "size": "shape",
    "type": "dtype",
    "default": "other",
    "fill_value": "value",
    "stop": "end",
    "ptr": "pointer",
}
"""Names that parameters have in NumPy and torch."""


def suggestion(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return ``"; did you mean tl.arange?"``, or ``""`` where nothing known is near.

    Args:
        name: What was written.
        known: Names that there are.
        prefix: Put before the nearest.
    """
    names = sorted({n for n in known if not n.startswith("_")})
    folded = {n.lower(): n for n in names}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if not near:
        return ""
    return f"; did you mean {prefix}{folded[near[0]]}?"


def misfit(
    function: str, parameters: Sequence[inspect.Parameter], positional: int, keywords: Iterable[str]
) -> str | None:
    """Return why a call does not fit a function's parameters; ``None`` if it does.

    Args:
        function: Its name, as the error says it.
        parameters: Its parameters.
        positional: Number of positional arguments.
        keywords: Names of the others.
    """
    given = list(keywords)
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    kinds = {p.kind for p in parameters}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for name in given:
            if name not in by_name:
                same = _SAME.get(name)
                near = f"; did you mean {same}?" if same in by_name else suggestion(name, by_name)
                listed = "" if near else f"; it has {', '.join(sorted(by_name)) or 'no parameters'}"
                return f"{function} got an unexpected keyword argument {name!r}{near}{listed}"
    if positional > len(takes) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        plural = "" if len(takes) == 1 else "s"
        listed = f" ({', '.join(p.name for p in takes)})" if takes else ""
        return (
            f"{function} takes {len(takes)} positional argument{plural}{listed}, but {positional} "
            f"{'was' if positional == 1 else 'were'} given"
        )
    for param in takes[:positional]:
        if param.name in given and param.name in by_name:
            return f"{function} got multiple values for argument {param.name!r}"
    filled = {p.name for p in takes[:positional]} | set(given)
    lacking = [
        p.name
        for p in parameters
        if (p in takes or p.kind is p.KEYWORD_ONLY)
        and p.default is p.empty
        and p.name not in filled
    ]
    if not lacking:
        return None
    plural = "" if len(lacking) == 1 else "s"
    said = ", ".join(repr(n) for n in lacking)
    return f"{function} missing {len(lacking)} required argument{plural}: {said}"

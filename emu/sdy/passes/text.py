"""Passes as text: ``sdy-basic-propagate{keep-sharding-rules=true}`` and pipelines of them.

The grammar is MLIR's: ``builtin.module(func.func(a,b{x=1 y=2}),c)``. Options
are the fields of a pass; ``keep-sharding-rules`` is ``keep_sharding_rules``.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import pkgutil
import re
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache

from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError, check, check_text
from emu.sdy.passes.base import Pass, registered

_ANCHORS = ("builtin.module", "func.func", "any")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")


class PassTextError(ArgumentError):
    """An unknown pass or option, or a text that is not a pipeline."""


@cache  # returns the registry itself, which includes later registrations
def known_passes() -> Mapping[str, type[Pass]]:
    """Import all modules with passes, and return all passes by name."""
    package = importlib.import_module("emu.sdy.passes")
    for module in pkgutil.walk_packages(package.__path__, "emu.sdy.passes."):
        importlib.import_module(module.name)
    return registered()


def make_pass(name: str, options: Mapping[str, str] | None = None) -> Pass:
    """Return a pass by its name.

    Args:
        name: The name, ``"sdy-close-shardings"``.
        options: Values as text, by the option's name with dashes or underscores.

    Raises:
        PassTextError: The pass, an option or a value is unknown.
    """
    passes = known_passes()
    if name not in passes:
        near = difflib.get_close_matches(name, passes, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise PassTextError(f"no pass is called {name!r}{hint}")
    kind = passes[name]
    types_ = typing.get_type_hints(kind)
    fields = {field.name: types_[field.name] for field in dataclasses.fields(kind)}
    values = {}
    for option, text in (options or {}).items():
        field = option.replace("-", "_")
        if field not in fields:
            has = ", ".join(name.replace("_", "-") for name in fields) or "none"
            raise PassTextError(f"pass {name} has no option {option!r} (it has: {has})")
        values[field] = _value(fields[field], text, f"option {option} of {name}")
    return kind(**values)


def _value(kind: object, text: str, what: str) -> object:
    if isinstance(kind, types.UnionType):
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if kind is bool:
        if text.lower() not in {"", "true", "false", "1", "0"}:
            raise PassTextError(f"{what} must be true or false, but got {text!r}")
        return text.lower() in {"", "true", "1"}
    if typing.get_origin(kind) is tuple:
        return tuple(text.split(",")) if text else ()
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise PassTextError(f"{what} must be a whole number, but got {text!r}") from None
    if isinstance(kind, type) and issubclass(kind, Enum):
        names = {str(member.value): member for member in kind}
        if text not in names:
            raise PassTextError(f"{what} must be one of {', '.join(names)}, but got {text!r}")
        return names[text]
    return text


def parse_options(text: str) -> dict[str, str]:
    """Return the options in ``"a=b c=d e"`` as a dict; values may be quoted or in braces."""
    found: dict[str, str] = {}
    for match in re.finditer(r"""([\w.-]+)(?:=("[^"]*"|'[^']*'|\{[^}]*\}|\S*))?""", text):
        value = match[2] or ""
        found[match[1]] = value[1:-1] if value[:1] in {'"', "'", "{"} else value
    return found


def parse_pipeline(text: str) -> list[Pass]:
    """Return the passes of a pipeline, in order.

    Args:
        text: Passes separated by commas; ``builtin.module(…)`` and
            ``func.func(…)`` around them are optional.

    Raises:
        PassTextError: The text is not a pipeline, or names an unknown pass or option.
    """
    check_text("pipeline", text)
    try:
        passes, end = _passes(text, 0)
    except RecursionError:
        raise PassTextError(f"pipeline {text[:40]!r}… is nested too deeply") from None
    if end != len(text):
        raise PassTextError(f"pipeline {text!r}: nothing is expected at {text[end:]!r}")
    return passes


def passes_of(passes: object) -> list[Pass]:
    """Return the passes of an argument ``passes``: a text, a pass or several passes.

    Raises:
        PassTextError: The text is not a pipeline, or names an unknown pass or option.
        ArgumentError: The argument has the wrong type.
    """
    if isinstance(passes, str):
        return parse_pipeline(passes)
    if isinstance(passes, Pass):
        return [passes]
    if not isinstance(passes, Sequence) or isinstance(passes, bytes):
        raise ArgumentError(
            "passes must be a pipeline as text, a pass or a list of passes, "
            f"but got {shown(passes, with_type=True)}"
        )
    return [
        check(f"passes[{index}]", each, Pass, "a pass")  # type: ignore[type-abstract]  # only isinstance is called
        for index, each in enumerate(passes)
    ]


def _passes(text: str, at: int) -> tuple[list[Pass], int]:
    passes: list[Pass] = []
    while at < len(text) and text[at] != ")":
        match = _NAME.match(text, at)
        if match is None:
            raise PassTextError(f"pipeline {text!r}: a pass is expected at {text[at:]!r}")
        name, at = match[0], match.end()
        if text[at : at + 1] == "(":
            if name not in _ANCHORS:
                raise PassTextError(f"pipeline {text!r}: {name!r} holds no passes")
            inner, at = _passes(text, at + 1)
            if text[at : at + 1] != ")":
                raise PassTextError(f"pipeline {text!r}: a ')' is missing")
            passes += inner
            at += 1
        else:
            options = ""
            if text[at : at + 1] == "{":
                options, at = _braces(text, at)
            passes.append(make_pass(name, parse_options(options)))
        if text[at : at + 1] == ",":
            at += 1
    return passes, at


def _braces(text: str, at: int) -> tuple[str, int]:
    depth = 0
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[at + 1 : end], end + 1
    raise PassTextError(f"pipeline {text!r}: a '}}' is missing")

"""The parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class Parser(argparse.ArgumentParser):
    """A parser that takes ``--`` as no option's value.

    Before Python 3.13 ``--option=--`` leaves an empty list where the option's value is expected, past its type and its choices.
    """

    def parse_known_args(  # type: ignore[override] # a namespace is all that comes here
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse words; end the program with a line for a wrong one."""
        known, rest = super().parse_known_args(args, namespace)
        for action in self._actions:
            value = getattr(known, action.dest, None)
            many = isinstance(action, argparse._AppendAction)
            if action.option_strings and action.nargs is None and _is_missing(value, many):
                self.error(f"argument {'/'.join(action.option_strings)}: expected one argument, but got '--'")  # fmt: skip
        return known, rest


def make_parser(**settings: Any) -> argparse.ArgumentParser:
    """Return such a parser, by the name by which those that add commands to it know it.

    Args:
        **settings: Arguments of ``argparse.ArgumentParser``.
    """
    return Parser(**settings)


def _is_missing(value: object, many: bool) -> bool:
    """Return whether a value, or one of many, is what stands for ``--``."""
    if many:
        return isinstance(value, list) and [] in value
    return value == [] and isinstance(value, list)

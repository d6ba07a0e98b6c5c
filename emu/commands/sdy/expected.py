"""``-verify-diagnostics``: compares diagnostics with those expected in the text.

A comment ``// expected-error {{text}}`` expects an error with that text for its
line; ``@+1``, ``@-2``, ``@above`` and ``@below`` mean other lines, ``@unknown`` a
diagnostic without a location. ``expected-error-re`` has regular expressions
between inner braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from emu.mlir.diagnostics import Diagnostic, Location, Severity, file_place

_COMMENT = re.compile(
    r"expected-(error|note|remark|warning)(-re)? *"
    r"(@([+-])(\d+)|@above|@below|@unknown)? *\{\{(.*?)\}\}\s*$"
)


@dataclass(slots=True)
class _Expected:
    severity: Severity
    line: int | None
    text: str
    pattern: re.Pattern[str] | None
    comment_line: int
    met: bool = False

    def matches(self, message: str) -> bool:
        if self.pattern is not None:
            return self.pattern.search(message) is not None
        return self.text in message


def check_expected(text: str, diagnostics: Iterable[Diagnostic]) -> list[str]:
    """Return the differences between expected and emitted diagnostics.

    Args:
        text: The text, with its comments.
        diagnostics: The emitted diagnostics; notes count separately.

    Returns:
        One line per difference; none if all expectations are met.
    """
    expected = _announced(text)
    wrong = []
    for diagnostic in diagnostics:
        for each in (diagnostic, *diagnostic.notes):
            line = line_of(each.location)
            # As in MLIR, several diagnostics may meet one expectation, but at least one must.
            met = [e for e in expected if e.line == line and e.matches(each.message)]
            right = next((e for e in met if e.severity is each.severity), None)
            if right is not None:
                right.met = True
            elif met:
                wrong.append(
                    f"{line}: '{each.severity.value}' diagnostic emitted when expecting a "
                    f"'{met[0].severity.value}': {each.message}"
                )
            else:
                wrong.append(f"{line}: unexpected {each.severity.value}: {each.message}")
    wrong += [
        f'{e.comment_line}: expected {e.severity.value} "{e.text}" was not produced'
        for e in expected
        if not e.met
    ]
    return wrong


def line_of(location: Location) -> int | None:
    """Return the line of the first file location inside a location, or None."""
    place = file_place(location)
    return None if place is None else place.line


def _announced(text: str) -> list[_Expected]:
    """Return the expected diagnostics.

    ``@below`` and ``@above`` mean the next and the previous line without an
    expectation of its own.
    """
    found: list[_Expected] = []
    below: list[_Expected] = []
    last_plain = 0
    for number, line in enumerate(text.split("\n"), 1):
        match = _COMMENT.search(line)
        if match is None:
            # This line is the first without a comment: "below" and "above" skip those that have one.
            for each in below:
                each.line = number
            below.clear()
            last_plain = number
            continue
        kind, regular, where, sign, distance, words = match.groups()
        each = _Expected(Severity(kind), number, words, None, number)
        if regular:
            each.pattern = _pattern(words)
        if where == "@unknown":
            each.line = None
        elif where == "@above":
            each.line = last_plain
        elif where == "@below":
            below.append(each)
        elif where:
            each.line = number + int(sign + distance)
        found.append(each)
    return found


def _pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a literal text with ``{{regular expressions}}`` in it."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return re.compile("".join(f"({p})" if i % 2 else re.escape(p) for i, p in enumerate(parts)))

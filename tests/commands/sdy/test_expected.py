"""Diagnostics against what a text announces."""

from __future__ import annotations

from emu.commands.sdy.expected import check_expected
from emu.mlir.diagnostics import UNKNOWN, Diagnostic, FileLoc, NameLoc, Severity


def error(line: int, text: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, FileLoc("f", line, 1), text)


def test_the_line_itself_and_lines_around_it() -> None:
    text = "x // expected-error {{one}}\n// expected-error @+1 {{two}}\ny\n// expected-error@-1 {{three}}"
    assert check_expected(text, [error(1, "is one"), error(3, "two"), error(3, "three")]) == []
    assert check_expected(text, [error(1, "one"), error(3, "two")]) == [
        '4: expected error "three" was not produced'
    ]


def test_above_and_below_skip_lines_that_announce() -> None:
    text = "x\n// expected-error @above {{one}}\n// expected-error @below {{two}}\n// expected-error @below {{three}}\ny"
    assert check_expected(text, [error(1, "one"), error(5, "two"), error(5, "three")]) == []


def test_another_severity_is_said() -> None:
    text = "x // expected-warning {{one}}"
    (first, second) = check_expected(text, [error(1, "one")])
    assert first == "1: 'error' diagnostic emitted when expecting a 'warning': one"
    assert second == '1: expected warning "one" was not produced'


def test_notes_count() -> None:
    noted = error(1, "one").note("see here", FileLoc("f", 2, 1))
    assert check_expected("x // expected-error {{one}}", [noted]) == [
        "2: unexpected note: see here"
    ]
    text = "x // expected-error {{one}}\n// expected-note @+0 {{see}}"
    assert check_expected(text, [noted]) == []


def test_patterns_and_unknown_places() -> None:
    text = "// expected-error-re @unknown {{at {{[0-9]+}} (exactly)}}"
    assert check_expected(text, [Diagnostic(Severity.ERROR, UNKNOWN, "at 12 (exactly)")]) == []
    wrong = check_expected(text, [Diagnostic(Severity.ERROR, UNKNOWN, "at x (exactly)")])
    assert wrong[0] == "None: unexpected error: at x (exactly)"


def test_a_named_place_has_the_line_inside() -> None:
    named = Diagnostic(Severity.ERROR, NameLoc("n", FileLoc("f", 1, 1)), "one")
    assert check_expected("x // expected-error {{one}}", [named]) == []

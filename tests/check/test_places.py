"""Lines of a program as reports name and quote them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from emu.check.places import between, quoted


class At(NamedTuple):
    """A line."""

    file: str
    line: int


def test_a_line_is_quoted_where_it_can_be_read(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("first = 1\n    second = 2\n")
    assert quoted("head", str(script), 2) == ["head", "    second = 2"]
    assert quoted("head", str(script), 3) == ["head"]
    assert quoted("head", "", 0) == ["head"]


def test_lines_of_one_file_are_named_by_their_numbers() -> None:
    assert between(At("a.py", 3), At("a.py", 7)) == ("line 3", "line 7")
    assert between(At("a.py", 3), At("b.py", 7)) == ("a.py:3", "b.py:7")

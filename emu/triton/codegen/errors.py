"""Errors of compilation: where, the line with a caret, what is wrong, and from where it was called."""

from __future__ import annotations

import ast
from typing import Any

from emu.triton.errors import TritonError


class CompilationError(TritonError):
    """A kernel cannot be compiled.

    The text has a part for each call that led to the error, the kernel's own first: file, line, column
    (from 1), the function, the position in the source from ``def`` on (as Triton counts: columns
    from 0), the line and a caret below it. The message comes last.

    Attributes:
        src: The source of the function, from ``def`` on.
        node: Node of that source's tree that the error is about.
        error_message: Description of the error; ``None`` where the error is that of a called function, which is
            then the ``__cause__``.
        message: The whole text.
    """

    def __init__(
        self,
        src: str | None,
        node: ast.AST,
        error_message: str | None = None,
        *,
        file: str = "",
        line: int = 0,
        column: int = 0,
        function: str = "",
        called: CompilationError | None = None,
    ) -> None:
        """Make the error.

        Args:
            src: The source of the function, if it is known.
            node: A node of its tree.
            error_message: Description of the error.
            file: Path of the file.
            line: Line of the node in the file, from 1.
            column: Its column there, from 1.
            function: Name of the function.
            called: The error in the function that is called here.
        """
        super().__init__()
        self.src = src
        self.node = node
        self.error_message = error_message
        self.file = file
        self.line = line
        self.column = column
        self.function = function
        self.called = called
        self.message = self._text()

    def _text(self) -> str:
        places: list[tuple[str, int]] = []
        error: CompilationError | None = self
        message = self.error_message
        while error is not None:
            place = error._place()
            if places and places[-1][0] == place:
                places[-1] = (place, places[-1][1] + 1)
            else:
                places.append((place, 0))
            message = error.error_message
            error = error.called
        parts = []
        for place, again in places:
            parts.append(place)
            if again:
                parts.append(f"  (the same call {again} more times)")
        return "\n".join([*parts, message] if message else parts)

    def _place(self) -> str:
        line = getattr(self.node, "lineno", None)
        if line is None:
            return " <source unavailable>" if self.src is None else self.src
        column: int = getattr(self.node, "col_offset", 0)
        head = f"at {line}:{column}:"
        if self.file:
            head = f"{self.file}:{self.line}:{self.column}: in {self.function}, {head}"
        if self.src is None:
            return f"{head}\n <source unavailable>"
        lines = self.src.split("\n")
        text = lines[line - 1] if line <= len(lines) else ""
        # The tree counts columns in bytes of UTF-8.
        before = text.encode()[:column].decode(errors="replace")
        blank = "".join("\t" if c == "\t" else " " for c in before)
        return f"{head}\n{text}\n{blank}^"

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Any:
        places = {
            name: getattr(self, name) for name in ("file", "line", "column", "function", "called")
        }
        return _again, (type(self), self.src, self.node, self.error_message, places)


def _again(
    kind: type[CompilationError],
    src: str | None,
    node: ast.AST,
    message: str | None,
    places: dict[str, Any],
) -> CompilationError:
    return kind(src, node, message, **places)


class CompileTimeAssertionFailure(CompilationError):
    """The condition of a ``static_assert`` is false."""


class UnsupportedLanguageConstruct(CompilationError):
    """Python that is not part of Triton's language."""

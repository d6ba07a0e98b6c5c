"""The evaluator's error."""

from __future__ import annotations


class EvaluationError(ValueError):
    """A program cannot be evaluated; the text names the operation and its place in the source.

    Attributes:
        placed: Whether the text does so already.
    """

    def __init__(self, message: str, *, placed: bool = False) -> None:
        super().__init__(message)
        self.placed = placed

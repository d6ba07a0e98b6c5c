"""Result of one stop of the tour."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a program of the tour gave, and whether that is right.

    Attributes:
        system: System that the program is written for.
        what: The program, with its shapes and dtype.
        n_pes: Number of PEs it ran on.
        reference: What the result was checked against.
        error: Largest difference from the reference. Default: the check gives no number.
        limit: Largest error that is allowed. Default: 0, the result must be exact.
        right: Whether the check holds that gives no number. Default: it does.
        seconds: Time of one call.
        beside: Time of another implementation on the same data, as text. Default: there is none.
        report_title: Headline of ``report``.
        report: Text shown below the table. Default: none.
    """

    system: str
    what: str
    n_pes: int
    reference: str
    error: float | None = None
    limit: float = 0.0
    right: bool = True
    seconds: float
    beside: str = ""
    report_title: str = ""
    report: str = ""

    @property
    def passed(self) -> bool:
        """True if the error is within the limit (NaN is not) and the check holds."""
        return self.right and (self.error is None or self.error <= self.limit)

    @property
    def error_text(self) -> str:
        """Error and limit as the table shows them."""
        if self.error is None:
            return "-"
        if self.limit == 0.0:
            return f"{self.error:.2g} (exact)"
        return f"{self.error:.2g} ({self.limit:.2g})"

    @property
    def time_text(self) -> str:
        """Time as the table shows it, with that of the other implementation."""
        own = duration(self.seconds)
        return f"{own} ({self.beside})" if self.beside else own


def duration(seconds: float) -> str:
    """Return a time with a unit that suits it."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"

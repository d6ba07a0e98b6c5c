"""Values of the option ``check``: which checks a kernel has."""

from __future__ import annotations

from emu.triton.suggestions import suggestion

BOUNDS, BOUNDS_ALL, UNINIT = "bounds", "bounds:all", "uninit"
NAMES = (BOUNDS, BOUNDS_ALL, UNINIT)
"""Checks by name."""

MODES = (BOUNDS, BOUNDS_ALL, UNINIT, f"{BOUNDS},{UNINIT}", f"{BOUNDS_ALL},{UNINIT}")
"""Combinations that there are, as :func:`as_mode` returns them."""


def as_mode(value: object) -> str | None:
    """Return the combination that a value of ``check`` means: one of ``MODES``; None for no check.

    Args:
        value: Names with commas between them, in any order; None, False or ``""`` for no check.

    Raises:
        ValueError: There is no such check, or two exclude each other.
    """
    if value is None or value is False or (isinstance(value, str) and not value):
        return None
    if isinstance(value, str) and value in MODES:  # as in nearly every launch
        return value
    names = [n.strip() for n in value.split(",")] if isinstance(value, str) else []
    lead = "check (of the launch, the kernel, knobs.runtime, --check or EMU_CHECK)"
    for name in names:
        if name not in NAMES:
            near = suggestion(name, NAMES)
            raise ValueError(
                f"{lead} must be one of {NAMES}, or several with commas between them, or None, but got "
                f"{value!r:.60}{near}"
            )
    if not names:
        raise ValueError(f"{lead} must be one of {NAMES}, or None, but got {value!r:.60}")
    if BOUNDS in names and BOUNDS_ALL in names:
        raise ValueError(
            f"{lead} must have one of {BOUNDS} and {BOUNDS_ALL}, but got {value!r:.60}"
        )
    return ",".join(name for name in NAMES if name in names)


def bounds_of(mode: str) -> str | None:
    """Return ``"bounds"`` or ``"bounds:all"`` if that is part of a mode, else None."""
    first = mode.partition(",")[0]
    return None if first == UNINIT else first


def has_uninit(mode: str | None) -> bool:
    """Return whether a mode checks for unwritten memory."""
    return mode is not None and mode.endswith(UNINIT)

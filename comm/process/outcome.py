"""The outcome of a PE: its result or its exception, as the one message that the launcher gets.

Whatever a PE raises must reach the launcher: exceptions that cannot be pickled, that pickle but cannot be
rebuilt, whose text raises, that are not an ``Exception`` (which an ExceptionGroup cannot hold). An exception
that cannot be sent as it is becomes a :class:`PERaisedError` with its type, text and traceback.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import traceback
from typing import Any

from emu.comm.errors import CommError, PEExitError, PERaisedError, StoppedError

_LONGEST_MESSAGE = 1 << 20
"""Characters of a message with which an exception is still passed on as it is."""
_LONGEST_TEXT = 32 << 10
"""Characters that are left of a longer message, or of a traceback."""


def result_message(pe: int, value: object) -> bytes:
    """Pack a result."""
    try:
        return pickle.dumps(("ok", value), protocol=5)
    except BaseException as error:  # noqa: BLE001 - __reduce__ may raise anything
        return failure_message(
            pe,
            CommError(
                f"the result of PE {pe} must be picklable, but is not: "
                f"{type(error).__name__}: {text_of(error)}"
            ),
        )


def failure_message(pe: int, error: BaseException) -> bytes:
    """Pack the exception of a PE; a ``SystemExit`` of 0 is a result of None."""
    if isinstance(error, SystemExit):
        code = error.code
        if code is None or (isinstance(code, int) and code == 0):
            return pickle.dumps(("ok", None), protocol=5)
        if not isinstance(code, int):
            sys.stderr.write(f"{text_of(code)}\n")
            code = 1
        error = PEExitError(f"PE {pe} called sys.exit({code})", int(code)).with_traceback(
            error.__traceback__
        )
    text = _traceback(error)
    error = _stop_behind(error) or error
    try:
        data = pickle.dumps(error, protocol=5)
        # Rebuilt here already: one that pickles but cannot be rebuilt must not fail in the launcher.
        _check_usable(pickle.loads(data))
    except BaseException:  # noqa: BLE001 - the class is the user's: its methods may raise anything
        data = b""
    return pickle.dumps(("error", data, text, _name(error), text_of(error)), protocol=5)


def _stop_behind(error: BaseException) -> StoppedError | None:
    """Return the stop that an exception was made of, if any.

    A stop is raised at whatever line of Python a PE is, also inside a ``try`` that turns all it catches
    into an error of its own. That error is no failure of this PE, and must not hide the one that is.
    """
    seen: list[BaseException] = []
    at: BaseException | None = error if isinstance(error, Exception) else None
    while at is not None and not any(at is other for other in seen):
        if isinstance(at, StoppedError):
            return at
        seen.append(at)
        at = at.__cause__ or at.__context__
    return None


def read_error(pe: int, message: tuple[Any, ...]) -> Exception:
    """Rebuild in the launcher the exception that :func:`failure_message` has packed."""
    _, data, text, name, said = message
    what = f"{name}: {said}" if said else name
    error = _rebuilt(data) or PERaisedError(f"PE {pe} raised {what}", name)
    error.pe = pe  # type: ignore[attr-defined] # set on the exceptions of PEs
    if text:
        error.add_note(f"on PE {pe}, whose traceback was:\n{text.rstrip()}")
    return error


def _rebuilt(data: bytes) -> Exception | None:
    if data:
        with contextlib.suppress(BaseException):  # the class is the user's, and may be unknown here
            error: Exception = pickle.loads(data)
            _check_usable(error)
            return error
    return None


def text_of(value: object) -> str:
    """Return ``str(value)``, shortened; also if the class's ``__str__`` raises."""
    try:
        return _shortened(str(value))
    except BaseException as error:  # noqa: BLE001 - __str__ is the user's
        return f"(its text cannot be had: __str__ raised {type(error).__name__})"


def summary_of(error: BaseException) -> str:
    """Return one line about an exception."""
    return f"{type(error).__name__}: {text_of(error)}".split("\n", 1)[0][:500]


def _check_usable(error: object) -> None:
    """Raise if an ExceptionGroup could not hold the exception, or its reader not print it."""
    if not isinstance(error, Exception):
        raise TypeError("not an Exception")
    if len(str(error)) > _LONGEST_MESSAGE:
        raise ValueError("its text is too long")
    error.pe = 0  # type: ignore[attr-defined] # set on the exceptions of PEs
    error.add_note("")
    error.__notes__.pop()


def _traceback(error: BaseException) -> str:
    try:
        return _shortened("".join(traceback.format_exception(error)))
    except BaseException as other:  # noqa: BLE001 - as above
        return f"(the traceback cannot be had: {type(other).__name__})"


def _name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__", "__mp_main__")
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters are left out …\n{text[-half:]}"

"""Arguments of ``ctypes`` as whole numbers: what a C function would find in its registers."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

from emu.accelerator.hip.errors import SUCCESS, HipError

_REFERENCE: type = type(ctypes.byref(ctypes.c_int()))
_SIMPLE: type = ctypes.c_int.__mro__[1]
_POINTER: type = ctypes.POINTER(ctypes.c_int).__mro__[1]


def as_word(value: Any) -> int:
    """Return an argument as the number that is passed for it: an address, or the value itself.

    Args:
        value: None, an integer, bytes, or an object of ``ctypes``: a number, a pointer, an array, ``byref`` of
            something, or a structure, for which its address stands.

    Raises:
        TypeError: It is nothing that ``ctypes`` could pass.
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if isinstance(value, _REFERENCE):
        return ctypes.addressof(value._obj)  # type: ignore[attr-defined]
    if isinstance(value, _SIMPLE):
        return int(getattr(value, "value", None) or 0)
    if isinstance(value, _POINTER):
        return ctypes.cast(value, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
    if isinstance(value, ctypes.Array | ctypes.Structure | ctypes.Union):
        return ctypes.addressof(value)
    raise TypeError(f"an argument must be one that ctypes can pass, but got {value!r}")


class LastError(threading.local):
    """What the last failing call of this thread returned, and why."""

    code = SUCCESS
    why = ""


class Function:
    """A function of the library: takes what ``ctypes`` takes, and returns a code of HIP.

    Args:
        name: Its name in the library.
        run: What it does with its arguments as numbers; raises :class:`HipError`.
        last: Where an error is kept for ``hipGetErrorString``.

    Attributes:
        argtypes: As of a function of ``ctypes``: arguments are converted by them where that is needed.
        restype: Without effect.
    """

    def __init__(self, name: str, run: Callable[..., None], last: LastError) -> None:
        self.__name__ = name
        self.argtypes: Sequence[Any] | None = None
        self.restype: Any = ctypes.c_int
        self._run = run
        self._last = last

    def __call__(self, *arguments: Any) -> Any:
        """Call it, and return the code: 0 for success."""
        words = [as_word(argument) for argument in arguments]
        try:
            self._run(*words)
        except HipError as error:
            self._last.code, self._last.why = error.code, f"{self.__name__}: {error.why}"
            return error.code
        return SUCCESS


def write_pointer(address: int, value: int) -> None:
    """Store an address, a handle or a ``size_t`` where an argument points to."""
    ctypes.c_uint64.from_address(address).value = value


def write_int(address: int, value: int) -> None:
    """Store an ``int`` where an argument points to."""
    ctypes.c_int.from_address(address).value = value

"""Compile your own functions with the cache of emu's kernels.

    from emu.kernels import atomics
    from emu.kernels.jit import jit

    @jit
    def count(histogram, samples):
        for sample in samples:
            atomics.add(histogram, sample, 1)

Compiled code is kept on disk. It is compiled again after an edit of the file of the function and after an
update of emu; ``numba.njit(cache=True)`` misses the latter, and goes on with the old code. Neither sees an
edit of another file of yours whose functions are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from emu.kernels.core import jit as kernels

F = TypeVar("F", bound=Callable[..., object])


@overload
def jit(function: F, /) -> F: ...
@overload
def jit(**options: Any) -> Callable[[F], F]: ...
def jit(function: F | None = None, /, **options: Any) -> Any:
    """Compile a function with Numba in nopython mode and cache the code on disk.

    The GIL is released while compiled code runs, and a division by zero gives infinity or NaN
    (``error_model="numpy"``); no fast-math flag is set. A function that was typed at a prompt is compiled,
    too, but not cached.

    Args:
        function: The function, where ``jit`` is used without parentheses.
        **options: Options of ``numba.njit`` but ``cache``; they override those above.

    Returns:
        The compiled function, or a decorator.

    Raises:
        CacheFolderError: Others can write into the cache (raised by the first call of the function).
    """
    decorate = kernels.jit(**options)
    return decorate if function is None else decorate(function)


__all__ = ["jit"]

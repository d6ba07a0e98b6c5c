"""``triton.experimental.gluon``: kernels of Gluon can be written down, and are refused when they are used.

Gluon describes the warps, the layouts and the memories of one GPU. Libraries import it beside Triton and choose
between their kernels by the device, so that its import must work where no kernel of it is run.

Internal: names may change in any release.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from emu.triton.errors import TritonError
from emu.triton.runtime.jit import JITFunction
from emu.triton.source import constexpr_function, must_use_result


class GluonError(TritonError, NotImplementedError):
    """A kernel of Gluon was used."""


class GluonJITFunction(JITFunction[Any]):
    """A kernel of Gluon, which cannot be launched or called."""

    def is_gluon(self) -> bool:
        """Return True."""
        return True

    @property
    def cache_key(self) -> str:
        """Nothing: no kernel can call this one.

        Raises:
            GluonError: Always.
        """
        self._refuse()

    def __getitem__(self, grid: object) -> Callable[..., NoReturn]:
        """Return a function that refuses to launch the kernel."""
        return self._refuse

    def run(self, *args: object, **kwargs: object) -> NoReturn:
        """Refuse to launch or to compile the kernel.

        Raises:
            GluonError: Always.
        """
        self._refuse()

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Refuse to call the function.

        Raises:
            GluonError: Always.
        """
        self._refuse()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise GluonError(
            f"{self.__module__}.{self.__qualname__} is a kernel of triton.experimental.gluon, which is not in emu: Gluon "
            "describes the warps, layouts and memories of one GPU, which a CPU does not have; write the kernel with "
            "triton.language"
        )


def jit(fn: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """Make a function a kernel of Gluon, which is refused when it is used.

    Args:
        fn: The function; None to get a decorator.
        **settings: Those of ``triton.jit``.

    Raises:
        TypeError: ``fn`` is not a function written with ``def``.
    """
    if fn is None:
        return functools.partial(jit, **settings)
    if not hasattr(fn, "__code__"):
        raise TypeError(f"fn must be a function written with def, but got {type(fn).__name__}")
    return GluonJITFunction(fn, **settings)


__all__ = ["GluonError", "GluonJITFunction", "constexpr_function", "jit", "must_use_result"]

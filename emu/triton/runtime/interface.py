"""What kernels, autotuners and heuristics have in common: they are launched as ``kernel[grid](...)``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from emu.triton.runtime.tensors import MockTensor

T = TypeVar("T")


class KernelInterface(Generic[T]):
    """Base of what is launched as ``kernel[grid](...)``."""

    __name__: str
    __qualname__: str
    arg_names: list[str]
    fn: Any  # a function of Python's, or what is launched with more or other arguments

    def run(self, *args: object, grid: object, warmup: bool, **kwargs: object) -> Any:
        """Launch the kernel, or only compile it."""
        raise NotImplementedError

    def warmup(self, *args: object, grid: object, **kwargs: object) -> Any:
        """Compile for these arguments, without running; dtypes of torch stand for tensors of them."""
        return self.run(
            *map(MockTensor.wrap_dtype, args),
            grid=grid,
            warmup=True,
            **kwargs,
        )

    def __getitem__(self, grid: object) -> Callable[..., Any]:
        """Return a function that launches the kernel on a grid."""
        return functools.partial(self.run, grid=grid, warmup=False)

"""Compilation in the background: :class:`AsyncCompileMode`."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from emu.kernels.core.messages import shown

if TYPE_CHECKING:
    from emu.triton.runtime.build import Build
    from emu.triton.runtime.compiled import CompiledKernel

__all__ = ["AsyncCompileMode", "FutureKernel", "active_mode"]


class FutureKernel:
    """A kernel that may still be compiled; what is asked of it waits for the end, and is the compiled kernel's.

    Attributes:
        finalize_compile: Called once with what was compiled; returns the kernel.
        future: The compilation.
        kernel: The kernel, once :meth:`result` was called.
    """

    def __init__(
        self, finalize_compile: Callable[[Build], CompiledKernel], future: Future[Build]
    ) -> None:
        self.finalize_compile = finalize_compile
        self.future = future
        self.kernel: CompiledKernel | None = None

    def result(self, ignore_errors: bool = False) -> CompiledKernel | None:
        """Wait for the end of the compilation and return the kernel.

        Args:
            ignore_errors: Return None if the compilation failed.

        Raises:
            CompilationError: The source breaks a rule of the language.
        """
        if self.kernel is None:
            try:
                made = self.future.result()
            except Exception:
                if ignore_errors:
                    return None
                raise
            self.kernel = self.finalize_compile(made)
        return self.kernel

    def __getattr__(self, name: str) -> Any:  # only for names that are not its own
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.result(), name)

    def __getitem__(self, grid: object) -> Any:
        """Return a function that launches the kernel, as :class:`CompiledKernel` does."""
        kernel = self.result()
        assert kernel is not None
        return kernel[grid]


class AsyncCompileMode:
    """Context in which kernels are compiled by an executor, while the program goes on.

    ``kernel.warmup(..., grid=...)`` submits a compilation and returns a :class:`FutureKernel`; a launch of it waits
    for that compilation alone. At the end of the block all compilations have ended.

    Args:
        executor: Calls the compiler; of threads, since what is compiled lives in this process.
        ignore_errors: Do not raise errors of compilations that nobody waited for at the end of the block.

    Raises:
        TypeError: ``executor`` has no ``submit``.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        if not callable(getattr(executor, "submit", None)):
            given = shown(executor, with_type=True)
            raise TypeError(f"executor must be a concurrent.futures.Executor, but got {given}")
        self.executor = executor
        self.ignore_errors = ignore_errors
        self.future_kernels: dict[Hashable, FutureKernel] = {}
        self._token: contextvars.Token[AsyncCompileMode | None] | None = None

    def submit(
        self,
        key: Hashable,
        compile_fn: Callable[[], Build],
        finalize_fn: Callable[[Build], CompiledKernel],
    ) -> FutureKernel:
        """Submit a compilation, unless one with the same key was submitted; return its kernel-to-be.

        Args:
            key: What identifies the kernel.
            compile_fn: Compiles; called by the executor.
            finalize_fn: Makes a kernel of what ``compile_fn`` returned; called by who waits for it.
        """
        found = self.future_kernels.get(key)
        if found is None:
            found = FutureKernel(finalize_fn, self.executor.submit(compile_fn))
            self.future_kernels[key] = found
        return found

    def __enter__(self) -> Self:
        if active_mode.get() is not None:
            raise RuntimeError("an AsyncCompileMode must not be entered inside of another one")
        self._token = active_mode.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._token is not None
        active_mode.reset(self._token)
        failures: list[Exception] = []
        for kernel in self.future_kernels.values():
            try:
                kernel.result(self.ignore_errors)
            except Exception as failure:  # noqa: BLE001 - the others are still to be waited for
                failures.append(failure)
        if failures and error is None:
            raise failures[0]


active_mode: contextvars.ContextVar[AsyncCompileMode | None] = contextvars.ContextVar(
    "async_compile_active_mode", default=None
)
"""The mode of the block that is being executed, if there is one."""

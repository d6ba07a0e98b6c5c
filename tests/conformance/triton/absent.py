"""Stand-ins for modules of Triton's own compiler and tools that its tests import.

A test file is collected with them. A test that only wants a kernel compiled gets that; one that uses more of such a
module, or that reads MLIR, ends as skipped with a reason that begins with :data:`ABSENT`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

ABSENT = "absent: "
"""Beginning of the reasons for which such tests are skipped."""

_NAMES = (
    "triton._compile_warmup",
    "triton._compile_warmup_pool",
    "triton._filecheck",
    "triton._test_runner",
    "triton.backends.amd",
    "triton.backends.nvidia",
    "triton.experimental.gluon",
)

_ATTRIBUTES = {
    "triton._C.libtriton": ("ir", "native_specialize_impl"),
    "triton.backends.driver": ("GPUDriver", "expand_signature", "wrap_handle_tensordesc_impl"),
}


class Absent:
    """Something of an absent module; its use skips the test that is running, and gives more of it where none is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # pytest looks for some
            raise AttributeError(name)
        return self._use(f"{self._name}.{name}")

    def __call__(self, *_: object, **__: object) -> Any:
        """Skip the test."""
        return self._use(f"{self._name}()")

    def __getitem__(self, index: object) -> Any:
        """Skip the test."""
        return self._use(f"{self._name}[{index}]")

    def _use(self, result: str) -> Any:
        if "PYTEST_CURRENT_TEST" in os.environ:
            skip(self._name)
        return Absent(result)  # a decorator of a file that is collected, say


class _Module(ModuleType):
    """A module that has any name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")


class Finder:
    """Finds these modules."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module with one of these names, or within one."""
        del path, target
        plain = name.removeprefix("emu.")
        if any(plain == known or plain.startswith(f"{known}.") for known in _NAMES):
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a module that has any name."""
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Fill the stand-in of ``triton._filecheck``."""
        if module.__name__.endswith("triton._filecheck"):
            vars(module).update(_FILECHECK)


def skip(name: str) -> None:
    """Skip the running test."""
    pytest.skip(f"{ABSENT}needs {name}")


def install() -> None:
    """Make the modules importable, and some names of those that emu has."""
    sys.meta_path.insert(0, Finder())  # emu has some of them, to say why they are not there
    for where, names in _ATTRIBUTES.items():
        module = importlib.import_module(where)
        for name in names:
            if not hasattr(module, name):
                setattr(module, name, Absent(f"{where}.{name}"))


def _run_parser(
    kernel: Any,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] = {},
    target: object = None,
) -> Any:
    """Compile a kernel; its text is none that the tests know."""
    del target
    kernel.warmup(*args, grid=(1,), **kwargs)
    return Absent("MLIR")


def _run_filecheck(name: str, text: str, template: str) -> None:
    del name, text, template
    skip("MLIR")


def _run_filecheck_test(kernel: Any) -> None:
    _run_parser(kernel)
    skip("MLIR")


def _filecheck_test(kernel: Any) -> Callable[[], None]:
    def run() -> None:
        _run_filecheck_test(kernel)

    run.__name__ = kernel.__name__
    return run


_FILECHECK = {
    "run_parser": _run_parser,
    "run_filecheck": _run_filecheck,
    "run_filecheck_test": _run_filecheck_test,
    "filecheck_test": _filecheck_test,
}

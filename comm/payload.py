"""Ship a call to a new process: by reference where it can be imported, else by cloudpickle."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import pickle
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from emu.comm.errors import ArgumentError


@dataclass(frozen=True)
class Call:
    """A pickled call, and the file of the module that it refers to."""

    module: str
    file: str | None
    data: bytes

    def load(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """Return (function, args, kwargs) in this process."""
        if self.module != "__main__" and self.file is not None:
            _ensure_module(self.module, self.file)
        function, args, kwargs = pickle.loads(self.data)
        return function, args, kwargs


def pack(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Pickle a call.

    Raises:
        ArgumentError: A new process could not rebuild it.
    """
    if not callable(fn):
        raise ArgumentError(f"fn must be callable, but got {fn!r}")
    module = getattr(fn, "__module__", None) or "builtins"
    main = sys.modules.get("__main__")
    # A notebook's or an interactive session's functions are in a module without a file.
    unimportable = module == "__main__" and getattr(main, "__file__", None) is None
    file = getattr(sys.modules.get(module), "__file__", None)
    if not unimportable:
        try:
            return Call(module, file, pickle.dumps((fn, args, kwargs), protocol=5))
        except Exception as error:  # noqa: BLE001 - __reduce__ may raise anything
            reason: Exception = error
    else:
        reason = ArgumentError("it is defined in an interactive session")
    with contextlib.suppress(ImportError):
        cloudpickle = importlib.import_module("cloudpickle")
        buffer = io.BytesIO()
        try:
            cloudpickle.dump((fn, args, kwargs), buffer)
        except Exception as error:
            raise _refusal(fn, error) from error
        return Call(module, file if not unimportable else None, buffer.getvalue())
    raise _refusal(fn, reason) from reason


def _refusal(fn: Callable[..., Any], reason: Exception) -> ArgumentError:
    name = getattr(fn, "__qualname__", repr(fn))
    return ArgumentError(
        f"fn and its arguments must be importable or picklable in a new process, but {name} is not "
        f"({reason}); define it at the top level of a module, or install cloudpickle, which ships "
        "lambdas, closures and a notebook's functions"
    )


def _ensure_module(name: str, file: str) -> None:
    """Import a module by name, or from its file where the name leads nowhere."""
    try:
        importlib.import_module(name)
        return
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"fn must be in a Python source file, but module {name} is {file}")
    parts = name.split(".")
    for i in range(1, len(parts)):  # unpickling imports the parents of a dotted name
        sys.modules.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)

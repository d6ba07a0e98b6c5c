"""``RemoteCall``: a call pickled for a new process, by reference where it can be imported, else by cloudpickle."""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from emu.comm.errors import ArgumentError


class Call(Protocol):
    """A call that a PE makes."""

    def load(self) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
        """Return (function, args, kwargs) in this process."""


@dataclass(frozen=True)
class RemoteCall:
    """A pickled call, and the file of the module that it refers to."""

    module: str
    file: str | None
    data: bytes

    def load(self) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
        """Return (function, args, kwargs) in this process."""
        if self.module != "__main__" and self.file is not None:
            _ensure_module(self.module, self.file)
        function, args, kwargs = pickle.loads(self.data)
        return function, args, kwargs


def pack(
    fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> RemoteCall:
    """Pickle a call.

    Raises:
        ArgumentError: A new process could not rebuild it.
    """
    if not callable(fn):
        raise ArgumentError(f"fn must be callable, but got {fn!r}")
    module = getattr(fn, "__module__", None) or "builtins"
    file = getattr(sys.modules.get(module), "__file__", None)
    buffer = io.BytesIO()
    # By reference first: a class that is shipped by value is another class in the PE than in the launcher.
    try:
        _Importable(buffer, protocol=5).dump((fn, args, kwargs))
        return RemoteCall(module, file, buffer.getvalue())
    except Exception as error:  # noqa: BLE001 - __reduce__ may raise anything
        reason = error
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError:
        raise _refusal(fn, reason) from reason
    buffer = io.BytesIO()
    try:
        cloudpickle.dump((fn, args, kwargs), buffer)
    except Exception as error:
        raise _refusal(fn, error) from error
    return RemoteCall(module, file, buffer.getvalue())


class _Importable(pickle.Pickler):
    """A pickler of functions and classes by name, which refuses those that a new process would not find."""

    def reducer_override(self, thing: Any) -> Any:
        """Refuse definitions typed into a session; leave the rest to the base class."""
        if isinstance(thing, (types.FunctionType, type)) and thing.__module__ == "__main__":
            main = sys.modules.get("__main__")
            if getattr(main, "__file__", None) is None or _was_typed(thing):
                raise pickle.PicklingError(
                    f"{thing.__qualname__} is defined in an interactive session"
                )
        return NotImplemented


def _was_typed(thing: object) -> bool:
    """Return whether a function, or one of a class's, has no file, as under ``python -i script.py``."""
    functions = vars(thing).values() if isinstance(thing, type) else (thing,)
    return any(
        isinstance(one, types.FunctionType) and one.__code__.co_filename.startswith("<")
        for one in functions
    )


def _refusal(fn: Callable[..., object], reason: Exception) -> ArgumentError:
    name = getattr(fn, "__qualname__", repr(fn))
    return ArgumentError(
        f"fn and its arguments must be importable or picklable in a new process, but {name} is not "
        f"({reason}); define it at the top level of a module, or install cloudpickle "
        "(pip install 'tile-emu[interactive]'), which ships lambdas, closures and the functions of a "
        "notebook or of python -i"
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

"""What programs learn of compilations: the facts that hooks and listeners get, and tables of compiled kernels."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emu.triton import knobs
from emu.triton.active_driver import driver
from emu.triton.runtime import options
from emu.triton.runtime.arguments import Key
from emu.triton.runtime.binder import Binder
from emu.triton.source import JITCallable, plain_value

if TYPE_CHECKING:
    from emu.triton.runtime.build import Build, Request
    from emu.triton.runtime.compiled import CompiledKernel

Facts = dict[str, Any]


@dataclass(frozen=True)
class JitFunctionInfo:
    """The function that a hook is called for.

    Attributes:
        module: Name of its module.
        name: Its qualified name.
        jit_function: The function.
    """

    module: str
    name: str
    jit_function: Any


class KernelTable(dict[Key, "CompiledKernel"]):
    """Compiled kernels of one function by key.

    Args:
        forget: Called when the table is cleared, to forget also what the kernels were made of.
    """

    def __init__(self, forget: Callable[[], None]) -> None:
        super().__init__()
        self._forget = forget

    def clear(self) -> None:
        """Remove all kernels, so that the next launch compiles again or loads from disk."""
        super().clear()
        self._forget()


class DeviceCaches:
    """Table of compiled kernels as programs reach it: ``kernel.device_caches[device][0]``.

    One table serves all devices, as they share the CPU.

    Args:
        kernel: The kernel.
        table: Its table.
    """

    def __init__(self, kernel: JITCallable, table: KernelTable) -> None:
        self._kernel = kernel
        self._table = table

    def __getitem__(self, device: object) -> tuple[KernelTable, dict[Any, Any], Any, Any, Binder]:
        """Return the table, an empty dictionary, the target, the backend, and what binds a launch's arguments."""
        from emu.triton.runtime.described_backends import make_backend

        target = driver.active.get_current_target()
        backend = make_backend(target)
        return self._table, {}, target, backend, Binder(self._kernel, backend)

    def __iter__(self) -> Iterator[int]:
        return iter((driver.active.get_current_device(),) if self._table else ())

    def __len__(self) -> int:
        return int(bool(self._table))

    def clear(self) -> None:
        """Remove all kernels of all devices."""
        self._table.clear()


def facts_of(fn: Any, key: Key, request: Request, given: Facts, is_warmup: bool) -> Facts:
    """Return what the hooks before and after a compilation get, except ``already_compiled``.

    Args:
        fn: The kernel.
        key: Of the compiled kernel in its table.
        request: What is compiled.
        given: Options of the launch.
        is_warmup: Whether the kernel is only compiled.
    """
    chosen = options.IGNORED | {n: v for n, v in given.items() if v is not None}
    libraries = chosen["extern_libs"]
    if isinstance(libraries, dict):
        chosen["extern_libs"] = tuple(libraries.items())
    names = ", ".join(f"{n}: {t}" for n, t in request.signature.items())
    shown = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion", "launch_cooperative_grid")
    how = ", ".join(f"{name}={chosen[name]}" for name in shown)
    return {
        "key": key,
        "repr": f"{fn.__qualname__}[{how}]({names})",
        "fn": JitFunctionInfo(fn.__module__, fn.__qualname__, fn),
        "compile": {
            **chosen,
            "key": key,
            "signature": request.signature,
            "device": driver.active.get_current_device(),
            "constants": request.constants,
            "configs": [{}],
            "specialization_data": specialization_data(fn, key, request, given),
            "is_warmup": is_warmup,
        },
        "is_manual_warmup": is_warmup,
    }


def specialization_data(fn: Any, key: Key, request: Request, given: Facts) -> str:
    """Return a text from which ``preload`` can compile the same kernel again.

    Constants that have no text (objects of a program's own classes) are spelled by ``repr``; such a kernel
    cannot be preloaded.
    """
    target = driver.active.get_current_target()
    described = {
        "name": f"{fn.__module__}.{fn.__qualname__}",
        "signature": request.signature,
        "constants": {n: _to_json(v) for n, v in request.constants.items()},
        "options": given,
        "key": repr(key),
        "target": vars(target),
    }
    return json.dumps(described, default=repr)


def _to_json(value: object) -> object:
    value = plain_value(value)
    if isinstance(value, JITCallable):
        return {"jit_function": f"{value.__module__}:{value.__qualname__}"}
    if hasattr(value, "primitive_bitwidth"):
        return {"dtype": str(getattr(value, "name", value))}
    if isinstance(value, (tuple, list)):
        return [_to_json(item) for item in value]
    return value


def from_json(value: Any, functions: dict[str, Any]) -> Any:
    """Return the constant that a text of :func:`specialization_data` spells.

    Args:
        value: What JSON gives.
        functions: Kernels by module and name.

    Raises:
        RuntimeError: There is no such kernel.
    """
    if isinstance(value, list):
        return tuple(from_json(item, functions) for item in value)
    if isinstance(value, dict) and "jit_function" in value:
        name = value["jit_function"]
        if name not in functions:
            raise RuntimeError(f"specialization_data must name known kernels, but has {name}")
        return functions[name]
    if isinstance(value, dict) and "dtype" in value:
        from emu.triton.language.types import dtype

        return dtype(value["dtype"])
    return value


def tell_listener(build: Build, kernel: CompiledKernel, source: object) -> None:
    """Call ``knobs.compilation.listener``, if there is one.

    Args:
        build: What was compiled or loaded.
        kernel: The kernel of it.
        source: Function and types, as an ``ASTSource``.
    """
    if knobs.compilation.listener is not None:
        knobs.compilation.listener(
            src=source,
            metadata={**vars(kernel.metadata), "hash": kernel.hash},
            metadata_group=kernel.metadata_group,
            times=build.times,
            cache_hit=build.from_disk,
        )

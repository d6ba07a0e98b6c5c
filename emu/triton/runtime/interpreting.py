"""Launches of kernels that run as Python: arguments, their memory, and the options."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from emu.comm.world import recording
from emu.kernels.core import environment
from emu.kernels.core.launch_count import Launches, launch_named
from emu.triton import knobs
from emu.triton.language.types import TypeSpelling
from emu.triton.runtime import arguments, launcher, options
from emu.triton.runtime.build import Request, build, type_of
from emu.triton.runtime.compiled import CompiledKernel, LaunchMetadata
from emu.triton.runtime.recorded import recorded
from emu.triton.runtime.storages import find_storage
from emu.triton.source import JITCallable

if TYPE_CHECKING:
    from emu.triton.interpreter.grid import Launch
    from emu.triton.interpreter.memory import Extent


class InterpretedKernel:
    """A kernel that ran as Python, in the place of a compiled one, which it becomes when it is asked for something.

    Args:
        kernel: The kernel.
        signature: The spelling of each parameter's type.
        constants: The values of the constants.
        given: Options of the launch.
    """

    def __init__(
        self,
        kernel: JITCallable,
        signature: dict[str, TypeSpelling],
        constants: dict[str, object],
        given: dict[str, object],
    ) -> None:
        self._kernel, self._signature, self._constants = kernel, signature, constants
        self._options = {n: v for n, v in given.items() if n != "interpret"}

    @functools.cached_property
    def _compiled(self) -> CompiledKernel:
        request = Request(
            self._kernel,
            self._signature,
            self._constants,
            debug=True,
            backend=options.backend_of(self._options),
            num_warps=options.warps_of(self._options),
        )
        return CompiledKernel(build(request), self._options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._compiled, name)

    def __getitem__(self, grid: object) -> Callable[..., None]:
        """Return a function that launches the compiled kernel."""
        return self._compiled[grid]

    def __repr__(self) -> str:
        return f"InterpretedKernel({self._kernel.__name__}: {self._signature})"


def is_wanted(always: bool, given: dict[str, object]) -> bool:
    """Return whether a launch runs its kernel as Python.

    Args:
        always: Whether the kernel was decorated so.
        given: Options of the launch; ``interpret`` decides if it is among them.
    """
    chosen = given.get("interpret")
    if chosen is not None:
        return chosen is True
    # A backend that a launch names wins over the environment.
    return always or (knobs.runtime.interpret and given.get("backend") is None)


def launch(
    kernel: JITCallable, grid: object, bound: dict[str, object], given: dict[str, object]
) -> Exception | InterpretedKernel:
    """Run a kernel as Python; return it, or the error of a program that failed.

    Args:
        kernel: The kernel.
        grid: As in ``kernel[grid]``; None, as of ``warmup``, does nothing.
        bound: All arguments by name.
        given: The options.

    Raises:
        TypeError: An argument cannot be passed, or there is no such option.
        ValueError: An argument or the grid is out of bounds.
    """
    options.check(kernel.__name__, given)
    passed = _specialise(kernel, bound)
    made = InterpretedKernel(kernel, passed.spelled, passed.constants, given)
    if grid is None:
        return made
    shape = launcher.extents(grid(bound) if callable(grid) else grid)
    if not shape[0]:
        return made
    from emu.triton.interpreter import grid as programs

    described = programs.Launch(
        kernel,
        passed.types,
        passed.values,
        passed.extents,
        shape,
        environment.interpreted_program(),
        environment.interpreter_prints_elements(),
        given.get("debug") is not False,
        _checks_overflow(kernel, given),
        options.input_precision_of(given),
        options.warps_of(given),
    )
    return _run_with_hooks(described, bound, given) or made


class _Passed(NamedTuple):
    """Arguments of a launch, by name.

    Attributes:
        types: Their types in the language.
        spelled: These types as text.
        constants: Values of those that are constants, or tuples.
        values: Addresses and numbers of those that are not constants.
        extents: Memory of tensors.
    """

    types: dict[str, Any]
    spelled: dict[str, TypeSpelling]
    constants: dict[str, object]
    values: dict[str, Any]
    extents: list[Extent]


def _specialise(kernel: JITCallable, bound: dict[str, object]) -> _Passed:
    """Return the meaning of each argument; raises as :func:`launch`."""
    passed = _Passed({}, {}, {}, {}, [])
    for param in kernel.params:
        value = bound[param.name]
        try:
            with arguments.torch_guard():
                found = arguments.specialise(param, value)
                passed.types[param.name] = type_of(found.type, found.value)
                passed.spelled[param.name] = found.type
                if found.type == arguments.CONSTANT or isinstance(found.type, tuple):
                    passed.constants[param.name] = found.value
                if found.type != arguments.CONSTANT:
                    passed.values[param.name] = arguments.describe(value)[1]
                    passed.extents.extend(_extents(param.name, value))
        except launcher.REFUSALS as error:
            launcher.raise_named(kernel.__name__, param.name, error)
    return passed


def _run_with_hooks(
    launch: Launch, bound: dict[str, object], given: dict[str, object]
) -> Exception | None:
    """Run the programs of a launch, and call the hooks around them; return the error of one that failed."""
    from emu.triton.interpreter import grid as programs

    started, ended = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    if not started and not ended and Launches.around is None and recording.active is None:
        return programs.run(launch)
    facts = _facts(launch.kernel, launch.grid, bound, given)
    if started:
        started(facts)
    failures: list[Exception | None] = []

    def run() -> None:
        failures.append(programs.run(launch))

    def launch_programs(x: int, y: int, z: int) -> None:
        launch_named(launch.kernel.__name__, run)

    recorded(launch.kernel.__name__, launch_programs)(*launch.grid)
    failed = failures[-1] if failures else None
    if ended and failed is None:
        ended(facts)
    return failed


def _checks_overflow(kernel: JITCallable, given: dict[str, object]) -> bool:
    """Return whether integers that wrap around are errors, as in a compiled kernel that is debugged."""
    debug = given.get("debug")
    debug = (getattr(kernel, "debug", None) if debug is None else debug) or knobs.runtime.debug
    return bool(debug) and given.get("sanitize_overflow") is not False


def _facts(
    kernel: JITCallable,
    shape: tuple[int, int, int],
    bound: dict[str, object],
    given: dict[str, object],
) -> LaunchMetadata:
    """Return the argument of launch hooks; there is no compiled function."""
    facts = LaunchMetadata({"name": kernel.__name__, "function": None, "stream": 0})
    made_by = getattr(kernel, "launch_metadata", None)
    if made_by is not None:
        known = {n: v for n, v in given.items() if v is not None}
        metadata = SimpleNamespace(**options.IGNORED | known | {"name": kernel.__name__})
        facts.add(made_by, (shape, metadata, bound))
    return facts


def _extents(name: str, value: Any) -> Iterator[Extent]:
    """Yield the memory of an argument, of each item of a tuple."""
    from emu.triton.interpreter.memory import Extent

    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _extents(f"{name}[{i}]", item)
        return
    if hasattr(value, "block_shape") and hasattr(value, "base"):  # a tensor descriptor
        yield from _extents(f"{name}.base", value.base)
        return
    base = getattr(value, "base", value) if hasattr(value, "data_ptr") else value
    if isinstance(base, np.ndarray):
        array: np.ndarray[Any, Any] = base
        address, read_only = array.ctypes.data, not array.flags.writeable
        described = f"{array.dtype} of shape {array.shape}, strides {array.strides} bytes"
        storage = find_storage(array) if array.size else None
        first, behind = (storage.start, storage.end) if storage else (address, address)
        yield Extent(name, address, first, behind, described, read_only)
    elif hasattr(base, "untyped_storage"):
        storage = find_storage(base)
        first, behind = (storage.start, storage.end) if storage else (0, 0)
        described = f"{base.dtype} of shape {tuple(base.shape)}, strides {tuple(base.stride())}"
        yield Extent(name, base.data_ptr(), first, behind, described)


def is_running() -> bool:
    """Return whether this thread runs a kernel as Python."""
    programs = sys.modules.get("emu.triton.interpreter.grid")
    return programs is not None and bool(programs.is_running())


def call(function: JITCallable, arguments_: tuple[object, ...], keywords: dict[str, object]) -> Any:
    """Call a jit function inside a kernel that runs as Python."""
    from emu.triton.interpreter import grid as programs

    return programs.call(function, arguments_, keywords)

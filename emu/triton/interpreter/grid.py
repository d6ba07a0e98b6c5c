"""Launches of kernels that run as Python: one program after the other, in this thread."""

from __future__ import annotations

import bdb
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from emu.comm.errors import StoppedError
from emu.comm.world.current import spans_hosts
from emu.tile import ir, printing
from emu.tile.cpu.run import watching
from emu.tile.reference.interpreter import argument
from emu.tile.types import F32, DType, element_of
from emu.triton import knobs
from emu.triton.interpreter import debugging
from emu.triton.interpreter.callees import CALLEES
from emu.triton.interpreter.errors import InterpretedAssertionError, InterpreterError
from emu.triton.interpreter.evaluation import Evaluator, Triple
from emu.triton.interpreter.memory import Extent, Memory
from emu.triton.interpreter.spinning import Described, Spins
from emu.triton.interpreter.tensors import Array, Known
from emu.triton.language.blocks import stored_type
from emu.triton.language.constants import constexpr, constexpr_type
from emu.triton.language.context import Context, building, current
from emu.triton.language.debugging import StaticAssertionError
from emu.triton.language.types import dtype, float32, tuple_type
from emu.triton.language.values import tensor, tuple
from emu.triton.source import JITCallable

_OWN = "emu"


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    Attributes:
        kernel: The kernel.
        types: Type of each parameter; a ``constexpr_type`` holds the value of a constant.
        values: Number or address of each parameter that is not a constant, tuples of these for tuples.
        extents: Memory of the arguments.
        grid: Extents of the grid.
        program: Number of the one program to run; None: all.
        print_elements: Whether ``device_print`` prints a line for each element, as on a GPU.
        checks_assertions: Whether ``assert`` and ``device_assert`` have an effect.
        checks_overflow: Whether integers that wrap around are errors.
        input_precision: Default of ``dot`` where operands of fp32 are rounded; None where they are not.
        num_warps: What a kernel learns that asks for it.
    """

    kernel: JITCallable
    types: Mapping[str, Any]
    values: Mapping[str, Any]
    extents: Sequence[Extent] = ()
    grid: Triple = (1, 1, 1)
    program: Triple | None = None
    print_elements: bool = False
    checks_assertions: bool = True
    checks_overflow: bool = False
    input_precision: str | None = None
    num_warps: int = 4
    write: Callable[[str], object] = field(default_factory=lambda: sys.stdout.write)


def run(launch: Launch) -> InterpreterError | None:
    """Run a kernel's programs, x fastest.

    Returns:
        The error of the first program that failed, to be raised; its traceback has the lines of the program
        alone, its cause is what the program met. None if all ended well.

    Raises:
        ValueError: The one program to run is outside the grid.
    """
    with debugging.stepping_over_own():
        return _run(launch)


def _run(launch: Launch) -> InterpreterError | None:
    function = CALLEES.python(launch.kernel)
    memory = Memory(launch.extents)
    kernel = _described(launch)
    for number in _numbers(launch):
        spins = Spins(kernel, number, launch.grid)
        evaluator = Evaluator(number, launch.grid, memory, _printer(launch), spins)
        context = Context(evaluator, ir.Module(), _call, launch.checks_assertions, print_=_print)
        context.sanitize_overflow = launch.checks_overflow
        context.num_warps = launch.num_warps
        context.input_precision = launch.input_precision
        context.bf16_native = knobs.language.allow_bf16_native
        context.over_hosts = spans_hosts()
        context.map_scalars = evaluator.map_scalars
        CALLEES.reset()
        with building(context):
            try:
                function(**{n: given(n, t, launch.values.get(n)) for n, t in launch.types.items()})
            except (bdb.BdbQuit, StoppedError):
                raise
            except KeyboardInterrupt as error:
                watching.add_place(error, spins.describe())
                raise
            except Exception as error:  # noqa: BLE001 - whatever the program raises is the cause
                return _failure(launch.kernel, number, error)
            finally:
                spins.leave()
    return None


def _described(launch: Launch) -> Described:
    """Return the kernel as reports of its loops name it."""
    function, parameters, bases = launch.kernel, [], []
    for name, type_ in launch.types.items():
        value = launch.values.get(name)
        if isinstance(type_, dtype) and type_.is_ptr() and isinstance(value, int):
            parameters.append((name, "ptr"))
            bases.append(value)
    code = function.fn.__code__
    place = f"{code.co_filename}:{code.co_firstlineno}"  # of a function without a file, too
    return Described(function.__name__, place, (*parameters,), (*bases,))


def is_running() -> bool:
    """Return whether this thread runs a kernel as Python."""
    try:
        return isinstance(current().builder, Evaluator)
    except RuntimeError:
        return False


def call(function: JITCallable, arguments: Sequence[object], keywords: Mapping[str, object]) -> Any:
    """Call a jit function inside a kernel that runs as Python."""
    return CALLEES.python(function)(*arguments, **keywords)


def _call(function: Any, arguments: Sequence[object]) -> Any:
    """Call a combine function; integers may wrap around in it, as in a compiled kernel."""
    context = current()
    before, context.sanitize_overflow = context.sanitize_overflow, False
    try:
        return CALLEES.callee(function)(*arguments)
    finally:
        context.sanitize_overflow = before


def _numbers(launch: Launch) -> Iterator[Triple]:
    x, y, z = launch.grid
    if launch.program is None:
        for k, j, i in itertools.product(range(z), range(y), range(x)):
            yield i, j, k
        return
    if any(not 0 <= n < g for n, g in zip(launch.program, launch.grid, strict=True)):
        raise ValueError(
            f"the program to run must be inside the grid {launch.grid}, but got {launch.program}"
        )
    yield launch.program


def given(name: str, type_: Any, value: Any) -> Any:
    """Return what a parameter holds in the kernel: constants are plain, all else are tensors."""
    if isinstance(type_, constexpr | constexpr_type):
        return type_.value
    if isinstance(type_, tuple_type):
        items = [
            given(f"{name}[{i}]", t, v) for i, (t, v) in enumerate(zip(type_, value, strict=True))
        ]
        return tuple(items, type_ if type_.fields else None)
    if isinstance(type_, stored_type):  # such as a tensor descriptor
        of_parts = zip(type_.part_types().items(), value, strict=True)
        return type_.make([given(f"{name}.{part}", t, v) for (part, t), v in of_parts])
    assert isinstance(type_, dtype)
    is_narrow = type_.is_floating() and type_.primitive_bitwidth < 32
    wide = float32 if is_narrow else type_
    element = wide.to_ir()
    if isinstance(element, DType) and element.is_integer and not isinstance(value, bool):
        # Numbers become what an argument of their dtype holds, as in a packed argument.
        value = int(np.array(int(value) & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(element.numpy))
    made = argument(float(value) if element is F32 else value, element)
    scalar = tensor(Known(element, made, name if type_.is_ptr() else None), wide)
    return scalar.to(type_) if is_narrow else scalar


# ---- printing


def _print(*values: object, **keywords: Any) -> None:
    print(*[_text(v) for v in values], **keywords)  # noqa: T201 - static_print


def _text(value: object) -> object:
    if isinstance(value, tensor):
        return str(value.handle.array)  # type: ignore[attr-defined]  # a known value
    return value


def _printer(launch: Launch) -> Callable[..., None]:
    def show(
        number: Triple,
        prefix: str,
        values: Sequence[ir.Value],
        arrays: Sequence[Array],
        as_hex: bool,
    ) -> None:
        if launch.print_elements:
            elements = [element_of(v.type) for v in values]
            names = [e.name if isinstance(e, DType) else printing.POINTER for e in elements]
            pairs = list(zip(arrays, names, strict=True))
            for line in printing.lines(number, prefix, as_hex, pairs):
                launch.write(f"{line}\n")
            return
        shown = [_array_text(a, as_hex) for a in arrays]
        launch.write(f"pid {number} {prefix.strip()} {', '.join(shown)}".rstrip() + "\n")

    return show


def _array_text(array: Array, as_hex: bool) -> str:
    if not as_hex:
        return str(array)
    digits = 2 * array.dtype.itemsize
    bits = np.ascontiguousarray(array).reshape(array.shape).view(f"u{array.dtype.itemsize}")
    return np.array2string(bits, formatter={"int": lambda x: f"0x{x:0{digits}x}"})


# ---- errors


def _is_own(traceback: TracebackType) -> bool:
    name = str(traceback.tb_frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] == _OWN


def _trimmed(traceback: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that has the program's lines: our frames before and after are dropped."""
    while traceback is not None and _is_own(traceback):
        traceback = traceback.tb_next
    last, step = traceback, traceback
    while step is not None:
        if not _is_own(step):
            last = step
        step = step.tb_next
    if last is not None:
        last.tb_next = None
    # Frames of ours between two of the program's, as of a reduction that calls its combine function.
    step = traceback
    while step is not None and step.tb_next is not None:
        if _is_own(step.tb_next):
            step.tb_next = step.tb_next.tb_next
        else:
            step = step.tb_next
    return traceback


def _failure(kernel: JITCallable, number: Triple, error: Exception) -> InterpreterError:
    """Return the error of a launch whose program failed."""
    lines = _trimmed(error.__traceback__)
    where = f"kernel {kernel.__name__}, program {number}"
    if isinstance(error, InterpreterError):
        error.args = (f"{where}: {error}",)
        error.error_message = str(error)
        return error.with_traceback(lines)
    is_assertion = isinstance(error, AssertionError) and not isinstance(error, StaticAssertionError)
    kind = InterpretedAssertionError if is_assertion else InterpreterError
    failed = kind(f"{where}: {type(error).__name__}: {error}")
    # The lines belong to what is raised: a debugger then stops at the program's line, not at the launch.
    failed.__cause__ = error.with_traceback(None)
    return failed.with_traceback(lines)

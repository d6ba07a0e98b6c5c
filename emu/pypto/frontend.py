"""Kernels: ``pypto.frontend.jit``, options and loops."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto.buffer import Buffer
from emu.pypto.context import CONTEXT, Schedule, check_schedule, new_scope
from emu.pypto.dtypes import Array, DataType, data_type_of
from emu.pypto.errors import ArgumentError, KernelError, PyptoWarning
from emu.pypto.foreign import as_array, is_foreign
from emu.pypto.recorded import begin_call, end_call
from emu.pypto.spec import TensorSpec, specs_of
from emu.pypto.symbolic import SymbolicScalar, as_flag, as_int, as_shape
from emu.pypto.tensor import Tensor, wrap
from emu.tile.counting.state import Counting

__all__ = ["Kernel", "cond", "jit", "loop", "options"]

_PLAIN = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

F = TypeVar("F", bound=Callable[..., Any])

_MEANINGLESS = frozenset(
    {
        *("codegen_options", "compile_options", "debug_options", "host_options", "infer_options"),
        *("pass_options", "runtime_options", "verify_options", "run_mode", "use_cache", "cache"),
        *("enable_cache", "name", "verbose", "debug", "device", "platform", "dynamic"),
    }
)
"""Options that change how a compiler works, not what a kernel computes."""

_warned: set[str] = set()


def _check_options(options: dict[str, object]) -> None:
    for name in options:
        if name not in _MEANINGLESS and name not in _warned:
            _warned.add(name)
            warnings.warn(
                f"option {name!r} is not known to the emulator and is ignored",
                PyptoWarning,
                stacklevel=4,
            )


class Kernel:
    """A function that runs as one kernel: arrays in, results written in place.

    Calling it turns NumPy arrays and torch CPU tensors (also inside lists) into tensors on their memory,
    checks them against the annotations, runs the function, and returns when every op is complete on this
    PE. Symmetric memory that it created goes back then. Called inside another kernel it is a function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        schedule: Schedule | None,
        seed: int | None,
        allow_mixed_add: bool | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters.values()
        are_plain = all(each.kind in _PLAIN for each in parameters)
        self._names = tuple(self._signature.parameters)
        # Number of arguments that, given by place, need not be bound.
        self._count = len(self._names) if are_plain else -1
        self._scope = functools.partial(new_scope, schedule, seed, allow_mixed_add)
        self._specs: dict[str, TensorSpec] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel."""
        if CONTEXT.kernel_depth:
            return self._function(*args, **kwargs)
        if self._specs is None:
            # Not at decoration: annotations may name what is defined further down.
            self._specs = specs_of(self._function)
        importer = _Importer()
        if kwargs or len(args) != self._count:
            args, kwargs = self._bind(importer, args, kwargs)
        else:
            args = tuple(map(importer.take, args, self._names))
            if self._specs:
                self._check(dict(zip(self._names, args, strict=True)))
        before = CONTEXT.graph.enter(self._scope(is_kernel=True))
        failed, is_counted = True, Counting.operators
        if is_counted:
            begin_call(getattr(self, "__name__", "kernel"))
        CONTEXT.kernel_depth += 1
        try:
            result = self._function(*args, **kwargs)
            failed = False
        finally:
            CONTEXT.kernel_depth -= 1
            CONTEXT.graph.leave(before, failed=failed)
            if is_counted:
                end_call()
        return result

    def _bind(
        self, importer: _Importer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call with arrays as tensors."""
        bound = self._signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {k: importer.take(v, k) for k, v in value.items()}
            else:
                bound.arguments[name] = importer.take(value, name)
        self._check(bound.arguments)
        return bound.args, bound.kwargs

    def _check(self, arguments: Mapping[str, object]) -> None:
        """Check arguments against the annotations."""
        for name, spec in (self._specs or {}).items():
            if name in arguments:
                _check_argument(
                    spec, arguments[name], f"argument {name} of {self._function.__name__}"
                )

    def __get__(self, instance: object, owner: object = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _check_argument(spec: TensorSpec, value: object, argument: str) -> None:
    if not isinstance(value, Tensor):
        raise KernelError(f"{argument} must be {spec}, but got {type(value).__name__}")
    spec.check(value.shape, value.dtype, argument)


class _Importer:
    """Import of one call's arrays as tensors; the same memory twice is one buffer."""

    _calls = 0

    def __init__(self) -> None:
        self._seen: list[tuple[str, Array, Buffer]] = []
        _Importer._calls += 1
        self._call = _Importer._calls

    def take(self, value: object, argument: str) -> object:
        if type(value) is np.ndarray:
            dtype = data_type_of(value)
            if dtype is not None:
                return self._import(value, argument, dtype)
        if is_foreign(value):
            return self._import(as_array(value, f"argument {argument}"), argument)
        if isinstance(value, list | tuple) and any(is_foreign(item) for item in value):
            items = [self.take(item, f"{argument}[{i}]") for i, item in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
        return value

    def _import(self, array: Array, argument: str, dtype: DataType | None = None) -> Tensor:
        t = wrap(array, dtype, argument)
        t.buffer.call = self._call
        for name, other, buffer in self._seen:
            if not np.may_share_memory(array, other):
                continue
            if not _overlap(array, other):
                t.buffer.call = 0  # whoever looks at bounds only cannot tell them apart
                continue
            if _place(array) != _place(other):
                raise KernelError(
                    f"argument {argument} must not overlap argument {name} in memory: pass the same "
                    "array, or arrays apart from each other"
                )
            t.buffer = buffer
            return t
        self._seen.append((argument, array, t.buffer))
        return t


def _place(array: Array) -> tuple[object, ...]:
    pointer = array.__array_interface__["data"][0]
    return pointer, array.shape, array.strides, array.dtype


def _overlap(a: Array, b: Array) -> bool:
    """Return whether two arrays share elements, if their bounds overlap."""
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]  # NumPy takes any positive bound
    except np.exceptions.TooHardError:
        return True


def _check_function(function: Callable[..., object]) -> None:
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"function must be a Python function, but got {shown(function)}"
        ) from None


@overload
def jit(function: Callable[..., Any], /) -> Kernel: ...


@overload
def jit(
    function: None = None,
    /,
    *,
    schedule: Schedule | None = None,
    seed: int | None = None,
    allow_mixed_add: bool | None = None,
    **options: object,
) -> Callable[[Callable[..., Any]], Kernel]: ...


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    schedule: Schedule | None = None,
    seed: int | None = None,
    allow_mixed_add: bool | None = None,
    **options: object,
) -> Any:
    """Make a function a :class:`Kernel`; with and without parentheses.

    Args:
        function: The function, if used without parentheses.
        schedule: Order of ops that nothing orders, as :func:`pypto.set_schedule`; default: what is set.
        seed: Seed of a random schedule; default: what is set.
        allow_mixed_add: As :func:`pypto.set_options`; default: what is set.
        options: Options of PyPTO. Those without numerical meaning are ignored, unknown ones warned of
            once.
    """
    if schedule is not None or seed is not None:
        check_schedule("program" if schedule is None else schedule, 0 if seed is None else seed)
    if allow_mixed_add is not None:
        allow_mixed_add = as_flag(allow_mixed_add, "allow_mixed_add")
    if function is not None:
        _check_function(function)
    _check_options(options)

    def decorate(target: Callable[..., Any]) -> Kernel:
        _check_function(target)
        return Kernel(target, schedule, seed, allow_mixed_add)

    return decorate if function is None else decorate(function)


class options:
    """Options of what follows, as a decorator or a context manager; none means anything here.

    Unknown ones are warned of once.
    """

    def __init__(self, **settings: object) -> None:
        _check_options(settings)

    def __call__(self, function: F) -> F:
        """Return the function as it is."""
        return function

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def loop(
    *bounds: int,
    name: str = "",
    idx_name: str = "",
    unroll: int | None = None,
    unroll_list: Sequence[int] | None = None,
    **options: object,
) -> Iterator[SymbolicScalar]:
    """Iterate over ``range(*bounds)`` with symbolic scalars.

    Args:
        bounds: ``stop``, or ``start, stop``, or ``start, stop, step``.
        name: Name of the loop, ignored.
        idx_name: Name of its variable, ignored.
        unroll: How many turns to make at a time, at least 1; a hint, which changes nothing here.
        unroll_list: Several of them to choose from.
        options: Others, ignored.
    """
    if not 1 <= len(bounds) <= 3:
        raise ArgumentError(
            f"loop must be given 1 to 3 bounds, but got {len(bounds)}: {shown(bounds)}"
        )
    limits = [as_int(bound, f"bound {i} of loop") for i, bound in enumerate(bounds)]
    if len(limits) == 3 and limits[2] == 0:
        raise ArgumentError("step of loop must not be 0")
    if unroll is not None and as_int(unroll, "unroll") < 1:
        raise ArgumentError(f"unroll must be at least 1, but got {shown(unroll)}")
    if unroll_list is not None and not as_shape(unroll_list, "unroll_list"):
        raise ArgumentError("unroll_list must hold at least one number, but got none")
    return map(SymbolicScalar, range(*limits))


def cond(condition: object) -> bool:
    """Return the condition of an ``if``; a symbolic scalar has its value already."""
    try:
        return bool(condition)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"condition must be true or false, but got {shown(condition)}"
        ) from None

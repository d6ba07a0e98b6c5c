"""Generation of a kernel's launcher, the function behind ``kernel[grid](...)``.

Python itself binds the arguments: the launcher of a kernel has the kernel's own parameters. Its body
works out the key of each argument, looks the compiled kernel up, and runs it. A warm launch is meant to
take a few microseconds, so the frequent cases are inline in the generated text, and only rare ones call
functions.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from emu.triton import knobs
from emu.triton.formats import BY_SPELLING
from emu.triton.runtime import arguments
from emu.triton.runtime.arguments import Key, Packed
from emu.triton.runtime.options import check as check_options
from emu.triton.source import KernelParam, plain_value
from emu.triton.suggestions import misfit

K = TypeVar("K")


MAX_EXTENT = 2**31 - 1
REFUSALS = (
    TypeError,
    ValueError,
    OverflowError,
    RuntimeError,
)  # of an argument; the last are torch's

# The generated text. Names of parameters share its scope, hence the prefix ``_emu_``:
#
#   per argument    _emu_k{i} its key, _emu_v{i} its packed value, _emu_d{i} the parameter's default,
#                   _emu_i the index of the argument in hand (errors name it), _emu_c its class
#   of the launch   _emu_grid, then _emu_x, _emu_y, _emu_z; _emu_options (keywords that are no parameters),
#                   _emu_rest (arguments that are none);
#                   _emu_key of the compiled kernel; _emu_kernel, the CompiledKernel;
#                   _emu_checked launches with the option "check"
#   tables          _emu_table (kernels by key), _emu_tensors (classes of torch tensors),
#                   _emu_watched (the globals that kernels were compiled with, as Watched;
#                   in the loop _emu_n, _emu_value, _emu_plain, _emu_space, and _emu_now, the present value)
#   settings        _emu_knobs; where none is assigned and the environment (_emu_environment) has none of
#                   _emu_interpret_variable and _emu_debug_variable, they are not asked one by one
#   as Python       _emu_always, _emu_interprets, _emu_interpret: see Interpret; _emu_ran, what this
#                   returned: the kernel, or an error
#   while keys are made, torch must not record or redirect what is read from tensors: _emu_modes() is
#                   whether it might, _emu_guard() the context that prevents it, _emu_active that context
#   rare cases      _emu_integer (64 bits), _emu_describe (all other arguments), _emu_constant,
#                   _emu_annotated, _emu_extents (of the grid),
#                   _emu_options_key (options that cannot be hashed), _emu_miss (compiles),
#                   _emu_changed (a watched global), _emu_refusals and _emu_raise_named (errors of an argument)
_TENSOR = """\
            _emu_i = {i}
            _emu_c = {name}.__class__
            if _emu_c in _emu_tensors:
                _emu_k{i} = {name}.dtype
                _emu_v{i} = {name}.data_ptr()
                if not {name}.is_cpu:
                    _emu_k{i} = _emu_k{i}, "device"
            elif _emu_c is int:
                _emu_v{i} = {name}
                _emu_k{i} = {one}{aligned}"i32" if -2147483648 <= {name} <= 2147483647 else _emu_integer({name})
            else:
                _emu_k{i}, _emu_v{i} = _emu_describe({name})
"""
_ONE = "1 if {name} == 1 else "
_ALIGNED = (
    "{name} & 15 and "  # 0 of a multiple of 16: as in Triton another entry, here of the same code
)
_CONSTANT = """\
            _emu_i = {i}
            _emu_c = {name}.__class__
            if _emu_c is int or _emu_c is str or _emu_c is bool:
                _emu_k{i} = _emu_c, {name}
            else:
                _emu_k{i} = _emu_constant({name})
"""
_ANNOTATED = """\
            _emu_i = {i}
            _emu_v{i} = {name}
            if {name}.__class__ is int and {low} <= {name} <= {high}:
                _emu_k{i} = {key}
            else:
                _emu_k{i}, _emu_v{i} = _emu_annotated({name!r}, {type!r}, {name})
"""
_BODY = """\
def launcher({parameters}):
    if _emu_options and "check" in _emu_options and not _emu_rest:
        return _emu_checked(_emu_grid, {{{bound}}}, _emu_options)
    _emu_active = None
    if _emu_modes() or not _emu_tensors:
        _emu_active = _emu_guard()
        _emu_active.__enter__()
    try:
        try:
{lookups}
            if _emu_rest:
                raise TypeError
        except _emu_refusals as _emu_error:
            _emu_raise_named(_emu_error, _emu_i, ({names}), _emu_rest, _emu_options)
    finally:
        if _emu_active is not None:
            _emu_active.__exit__(None, None, None)
    _emu_key = ({keys})
    if (
        _emu_knobs.runtime.__dict__
        or _emu_interpret_variable in _emu_environment
        or _emu_debug_variable in _emu_environment
        or _emu_always
        or (_emu_options and "interpret" in _emu_options)
    ):
        if _emu_interprets(_emu_always, _emu_options):
            _emu_ran = _emu_interpret(_emu_grid, {{{bound}}}, _emu_options)
            if isinstance(_emu_ran, Exception):
                raise _emu_ran
            return _emu_ran
        if _emu_knobs.runtime.debug:
            _emu_key = _emu_key, "debug"
    if _emu_options:
        _emu_key = _emu_key, (*_emu_options.items(),)
    try:
        _emu_kernel = _emu_table.get(_emu_key)
    except TypeError:
        if not _emu_options:
            raise
        _emu_key = _emu_key[0], _emu_options_key(_emu_options)
        _emu_kernel = _emu_table.get(_emu_key)
    if _emu_kernel is None:
        _emu_kernel = _emu_miss(_emu_key, {{{bound}}}, _emu_options)
        if _emu_kernel is None:
            return None
    for _emu_n, _emu_value, _emu_plain, _emu_space in _emu_watched:
        _emu_now = _emu_space.get(_emu_n)
        if _emu_now is not _emu_value or (_emu_plain is not None and _emu_now.value is not _emu_plain):
            _emu_changed(_emu_n, _emu_value, _emu_plain, _emu_now)
    if _emu_grid.__class__ is not tuple:
        if _emu_grid is None:
            return _emu_kernel
        if callable(_emu_grid):
            _emu_grid = _emu_grid({{{bound}}})
    if _emu_grid.__class__ is tuple and len(_emu_grid) == 1 and _emu_grid[0].__class__ is int:
        _emu_x, _emu_y, _emu_z = _emu_grid[0], 1, 1
        if not 0 < _emu_x <= 2147483647:
            _emu_x, _emu_y, _emu_z = _emu_extents(_emu_grid)
    else:
        _emu_x, _emu_y, _emu_z = _emu_extents(_emu_grid)
    if _emu_x:
        if _emu_kernel.takes_arguments:
            _emu_kernel.launch(_emu_x, _emu_y, _emu_z, ({values}), {{{bound}}})
        else:
            _emu_kernel.launch(_emu_x, _emu_y, _emu_z, ({values}){given})
    return _emu_kernel
"""


class Watched(NamedTuple):
    """A global, or a variable of an enclosing function, that became part of a kernel.

    Attributes:
        name: Its name.
        value: What it was.
        plain: Of a constexpr, the value, which programs may replace; else None.
        space: Where it is looked up.
    """

    name: str
    value: object
    plain: object
    space: Mapping[str, object]


class Interpret(NamedTuple):
    """How a kernel runs as Python.

    Attributes:
        always: Whether it was decorated so.
        is_wanted: Tells from that and the options whether a launch does.
        launch: Takes grid, bound arguments and options; returns what a launch returns, or the error of a program
            that failed, which is raised where the launch stands, so that none of its inner frames is in the traceback.
    """

    always: bool
    is_wanted: Callable[[bool, dict[str, object]], bool]
    launch: Callable[[object, dict[str, object], dict[str, object]], object]


def extents(grid: object) -> tuple[int, int, int]:
    """Return the three extents of a grid; all 0 if one of them is.

    Args:
        grid: An integer, or one to three of them.

    Raises:
        TypeError: The grid is not made of integers.
        ValueError: There are more or fewer extents, or one is out of bounds.
    """
    given = grid if isinstance(grid, (tuple, list)) else (grid,)
    try:
        found = [operator.index(g) for g in given]  # pyright: ignore[reportArgumentType]  # others raise
    except TypeError:
        raise TypeError(f"grid must be one to three integers, but got {grid!r:.80}") from None
    if not 1 <= len(found) <= 3:
        raise ValueError(f"grid must have one to three extents, but got {grid!r:.80}")
    for extent in found:
        if not 0 <= extent <= MAX_EXTENT:
            raise ValueError(f"extents of the grid must be in [0, 2**31), but got {grid!r:.80}")
    if 0 in found:
        return 0, 0, 0
    x, y, z = (*found, 1, 1)[:3]
    return x, y, z


def _lookup(param: KernelParam, i: int) -> str:
    if param.is_constexpr:
        return _CONSTANT.format(name=param.name, i=i)
    annotated = arguments.annotated_scalar(param)
    one = "" if param.do_not_specialize else _ONE.format(name=param.name)
    plain = param.do_not_specialize or param.do_not_specialize_on_alignment
    aligned = "" if plain else _ALIGNED.format(name=param.name)
    if annotated is None:
        return _TENSOR.format(name=param.name, i=i, one=one, aligned=aligned)
    low, high = arguments.bounds(annotated)
    key = "0" if BY_SPELLING[annotated].is_float else f"{one}{aligned}2"
    return _ANNOTATED.format(name=param.name, i=i, low=low, high=high, type=annotated, key=key)


def _never(always: bool, given: dict[str, object]) -> bool:
    return False


def make(
    name: str,
    params: Sequence[KernelParam],
    table: dict[Key, K],
    miss: Callable[[Key, dict[str, object], dict[str, object]], K | None],
    watched: list[Watched],
    checked: Callable[..., K] | None = None,
    with_arguments: bool = False,
    interpret: Interpret | None = None,
) -> Callable[..., K]:
    """Return the launcher of a kernel.

    Args:
        name: The kernel's, as errors about missing arguments say it.
        params: Its parameters.
        table: Compiled kernels by key.
        miss: Compiles and stores the kernel of a key that the table lacks, from bound arguments and options;
            None: nothing is to be compiled.
        watched: The globals that became part of compiled kernels.
        checked: Launches with the option ``check``, given the grid, bound arguments and options. None: the kernels
            of the table have checks, and are given the arguments themselves as well.
        with_arguments: Whether the kernel is given the arguments by name, too.
        interpret: How the kernel runs as Python. None: it never does.

    Returns:
        ``launcher(grid, /, *args, **kwargs)``: launches and returns the compiled kernel. A grid of None
        only compiles.
    """
    space = _namespace(name, params)
    space |= {"_emu_table": table, "_emu_miss": miss, "_emu_watched": watched}
    space["_emu_checked"] = checked
    space |= {
        "_emu_always": interpret is not None and interpret.always,
        "_emu_interprets": _never if interpret is None else interpret.is_wanted,
        "_emu_interpret": None if interpret is None else interpret.launch,
    }
    for i, param in enumerate(params):
        space[f"_emu_d{i}"] = param.default if param.has_default else MISSING
    text = _text(params, checked is None, with_arguments)
    exec(compile(text, f"<launcher of {name}>", "exec"), space)  # noqa: S102 - from names of parameters
    launcher: Callable[..., K] = space["launcher"]
    launcher.__name__ = launcher.__qualname__ = name
    return launcher


def _signature(params: Sequence[KernelParam]) -> str:
    signature = ["_emu_grid", "/"]
    for i, param in enumerate(params):
        if param.parameter.kind is param.parameter.KEYWORD_ONLY and "*_emu_rest" not in signature:
            signature.append("*_emu_rest")
        signature.append(f"{param.name}=_emu_d{i}")
    if "*_emu_rest" not in signature:
        signature.append("*_emu_rest")
    return ", ".join((*signature, "**_emu_options"))


def _text(params: Sequence[KernelParam], has_checks: bool, with_arguments: bool) -> str:
    """Return the text of a launcher; ``has_checks``: whether the kernels of its table have checks."""
    bound = ", ".join(f"{p.name!r}: {p.name}" for p in params)
    text = _BODY.format(
        parameters=_signature(params),
        lookups="".join(_lookup(p, i) for i, p in enumerate(params)) or "            _emu_i = 0\n",
        keys="".join(f"_emu_k{i}, " for i in range(len(params))),
        values="".join(f"_emu_v{i}, " for i, p in enumerate(params) if not p.is_constexpr),
        names="".join(f"{p.name}, " for p in params),
        bound=bound,
        given=f", {{{bound}}}" if with_arguments or has_checks else "",
    )
    if has_checks:  # the option is in the key, so that it need not be looked for
        text = text.replace(
            'if _emu_options and "check" in _emu_options and not _emu_rest:', "if False:"
        )
    return text


def _namespace(name: str, params: Sequence[KernelParam]) -> dict[str, Any]:
    """Return the names that the generated text uses, except the tables of its kernel."""
    return {
        "_emu_knobs": knobs,
        "_emu_environment": knobs.variables,
        "_emu_interpret_variable": knobs.variable_key("TRITON_INTERPRET"),
        "_emu_debug_variable": knobs.variable_key("TRITON_DEBUG"),
        "_emu_tensors": arguments.tensors,
        "_emu_integer": arguments.integer_key,
        "_emu_describe": arguments.describe,
        "_emu_constant": arguments.constant_key,
        "_emu_annotated": _annotated,
        "_emu_guard": arguments.torch_guard,
        "_emu_modes": arguments.torch_modes(),
        "_emu_refusals": REFUSALS,
        "_emu_raise_named": functools.partial(_refuse_call, name, params),
        "_emu_options_key": options_key,
        "_emu_changed": _check_unchanged,
        "_emu_extents": extents,
    }


def _check_unchanged(name: str, value: object, plain: object, now: object) -> None:
    """Check that a global has the value that a kernel was compiled with.

    Raises:
        RuntimeError: The value has changed.
    """
    before = plain_value(value) if plain is None else plain
    found = plain_value(now)
    if type(found) is not type(before) or found != before:
        texts = [_spelled(value, before), _spelled(now, found)]
        raise RuntimeError(
            f"Global variable {name} has changed since we compiled this kernel, from {texts[0]} to {texts[1]}; "
            "it is part of the code, and must stay as it is"
        )


def _spelled(value: object, plain: object) -> str:
    return f"constexpr[{plain!r}]" if type(value).__name__ == "constexpr" else repr(value)


def _annotated(name: str, type_: str, value: Any) -> tuple[Key, Packed]:
    """Describe an argument whose parameter has the type of a number."""
    if value is None or isinstance(value, tuple):
        return arguments.describe(value)
    arguments.check_annotated(name, type_, value)
    return 0, value


class _Missing:
    """Value of a parameter that was given none; no rule takes it, as it cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]  # the documented way to say so


MISSING = _Missing()


def _refuse_call(
    kernel: str,
    params: Sequence[KernelParam],
    error: Exception,
    i: int,
    values: tuple[object, ...],
    rest: tuple[object, ...],
    options: dict[str, object],
) -> NoReturn:
    """Raise the error of a launch: its arguments do not fit the parameters, or one cannot be passed.

    Args:
        kernel: Name of the kernel.
        params: Its parameters.
        error: What was raised while the arguments were read.
        i: Number of the argument that was read then.
        values: Values of the parameters.
        rest: Arguments for which there is no parameter.
        options: Keywords that are no parameters.
    """
    lacking = [p for p, v in zip(params, values, strict=True) if v is MISSING]
    if lacking or rest:
        check_options(kernel, options, [p.name for p in params])
        by_order = [p for p in params if p.parameter.kind is not p.parameter.KEYWORD_ONLY]
        if rest:
            positional, given = len(by_order) + len(rest), [p.name for p in params[len(by_order) :]]
        else:
            positional, given = 0, [p.name for p in params if p not in lacking]
        text = misfit(f"{kernel}()", [p.parameter for p in params], positional, given)
        raise TypeError(text) from None
    raise_named(kernel, params[i].name, error)


def raise_named(kernel: str, argument: str, error: Exception) -> NoReturn:
    """Raise an error again, with the name of the argument that caused it.

    Args:
        kernel: Name of the kernel.
        argument: Name of the argument.
        error: The error that reading it raised.
    """
    raise type(error)(f"{argument} of kernel {kernel}: {error}") from None


def options_key(options: dict[str, object]) -> tuple[object, ...]:
    """Return the part of a compiled kernel's key that stands for the options of the launch."""
    key = tuple(options.items())
    try:
        hash(key)
    except TypeError:
        return tuple((name, repr(value)) for name, value in key)
    return key

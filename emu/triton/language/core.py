"""Classes and functions that Triton keeps in ``tl.core``.

The imports are the list: a function of the language is added to them, and ``tl`` has it too.
"""

# mypy: implicit-reexport
# ruff: noqa: F401 - ``__all__`` is made of the imports

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, TypeVar

from emu.triton.language.aggregates import aggregate as _aggregate
from emu.triton.language.aggregates import aggregate_replace
from emu.triton.language.arithmetic import (
    PropagateNan,
    add,
    clamp,
    div_rn,
    fdiv,
    fma,
    known_extreme,
    maximum,
    minimum,
    mul,
    sub,
    where,
)
from emu.triton.language.assembly.elementwise import (
    inline_asm_elementwise,
)
from emu.triton.language.block_pointers import (
    advance,
    make_block_ptr,
)
from emu.triton.language.constants import (
    ConstexprLike,
    base_type,
    base_value,
    constexpr,
    constexpr_type,
    unwrap,
)
from emu.triton.language.conversion import (
    cast,
    to_tensor,
)
from emu.triton.language.creation import (
    arange,
    full,
    num_programs,
    program_id,
)
from emu.triton.language.debugging import (
    StaticAssertionError,
    assume,
    debug_barrier,
    device_assert,
    device_print,
    expect_zero,
    max_constancy,
    max_contiguous,
    multiple_of,
    static_assert,
    static_print,
)
from emu.triton.language.descriptors import (
    load_tensor_descriptor,
    make_tensor_descriptor,
    store_tensor_descriptor,
    tensor_descriptor,
    tensor_descriptor_base,
    tensor_descriptor_base_type,
    tensor_descriptor_type,
)
from emu.triton.language.external import (
    extern_elementwise,
)
from emu.triton.language.iteration import (
    condition,
    range,
    static_range,
)
from emu.triton.language.linear import (
    dot,
)
from emu.triton.language.mapping import map_elementwise
from emu.triton.language.mathematics import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    exp2,
    floor,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)
from emu.triton.language.memory import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_store,
    atomic_xchg,
    atomic_xor,
    load,
    store,
)
from emu.triton.language.polling import atomic_poll
from emu.triton.language.reductions import (
    reduce,
)
from emu.triton.language.scaled_products import dot_scaled
from emu.triton.language.scans import (
    associative_scan,
    histogram,
)
from emu.triton.language.shapes import (
    broadcast,
    broadcast_to,
    cat,
    expand_dims,
    gather,
    item,
    join,
    permute,
    reshape,
    split,
    trans,
    view,
)
from emu.triton.language.types import (
    bfloat16,
    block_type,
    const,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    get_int_dtype,
    int1,
    int8,
    int16,
    int32,
    int64,
    pi32_t,
    pointer_type,
    slice_type,
    str_to_ty,
    tuple_type,
    uint8,
    uint16,
    uint32,
    uint64,
    validate_block_shape,
    void,
)
from emu.triton.language.values import (
    flatten,
    slice,
    tensor,
    tuple,
    unflatten,
)
from emu.triton.source import constexpr_function

F = TypeVar("F", bound=Callable[..., Any])

_unwrap_if_constexpr = unwrap

CONSTEXPR_0 = constexpr(0)


def is_builtin(fn: object) -> bool:
    """Return whether it is a function of the language, not one of a program."""
    return getattr(fn, "__module__", "").startswith(__name__.rpartition(".")[0])


def builtin(fn: F) -> F:
    """Mark a function as one of the language; programs decorate their own with it."""
    fn.__triton_builtin__ = True  # type: ignore[attr-defined]  # functions take any
    return fn


def extern(fn: F) -> F:
    """Mark a function of a device library, which programs write around :func:`extern_elementwise`."""
    return builtin(fn)


def _folded(
    name: str,
    function: Callable[..., tensor],
    args: Sequence[object],
    propagate_nan: ConstexprLike[PropagateNan],
) -> Any:
    given = [a if isinstance(a, base_value) else constexpr(a) for a in args]
    if len(given) == 1 and isinstance(given[0], tuple):
        given = list(given[0])
    if not given:
        raise TypeError(f"{name} needs at least one value, but got none")
    if all(isinstance(a, constexpr) for a in given):
        return constexpr(known_extreme(name, unwrap(given)))
    result = given[0]
    for other in given[1:]:
        result = function(result, other, propagate_nan=propagate_nan)
    return result


def builtin_max(
    *args: object, propagate_nan: ConstexprLike[PropagateNan] = PropagateNan.NONE
) -> Any:
    """Return what Python's ``max`` returns in a program: a constexpr of constexprs, else ``tl.maximum``."""
    return _folded("max", maximum, args, propagate_nan)


def builtin_min(
    *args: object, propagate_nan: ConstexprLike[PropagateNan] = PropagateNan.NONE
) -> Any:
    """Return what Python's ``min`` returns in a program: a constexpr of constexprs, else ``tl.minimum``."""
    return _folded("min", minimum, args, propagate_nan)


def _lenient(function: F) -> F:
    """Let a function take ``_semantic``, ``_generator`` and ``_builder``, which Triton's own code passes on."""

    takes = function.__code__.co_varnames[: function.__code__.co_argcount]
    dropped = [name for name in _PASSED_ON if name not in takes]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            for name in dropped:
                kwargs.pop(name, None)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]  # it has the parameters of the function, and three more


_PASSED_ON = ("_semantic", "_generator", "_builder")

for _name, _value in list(globals().items()):
    if isinstance(_value, FunctionType) and _name[0] != "_" and _value.__module__ != __name__:
        globals()[_name] = _lenient(_value)

_OTHERS = {
    *(
        "Any",
        "Callable",
        "FunctionType",
        "functools",
        "known_extreme",
        "ConstexprLike",
        "F",
        "Sequence",
        "TypeVar",
    ),
    *("annotations", "builtins", "unwrap"),
    "constexpr_function",  # libraries take it from here; the language has it under triton
}
# By way of globals(), as type checkers take a list that is computed for an empty one.
globals()["__all__"] = sorted(name for name in globals() if name[0] != "_" and name not in _OTHERS)

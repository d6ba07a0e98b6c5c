"""What to write in place of names of other libraries, and of Python that reads a tensor as if it were a list."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence, Sized

from emu.triton import language
from emu.triton.codegen.values import is_tensor, tensor
from emu.triton.suggestions import suggestion

_ATTRIBUTES: dict[str, str] = {
    "astype": "{}.to(dtype)",
    "type_as": "{}.to(other.dtype)",
    "float": "{}.to(tl.float32)",
    "double": "{}.to(tl.float64)",
    "half": "{}.to(tl.float16)",
    "bfloat16": "{}.to(tl.bfloat16)",
    "int": "{}.to(tl.int32)",
    "long": "{}.to(tl.int64)",
    "bool": "{} != 0",
    "t": "{}.T",
    "transpose": "{}.trans()",
    "flatten": "tl.ravel({})",
    "repeat": "tl.broadcast_to({}, shape)",
    "mean": "tl.sum({}, axis) / n",
    "prod": "tl.reduce({}, axis, function)",
    "clone": "the tensor itself: no operation changes it",
    "contiguous": "the tensor itself: tensors of a kernel have no strides",
}
"""Methods of NumPy's and torch's tensors, and what kernels write instead."""

_OF_MEMORY = frozenset(
    [
        "size",
        "stride",
        "strides",
        "numel",
        "nelement",
        "dim",
        "ndim",
        "device",
        "is_cuda",
        "data_ptr",
        "element_size",
        "itemsize",
        "is_contiguous",
    ]
)
"""Facts about a tensor that a kernel, which gets a pointer, does not have."""

_FUNCTIONS: dict[str, str] = {
    "mean": "tl.sum(x, axis) / n",
    "matmul": "tl.dot",
    "mm": "tl.dot",
    "bmm": "tl.dot",
    "einsum": "tl.dot, or tl.sum(a[:, None] * b, axis)",
    "concat": "tl.cat, or tl.join",
    "concatenate": "tl.cat, or tl.join",
    "stack": "tl.join",
    "transpose": "tl.trans",
    "relu": "tl.maximum(x, 0.0)",
    "ones": "tl.full(shape, 1, dtype)",
    "empty": "tl.zeros",
    "prod": "tl.reduce",
    "any": "tl.max(condition.to(tl.int32), axis)",
    "all": "tl.min(condition.to(tl.int32), axis)",
    "power": "tl.extra.libdevice.pow",
    "print": "tl.device_print",
    "randperm": "tl.randint",
    "syncthreads": "tl.debug_barrier",
}

_PYTHON: dict[str, str] = {
    "enumerate": "`for i in tl.static_range(len(xs))` and xs[i]",
    "zip": "`for i in tl.static_range(len(xs))`, xs[i] and ys[i]",
    "sum": "tl.sum(x, axis)",
    "any": "tl.max(condition.to(tl.int32), axis)",
    "all": "tl.min(condition.to(tl.int32), axis)",
    "pow": "`x ** y` of numbers, or tl.extra.libdevice.pow",
    "round": "tl.extra.libdevice.rint",
    "divmod": "`//` and `%`",
    "sorted": "tl.sort",
    "reversed": "tl.flip",
    "map": "tl.map_elementwise",
    "dict": "a tuple or a NamedTuple",
    "set": "a tuple",
    "slice": "tl.arange and a mask",
    "input": "an argument of the kernel",
    "open": "an argument of the kernel",
}


def attribute(owner: str, value: object, name: str) -> str:
    """Return what may be meant by an attribute that a value does not have, as the end of a message."""
    if isinstance(value, tensor) and value.dtype.is_ptr() and name in _OF_MEMORY:
        return f"; {owner} is an address: pass {name} as an argument of the kernel"
    if isinstance(value, tensor) and name in _ATTRIBUTES:
        return f"; write {_ATTRIBUTES[name].format(owner)}"
    if value is language and name in _FUNCTIONS:
        return f"; write {_FUNCTIONS[name]}"
    if value is language and hasattr(language.extra.libdevice, name):
        return f"; did you mean {owner}.extra.libdevice.{name}?"
    return suggestion(name, dir(value), f"{owner}.")


def unknown_name(name: str, known: Sequence[str], outer: dict[str, object]) -> str:
    """Return what may be meant by a name that is not defined."""
    if name in _PYTHON:
        return f"; write {_PYTHON[name]}"
    alias = next((n for n, value in outer.items() if value is language), None)
    if alias is not None and not name.startswith("_") and callable(getattr(language, name, None)):
        return f"; did you mean {alias}.{name}?"
    return suggestion(name, known)


def python_call(function: Callable[..., object], arguments: Sequence[object]) -> str | None:
    """Return why a function of Python cannot be called with these arguments; None if they are all known."""
    found = next((value for value in arguments if is_tensor(value)), None)
    if found is None:
        return None
    name = getattr(function, "__name__", type(function).__name__)
    module = getattr(function, "__module__", None) or ""
    text = f"{module}.{name}".removeprefix("builtins.").lstrip(".")
    text += f" is Python's, and runs when the kernel is compiled; it cannot take {found}"
    if name == "range":
        return f"{text}; only a `for` statement counts to a run-time value"
    if callable(getattr(language, name, None)) and not name.startswith("_"):
        return f"{text}; write tl.{name}"
    if hasattr(language.extra.libdevice, name):
        return f"{text}; write tl.extra.libdevice.{name}"
    return text


def is_foreign(function: Callable[..., object]) -> bool:
    """Return whether a function computes on arrays of the host."""
    module = str(getattr(function, "__module__", None) or type(function).__module__ or "")
    return module.partition(".")[0] in ("numpy", "math", "cmath", "torch", "scipy")


def subscript(owner: str, value: tensor, error: TypeError) -> TypeError:
    """Return the error for an index that a tensor does not take."""
    if value.dtype.is_ptr() and not value.type.is_block():
        hint = f"{owner} is an address: tl.load({owner} + offset) reads an element, tl.store writes one"
    else:
        hint = (
            "a part of a tensor cannot be taken: load that part, or choose by tl.where, tl.gather or "
            "tl.sum(tl.where(index == i, x, 0), axis)"
        )
    return TypeError(f"{error}; {hint}")


def item(owner: str, value: object, index: object, error: LookupError) -> LookupError:
    """Return the error for an item that a tuple does not have."""
    length = len(value) if isinstance(value, Sized) else 0
    text = f"index {index} is out of range: {owner} has {length} items"
    if owner.endswith(".shape"):
        text += f"; {owner.removesuffix('.shape')} is no block: pass extents of memory as arguments"
    return type(error)(text)


def has_source(function: object) -> bool:
    """Return whether something is a plain function of Python, which a decorator could make part of kernels."""
    return inspect.isfunction(function)

"""Arrays whose uses by the program are noted: what ``array.local`` and ``array.on(pe)`` give under a check.

``CheckedArray`` is an ndarray whose items, operators, ufuncs and NumPy functions tell the listener what they read and
write. A part of it is one, too; what is computed from it is an ordinary array. Uses that go past NumPy's Python
interface are not seen: an array handed to compiled code, ``np.asarray(x)``, ``memoryview(x)``, torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from emu.comm.arrays import Array


class Uses(Protocol):
    """Who is told of the uses of memory."""

    def used(self, operation: str, array: Array, *, writes: bool) -> None:
        """Note that the program reads, or writes, an array itself, if that is in a heap."""

    def used_elements(self, operation: str, array: Array, offsets: Array, *, writes: bool) -> None:
        """Note that the program reads, or writes, the elements at some byte offsets."""

    def is_shared(self, array: Array) -> bool:
        """Return whether an array is in a heap."""

    @property
    def approach(self) -> Callable[[str], None] | None:
        """What is called before the program reads (``"load"``) or writes (``"store"``) memory; None: nothing."""


_WRITES: dict[Any, tuple[tuple[str, ...], str]] = {
    np.copyto: (("dst", "src", "casting", "where"), "src"),
    np.put: (("a", "ind", "v", "mode"), "v"),
    np.place: (("arr", "mask", "vals"), "vals"),
    np.putmask: (("a", "mask", "values"), "values"),
    np.fill_diagonal: (("a", "val", "wrap"), "val"),
    np.put_along_axis: (("arr", "indices", "values", "axis"), "values"),
}
"""Functions that write their first argument: their parameters, and which of them has what they write."""

_READING = (
    *(
        "all",
        "any",
        "argmax",
        "argmin",
        "argpartition",
        "argsort",
        "astype",
        "choose",
        "clip",
        "compress",
        "conj",
    ),
    *(
        "conjugate",
        "copy",
        "cumprod",
        "cumsum",
        "dot",
        "dump",
        "dumps",
        "flatten",
        "item",
        "max",
        "mean",
        "min",
    ),
    *(
        "nonzero",
        "prod",
        "repeat",
        "round",
        "searchsorted",
        "std",
        "sum",
        "take",
        "tobytes",
        "tofile",
        "tolist",
        "trace",
    ),
    *(
        "var",
        "__bool__",
        "__complex__",
        "__contains__",
        "__copy__",
        "__deepcopy__",
        "__float__",
        "__format__",
    ),
    *("__index__", "__int__", "__repr__", "__str__", "__reduce__", "__reduce_ex__"),
)
"""Methods that read all of their array and are not made of ufuncs, or whose result is no part of it."""

_WRITING = ("byteswap", "fill", "itemset", "partition", "put", "setfield", "sort")
"""Methods that write all of it, or may."""


class CheckedArray(np.ndarray[Any, Any]):
    """Memory of a heap, whose uses are noted."""

    _listener: Uses | None = None

    def __array_finalize__(self, source: object) -> None:
        self._listener = getattr(source, "_listener", None)

    def __getitem__(self, key: Any) -> Any:
        plain = self.view(np.ndarray)
        found = plain[key]
        listener = self._listener
        if listener is None:
            return found
        if isinstance(found, np.ndarray) and found.size and listener.is_shared(found):
            return wrap(found, listener)
        if listener.approach is not None:
            listener.approach("load")
            found = plain[key]
        self._note_items(plain, key, writes=False)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self._approach("store")
        plain = self.view(np.ndarray)
        if type(value) is CheckedArray:
            value.note("load", writes=False)
            value = value.view(np.ndarray)
        plain[key] = value
        if self._listener is not None:
            self._note_items(plain, key, writes=True)

    def _approach(self, operation: str) -> None:
        """Tell who wants to know it that this memory is about to be used."""
        if self._listener is not None and self._listener.approach is not None:
            self._listener.approach(operation)

    def _note_items(self, plain: Array, key: Any, *, writes: bool) -> None:
        """Note a use of the elements that a key picks."""
        assert self._listener is not None
        operation = "store" if writes else "load"
        keys = key if isinstance(key, tuple) else (key,)
        basic = all(
            k is None or k is Ellipsis or isinstance(k, (slice, int, np.integer)) for k in keys
        ) and not any(isinstance(k, (bool, np.bool_)) for k in keys)
        if basic:
            part = plain[keys] if Ellipsis in keys else plain[(*keys, ...)]
            self._listener.used(operation, part, writes=writes)
            return
        offsets = byte_offsets(plain)[key]
        self._listener.used_elements(operation, plain, np.asarray(offsets), writes=writes)

    def note(self, operation: str, *, writes: bool) -> None:
        """Note a use of the whole array."""
        if self._listener is not None and self.size:
            self._listener.used(operation, self.view(np.ndarray), writes=writes)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        outputs = kwargs.get("out", ())
        where = kwargs.get("where", True)
        for value in _checked([*inputs, *outputs])[:1]:
            value._approach("store" if outputs else "load")
        result = getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs))
        for value in inputs[1:] if method == "at" else inputs:
            _note_where(value, where, writes=False)
        if method == "at" and type(inputs[0]) is CheckedArray and inputs[0]._listener is not None:
            for writes in (False, True):
                inputs[0]._note_items(inputs[0].view(np.ndarray), inputs[1], writes=writes)
        for value in outputs:
            _note_where(value, where if method == "__call__" else True, writes=True)
        if outputs:
            return outputs[0] if len(outputs) == 1 else outputs
        return result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        self._approach("store" if func in _WRITES else "load")
        if func in _WRITES:
            return self._write_by(func, args, kwargs)
        out = kwargs.get("out")
        result = func(*_plain(args), **_plain(kwargs))
        checked = [*_checked(args), *_checked(v for k, v in kwargs.items() if k != "out")]
        parts = result if isinstance(result, (tuple, list)) else (result,)
        listener = self._listener
        if out is None and listener is not None and any(_is_part(p, listener) for p in parts):
            wrapped = [wrap(p, listener) if _is_part(p, listener) else p for p in parts]
            return wrapped[0] if parts is not result else type(result)(wrapped)
        for value in checked:
            value.note("load", writes=False)
        for target in _checked([out]):
            target.note("store", writes=True)
        return result if out is None else out

    @staticmethod
    def _write_by(func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function that writes some elements of its first argument."""
        names, of_value = _WRITES[func]
        given = dict(zip(names, args, strict=False)) | kwargs
        result = func(*_plain(args), **_plain(kwargs))
        target = given.pop(names[0])
        for value in _checked(given.values()):
            value.note("load", writes=False)
        if type(target) is CheckedArray and target._listener is not None:
            # The same call marks the elements that it writes.
            marks = np.zeros(target.shape, bool)
            ones = [True] if func is np.place else True
            rest = [_plain(given[n]) if n != of_value else ones for n in names[1:] if n in given]
            where = {"where": _plain(given["where"])} if "where" in given else {}
            func(marks, *(rest[:1] if func is np.copyto else rest), **where)
            plain = target.view(np.ndarray)
            offsets = byte_offsets(plain)[marks]
            target._listener.used_elements("store", plain, offsets, writes=True)
        return result


def _method(name: str, *, writes: bool) -> Any:
    plain_method = getattr(np.ndarray, name)

    def method(self: CheckedArray, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        self._approach("store" if writes else "load")
        result = plain_method(self.view(np.ndarray), *_plain(args), **_plain(kwargs))
        self.note("store" if writes else "load", writes=writes)
        if type(out) is CheckedArray:
            out.note("store", writes=True)
            return out
        return result

    method.__name__ = name
    return method


for _name in _READING:
    if hasattr(np.ndarray, _name):
        setattr(CheckedArray, _name, _method(_name, writes=False))
for _name in _WRITING:
    if hasattr(np.ndarray, _name):
        setattr(CheckedArray, _name, _method(_name, writes=True))


def wrap(array: Array, listener: Uses) -> CheckedArray:
    """Return an array as one whose uses are noted."""
    view = array.view(CheckedArray)
    view._listener = listener
    return view


def byte_offsets(array: Array) -> Array:
    """Return the byte offset of each element from the first."""
    offsets: Array = np.zeros(array.shape, np.int64)
    for axis, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        shape = [1] * array.ndim
        shape[axis] = extent
        offsets += (np.arange(extent, dtype=np.int64) * stride).reshape(shape)
    return offsets


def _plain(value: Any) -> Any:
    """Return a value with ordinary arrays in place of checked ones."""
    if type(value) is CheckedArray:
        return value.view(np.ndarray)
    if type(value) in (tuple, list):
        return type(value)(_plain(part) for part in value)
    if type(value) is dict:
        return {key: _plain(part) for key, part in value.items()}
    return value


def _checked(values: Any) -> list[CheckedArray]:
    """Return the checked arrays among values, and in tuples and lists among them."""
    found: list[CheckedArray] = []
    for value in values:
        if type(value) is CheckedArray:
            found.append(value)
        elif type(value) in (tuple, list):
            found += _checked(value)
    return found


def _is_part(value: object, listener: Uses) -> bool:
    return isinstance(value, np.ndarray) and value.size > 0 and listener.is_shared(value)


def _note_where(value: Any, where: Any, *, writes: bool) -> None:
    """Note a ufunc's use of an operand, where ``where`` is true."""
    if type(value) is not CheckedArray:
        return
    operation = "store" if writes else "load"
    if where is True or value._listener is None:
        value.note(operation, writes=writes)
        return
    plain = value.view(np.ndarray)
    mask = np.asarray(_plain(where), bool)
    shape = np.broadcast_shapes(plain.shape, mask.shape)
    offsets = np.broadcast_to(byte_offsets(plain), shape)[np.broadcast_to(mask, shape)]
    value._listener.used_elements(operation, plain, offsets, writes=writes)

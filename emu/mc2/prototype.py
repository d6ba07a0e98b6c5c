"""Operator prototypes: JSON descriptions of an operator's inputs, outputs and attributes, in order."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError
from emu.kernels.core.dtypes import ALL, BY_NAME, DTYPES
from emu.kernels.core.messages import shown
from emu.mc2.arguments import check_finite

# Published files name a dtype as NumPy, as HCCL or as C does.
_DTYPES = {
    **{dtype.name: dtype for dtype in DTYPES},
    **{d.hccl.lower(): d.numpy for d in ALL if d.hccl is not None},
    "float": BY_NAME["float32"].numpy,
    "double": BY_NAME["float64"].numpy,
}
_ATTRIBUTE_TYPES = {
    "bool": bool,
    "int": int,
    "float": float,
    "string": str,
    "str": str,
    "listInt": list,
    "listFloat": list,
    "listBool": list,
}
_ITEM_TYPES = {"listInt": "int", "listFloat": "float", "listBool": "bool"}
_KINDS = ("required", "optional", "dynamic")
# Misspelt keys that occur in published files, and the keys that are meant.
_TYPOS = {
    "operator": {"input_dsec": "input_desc", "output_dsec": "output_desc"},
    "tensor": {"dtype": "type"},
    "attribute": {"dtype": "type"},
}
_Typos = Counter[tuple[str, str, str]]
_KEYS = {
    "operator": {"op", "language", "input_desc", "output_desc", "attr"},
    "tensor": {"name", "param_type", "format", "type"},
    "attribute": {"name", "param_type", "type", "default_value"},
}


class PrototypeWarning(UserWarning):
    """A prototype has a known typo, which was corrected."""


@dataclass(frozen=True, slots=True)
class TensorPrototype:
    """Prototype of an input or output.

    Attributes:
        name: Its name.
        required: Whether it must be given.
        dynamic: Whether it stands for a list of tensors.
        types: dtypes by position: the n-th of every tensor go together.
        formats: Memory formats by position.
    """

    name: str
    required: bool
    dynamic: bool
    types: tuple[np.dtype[np.generic], ...]
    formats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttributePrototype:
    """Prototype of an attribute.

    Attributes:
        name: Its name.
        required: Whether it must be given.
        type: Its type as the file names it: bool, int, float, string, or a list of those.
        default: The value if it is left out; None if there is none.
    """

    name: str
    required: bool
    type: str
    default: object


@dataclass(frozen=True, slots=True)
class Bound:
    """Arguments checked against a prototype.

    Attributes:
        inputs: By name, in order; None for an optional one that was left out.
        attributes: By name, in order, defaults filled in.
    """

    inputs: dict[str, Any]
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class OperatorPrototype:
    """Inputs, outputs and attributes of an operator.

    Attributes:
        name: Its name.
        inputs: Its inputs, in order.
        outputs: Its outputs, in order.
        attributes: Its attributes, in order.

    Raises:
        ArgumentError: A field has a wrong type.
    """

    name: str
    inputs: tuple[TensorPrototype, ...]
    outputs: tuple[TensorPrototype, ...]
    attributes: tuple[AttributePrototype, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ArgumentError(f"name must be text, but got {shown(self.name)}")
        for field, kind in (
            ("inputs", TensorPrototype),
            ("outputs", TensorPrototype),
            ("attributes", AttributePrototype),
        ):
            value = getattr(self, field)
            if not isinstance(value, tuple) or not all(isinstance(one, kind) for one in value):
                raise ArgumentError(
                    f"{field} must be a tuple of {kind.__name__}, but got {shown(value)}"
                )

    def flattened(self) -> tuple[str, ...]:
        """Return the names that argument indices refer to: inputs, optional ones too, then outputs."""
        return tuple(tensor.name for tensor in (*self.inputs, *self.outputs))

    def index_of(self, name: str) -> int:
        """Return the argument index of an input or output.

        Raises:
            ArgumentError: No input or output has that name.
        """
        names = self.flattened()
        if not isinstance(name, str) or name not in names:
            raise ArgumentError(
                f"name must be one of {', '.join(names)} of {self.name}, but got {shown(name)}"
            )
        return names.index(name)

    def bind(
        self,
        args: Mapping[str, object] | Sequence[object],
        attrs: Mapping[str, object] | None = None,
    ) -> Bound:
        """Check the arguments of one call, and fill in the defaults of attributes.

        Args:
            args: The inputs by name, or in order; None for optional ones, of which the last may be left
                out. Arrays with a ``dtype``; lists of them for dynamic inputs.
            attrs: Attributes by name.

        Returns:
            Inputs and attributes, all of them.

        Raises:
            ArgumentError: Something is missing, unknown or of another type; or dtypes do not go
                together as the prototype says.
        """
        inputs = self._inputs(args)
        if attrs is not None and not isinstance(attrs, Mapping):
            raise ArgumentError(
                f"attributes of {self.name} must be a mapping by name, but got {shown(attrs)}"
            )
        given = dict(attrs or {})
        attributes = {}
        for attribute in self.attributes:
            where = f"attribute {attribute.name} of {self.name}"
            if attribute.name in given:
                value = _attribute_value(where, attribute.type, given.pop(attribute.name))
            elif attribute.required:
                raise ArgumentError(f"{where} must be given, but got none")
            else:
                value = attribute.default
            attributes[attribute.name] = value
        if given:
            known = ", ".join(attribute.name for attribute in self.attributes)
            raise ArgumentError(
                f"attributes of {self.name} must be among {known}, but got {', '.join(map(str, given))}"
            )
        return Bound(inputs, attributes)

    def _inputs(self, args: Mapping[str, object] | Sequence[object]) -> dict[str, object]:
        """Return the inputs by name, in order, with dtypes that go together."""
        found = self._named(args)
        columns = set(range(max((len(tensor.types) for tensor in self.inputs), default=0)))
        for tensor in self.inputs:
            value = found[tensor.name]
            where = f"input {tensor.name} of {self.name}"
            if value is None:
                if tensor.required:
                    raise ArgumentError(f"{where} must be given, but got None")
                continue
            if not tensor.dynamic:
                parts: Sequence[object] = (value,)
            elif isinstance(value, list | tuple):
                parts = value
            else:
                raise ArgumentError(f"{where} must be a list of arrays, but got {shown(value)}")
            for one in parts:
                columns &= _columns(where, tensor, one, columns)
        return found

    def _named(self, args: Mapping[str, object] | Sequence[object]) -> dict[str, object]:
        """Return the inputs by name, None for those that were left out."""
        names = [tensor.name for tensor in self.inputs]
        if isinstance(args, Mapping):
            unknown = [name for name in args if name not in names]
            if unknown:
                raise ArgumentError(
                    f"inputs of {self.name} must be among {', '.join(names)}, "
                    f"but got {', '.join(map(str, unknown))}"
                )
            return {name: args.get(name) for name in names}
        if not isinstance(args, list | tuple):
            raise ArgumentError(
                f"inputs of {self.name} must be a list, a tuple or a mapping by name, but got "
                f"{shown(args)}"
            )
        if len(args) > len(names):
            raise ArgumentError(
                f"{self.name} must get at most {len(names)} inputs, but got {len(args)}"
            )
        return dict(zip(names, [*args, *[None] * (len(names) - len(args))], strict=True))


def _columns(where: str, tensor: TensorPrototype, value: object, before: set[int]) -> set[int]:
    """Return the positions of a tensor's types that fit its dtype; one must be in ``before``."""
    dtype = getattr(value, "dtype", None)
    if not isinstance(dtype, np.dtype):
        raise ArgumentError(f"{where} must be an array, but got {type(value).__name__}")
    fits = {i for i, known in enumerate(tensor.types) if known == dtype}
    if not fits:
        names = ", ".join(dict.fromkeys(map(str, tensor.types)))
        raise ArgumentError(f"{where} must have one of the dtypes {names}, but got {dtype}")
    if not fits & before:
        names = ", ".join(dict.fromkeys(str(tensor.types[i]) for i in sorted(before)))
        raise ArgumentError(
            f"{where} must have dtype {names} with the inputs before it, but got {dtype}"
        )
    return fits


def _attribute_value(where: str, kind: str, value: object) -> object:
    expected = _ATTRIBUTE_TYPES[kind]
    if expected is int and isinstance(value, np.integer):
        value = int(value)
    if expected is float and isinstance(value, int | np.floating) and not isinstance(value, bool):
        value = check_finite(where, value)
    if expected is list and isinstance(value, list | tuple):
        return [
            _attribute_value(f"{where}[{i}]", _ITEM_TYPES[kind], one) for i, one in enumerate(value)
        ]
    if expected is bool and isinstance(value, np.bool_):
        value = bool(value)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise ArgumentError(f"{where} must be of type {kind}, but got {shown(value)}")
    return value


def read_prototypes(source: str | Path) -> dict[str, OperatorPrototype]:
    """Read operator prototypes.

    Args:
        source: JSON text, a list of operators or a single one; or the path of a file with it.

    Returns:
        The prototypes by the operators' names.

    Raises:
        ArgumentError: The text is not JSON, or not that of prototypes; the error says where.

    Warns:
        PrototypeWarning: A key has a known misspelling, such as ``input_dsec``.
    """
    text, name = _text(source)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ArgumentError(
            f"{name} must be JSON, but got line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; deep nesting
        raise ArgumentError(f"{name} must be JSON of a prototype, but: {error}") from None
    operators = data if isinstance(data, list) else [data]
    found: dict[str, OperatorPrototype] = {}
    typos: _Typos = Counter()
    for number, entry in enumerate(operators):
        operator = _operator(f"{name}: operator {number}", entry, typos)
        if operator.name in found:
            raise ArgumentError(f"{name}: op must be unique, but got {operator.name} twice")
        found[operator.name] = operator
    for (kind, key, meant), times in typos.items():
        warnings.warn(
            f"{name}: {key!r} of {kind}s was read as {meant!r}, {times} times"
            if times > 1
            else f"{name}: {key!r} of an {kind} was read as {meant!r}",
            PrototypeWarning,
            stacklevel=2,
        )
    return found


def _text(source: str | Path) -> tuple[str, str]:
    if isinstance(source, str) and source.lstrip()[:1] in ("[", "{"):
        return source, "source"
    if not isinstance(source, str | Path):
        raise ArgumentError(f"source must be JSON text or a path, but got {shown(source)}")
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8"), f"source {path.name}"
    except (OSError, ValueError) as error:  # a null byte in the name, or bytes that are no UTF-8
        reason = getattr(error, "strerror", None) or str(error)
        raise ArgumentError(
            f"source must be JSON text or a readable file, but got {str(source)[:80]!r} ({reason})"
        ) from None


def _repaired(where: str, kind: str, entry: object, typos: _Typos) -> dict[str, object]:
    """Return an object with known typos corrected; other unknown keys are errors."""
    if not isinstance(entry, dict):
        raise ArgumentError(f"{where} must be an object, but got {type(entry).__name__}")
    repaired = {}
    for key, value in entry.items():
        meant = key
        if key not in _KEYS[kind] and key in _TYPOS[kind]:
            meant = _TYPOS[kind][key]
            typos[kind, key, meant] += 1
        if meant not in _KEYS[kind]:
            known = ", ".join(sorted(_KEYS[kind]))
            raise ArgumentError(f"keys of {where} must be among {known}, but got {key!r}")
        if meant in repaired:
            raise ArgumentError(f"{where} must say {meant!r} once, but got it twice ({key!r})")
        repaired[meant] = value
    return repaired


def _operator(where: str, entry: object, typos: _Typos) -> OperatorPrototype:
    fields = _repaired(where, "operator", entry, typos)
    name = _string(where, "op", fields.get("op"))
    parts = {}
    for key in ("input_desc", "output_desc", "attr"):
        listed = fields.get(key, [])
        if not isinstance(listed, list):
            raise ArgumentError(f"{key} of {name} must be a list, but got {type(listed).__name__}")
        parts[key] = listed
    prototype = OperatorPrototype(
        name,
        tuple(_tensor(f"input {i} of {name}", e, typos) for i, e in enumerate(parts["input_desc"])),
        tuple(
            _tensor(f"output {i} of {name}", e, typos) for i, e in enumerate(parts["output_desc"])
        ),
        tuple(
            _attribute(f"attribute {i} of {name}", e, typos) for i, e in enumerate(parts["attr"])
        ),
    )
    for names in (prototype.flattened(), tuple(a.name for a in prototype.attributes)):
        for one in names:
            if names.count(one) > 1:
                raise ArgumentError(f"names of {name} must be unique, but got {one!r} twice")
    return prototype


def _string(where: str, key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ArgumentError(f"{key} of {where} must be a name, but got {value!r}")
    return value


def _kind(where: str, value: object) -> str:
    if not isinstance(value, str) or value not in _KINDS:
        raise ArgumentError(
            f"param_type of {where} must be one of {', '.join(_KINDS)}, but got {value!r}"
        )
    kind: str = value
    return kind


def _tensor(where: str, entry: object, typos: _Typos) -> TensorPrototype:
    fields = _repaired(where, "tensor", entry, typos)
    name = _string(where, "name", fields.get("name"))
    kind = _kind(where, fields.get("param_type", "required"))
    types = fields.get("type")
    types = [types] if isinstance(types, str) else types
    if not isinstance(types, list) or not types:
        raise ArgumentError(f"type of {where} must be a list of dtypes, but got {types!r}")
    for one in types:
        if not isinstance(one, str) or one not in _DTYPES:
            raise ArgumentError(
                f"type of {where} must name dtypes such as float16, but got {one!r}"
            )
    formats = fields.get("format", [])
    formats = [formats] if isinstance(formats, str) else formats
    if not isinstance(formats, list) or not all(isinstance(one, str) for one in formats):
        raise ArgumentError(f"format of {where} must be a list of names, but got {formats!r}")
    dtypes = tuple(_DTYPES[one] for one in types)
    return TensorPrototype(name, kind == "required", kind == "dynamic", dtypes, tuple(formats))


def _attribute(where: str, entry: object, typos: _Typos) -> AttributePrototype:
    fields = _repaired(where, "attribute", entry, typos)
    name = _string(where, "name", fields.get("name"))
    kind = _kind(where, fields.get("param_type", "required"))
    type_name = fields.get("type")
    if not isinstance(type_name, str) or type_name not in _ATTRIBUTE_TYPES:
        raise ArgumentError(
            f"type of {where} must be one of {', '.join(_ATTRIBUTE_TYPES)}, but got {type_name!r}"
        )
    default = fields.get("default_value")
    if default is not None:
        default = _attribute_value(f"default_value of {where}", type_name, default)
    return AttributePrototype(name, kind == "required", type_name, default)

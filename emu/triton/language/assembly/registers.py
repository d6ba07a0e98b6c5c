"""Registers of inline assembly: bits, read and written as the types of instructions."""

from __future__ import annotations

import re

from emu.tile.machine import read_word
from emu.triton.language.arithmetic import and_, invert, not_equal, where
from emu.triton.language.assembly.text import Immediate, Operand, Register, Vector, unsupported
from emu.triton.language.context import builder
from emu.triton.language.conversion import bitcast_to, cast_to, constant
from emu.triton.language.creation import num_programs, program_id
from emu.triton.language.extra.bits import unsigned
from emu.triton.language.shapes import Shape, broadcast_tensors, broadcast_to
from emu.triton.language.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    get_int_dtype,
    int1,
    int32,
    int64,
    uint64,
)
from emu.triton.language.values import tensor

_FLOATS = {"f16": float16, "bf16": bfloat16, "f32": float32, "f64": float64}
_WIDTH = re.compile(r"[bus](8|16|32|64)$")
_PACKED = re.compile(r"(?:(?:f|bf|s|u|b)(16)|f(32))x2$")

# One program is a block of one thread here, and a cluster of one block.
_SPECIAL = {
    **dict.fromkeys(("%tid", "%laneid", "%warpid", "%cluster_ctarank", "%cluster_ctaid", "%smid"), 0),
    **dict.fromkeys(("%ntid", "%nwarpid", "%cluster_nctarank", "%cluster_nctaid", "%nsmid"), 1),
}  # fmt: skip


_GRID_HALVES = {"%envreg1": 32, "%envreg2": 0}
"""Registers that hold parts of the address where a cooperative launch meets, and at which of its bits each begins."""


def type_of(name: str) -> dtype | None:
    """Return the dtype of a type of PTX, of packed ones and untyped bits an unsigned integer; or ``None``."""
    if name in _FLOATS:
        return _FLOATS[name]
    if name == "pred":
        return int1
    if pair := _PACKED.match(name):
        return get_int_dtype(2 * int(pair[1] or pair[2]), False)
    found = _WIDTH.match(name)
    return get_int_dtype(int(found[1]), name[0] == "s") if found else None


class Registers:
    """The registers of a text, in nested scopes.

    Attributes:
        shape: Shape of every register's tensor.
        active: Where instructions have an effect, or ``None``: everywhere.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.active: tensor | None = None
        self.values: dict[str, tensor] = {}
        self.widths: dict[str, dtype] = {}
        self._names: list[dict[str, str]] = [{}]
        self._count = 0

    def open(self) -> None:
        """Begin a scope."""
        self._names.append({})

    def close(self) -> None:
        """End a scope."""
        if len(self._names) > 1:
            self._names.pop()

    def declare(self, name: str, type_name: str, line: str) -> None:
        """Make a register of this scope.

        Raises:
            NotImplementedError: There is no such type.
        """
        held = type_of(type_name)
        if held is None:
            raise unsupported(line, f"the register type .{type_name}")
        self._count += 1
        key = f"{name}#{self._count}"
        self._names[-1][name] = key
        self.widths[key] = held if held == int1 else get_int_dtype(held.primitive_bitwidth, False)

    def bind(self, name: str, held: dtype, value: tensor | None) -> None:
        """Make an operand ``$k`` a register."""
        self.widths[name] = held
        if value is not None:
            self.values[name] = value

    def key_of(self, name: str, line: str) -> str:
        """Return the register that a name means here.

        Raises:
            NotImplementedError: It was not declared.
        """
        for scope in reversed(self._names):
            if name in scope:
                return scope[name]
        if name in self.widths:
            return name
        raise unsupported(line, f"the register {name!r}, which is not declared,")

    def zeros(self, held: dtype) -> tensor:
        """Return zeros of a dtype in the registers' shape."""
        return broadcast_to(constant(0, held), self.shape) if self.shape else constant(0, held)

    def filled(self, value: float, held: dtype) -> tensor:
        """Return a number in a dtype and the registers' shape."""
        if not held.is_floating():
            bits = 1 if held == int1 else held.primitive_bitwidth
            value = int(value) & ((1 << bits) - 1)
            if held.is_int_signed() and value >> (bits - 1):
                value -= 1 << bits
        scalar = constant(value, held)
        return broadcast_to(scalar, self.shape) if self.shape else scalar

    def bits(self, operand: Operand, line: str) -> tensor:
        """Return what a register holds: an unsigned integer, or int1.

        Raises:
            NotImplementedError: The operand is no register.
        """
        if not isinstance(operand, Register):
            raise unsupported(line, f"the operand {operand}")
        if operand.name.startswith("%") and not self._is_declared(operand.name):
            return self._special(operand.name, line)
        key = self.key_of(operand.name, line)
        value = self.values.get(key)
        if value is None:
            value = self.zeros(self.widths[key])
        if operand.negated:
            value = invert(value)
        return value

    def _is_declared(self, name: str) -> bool:
        return name in self.widths or any(name in scope for scope in self._names)

    def _special(self, name: str, line: str) -> tensor:
        word = get_int_dtype(32, False)
        base, _, axis = name.partition(".")
        if base in _SPECIAL:
            return self.filled(_SPECIAL[base], word)
        if base in ("%ctaid", "%nctaid") and axis in ("x", "y", "z"):
            source = program_id if base == "%ctaid" else num_programs
            value = bitcast_to(cast_to(source("xyz".index(axis)), int32), word)
            return broadcast_to(value, self.shape) if self.shape else value
        if base in _GRID_HALVES:
            # CUDA's cooperative launches leave the address of their memory in two registers.
            address = tensor(read_word(builder(), "grid"), int64)
            half = cast_to(bitcast_to(address, uint64) >> _GRID_HALVES[base], word)
            return broadcast_to(half, self.shape) if self.shape else half
        raise unsupported(line, f"the special register {name}, which has no meaning on a CPU,")

    def read(self, operand: Operand, held: dtype, line: str) -> tensor:
        """Return an operand as a dtype: the lower bits of a wider register, zeros above a narrower one."""
        if isinstance(operand, Immediate):
            value = operand.value
            if held.is_floating() and isinstance(value, int):
                # An integer where a float is meant gives its bits.
                raw = self.filled(value, get_int_dtype(held.primitive_bitwidth, False))
                return bitcast_to(raw, held)
            return self.filled(value, held)
        if isinstance(operand, Vector):
            return bitcast_to(self._packed(operand, held, line), held)
        found = self.bits(operand, line)
        if held == int1 or found.dtype == int1:
            return found if held == found.dtype else cast_to(found, held)
        width = held.primitive_bitwidth
        if found.dtype.primitive_bitwidth != width:
            found = cast_to(found, get_int_dtype(width, False))
        return bitcast_to(found, held)

    def _packed(self, operand: Vector, held: dtype, line: str) -> tensor:
        width = held.primitive_bitwidth // len(operand.items)
        whole, part = get_int_dtype(held.primitive_bitwidth, False), get_int_dtype(width, False)
        total = self.zeros(whole)
        for place, item in enumerate(operand.items):
            total = total | (cast_to(self.read(item, part, line), whole) << (place * width))
        return total

    def write(self, operand: Operand, value: tensor, line: str) -> None:
        """Put a value into a register; integers that are narrower than it are extended as their sign says.

        Raises:
            NotImplementedError: The operand is no register.
        """
        if isinstance(operand, Vector):
            width = value.dtype.primitive_bitwidth // len(operand.items)
            for place, item in enumerate(operand.items):
                part = unsigned(value) >> (place * width)
                self.write(item, cast_to(part, get_int_dtype(width, False)), line)
            return
        if not isinstance(operand, Register):
            raise unsupported(line, f"the destination {operand}")
        if operand.name == "_":
            return
        key = self.key_of(operand.name, line)
        held = self.widths[key]
        value = self._fitted(value, held)
        if self.active is not None:
            before = self.values.get(key)
            value = where(self.active, value, self.zeros(held) if before is None else before)
        self.values[key] = value

    def _fitted(self, value: tensor, held: dtype) -> tensor:
        if self.shape and not value.extents:
            value = broadcast_to(value, self.shape)
        if held == int1 or value.dtype == int1:
            return (
                not_equal(value, 0)
                if held == int1 and value.dtype != int1
                else cast_to(value, held)
            )
        if value.dtype.is_floating():
            value = unsigned(value)
        width = held.primitive_bitwidth
        if value.dtype.primitive_bitwidth != width:
            value = cast_to(value, get_int_dtype(width, value.dtype.is_int_signed()))
        return bitcast_to(value, held)

    def restricted(self, condition: tensor) -> tensor:
        """Return where instructions have an effect if a condition must hold, too."""
        if self.active is None:
            return condition
        both = broadcast_tensors(self.active, condition)
        return and_(*both)

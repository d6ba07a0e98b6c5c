"""ASSERT and PRINT: how compiled programs report to Python.

A failed assert ends its program, and the launch: the compiled function returns which assert of which
program it was. A print calls back into Python with the addresses of its values.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from emu.tile import printing
from emu.tile.cpu import groups
from emu.tile.cpu import registers as r
from emu.tile.cpu.frame import Frame, is_tile
from emu.tile.ir import Operation
from emu.tile.types import DTYPES, DType, element_of

CODE_BITS = 20
"""Of a status: number of the assert plus one; the program's number stands above. 0: all is well."""

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
"""Number of the print; address of i64s: the program's numbers x, y, z, then the values' addresses."""


@dataclass(frozen=True)
class Assert:
    """An ASSERT of a kernel: its text, and where it stands."""

    message: str
    location: str


@dataclass(frozen=True)
class Print:
    """A PRINT of a kernel.

    Attributes:
        prefix: What is printed before each value.
        hex: Whether integers are printed in base 16.
        values: Shape and name of the dtype of each value, or ``printing.POINTER``.
    """

    prefix: str
    hex: bool
    values: tuple[tuple[tuple[int, ...], str], ...]

    def text(self, address: int) -> str:
        """Return what is printed of values at the addresses that are found at an address."""
        numbers = (ctypes.c_int64 * (3 + len(self.values))).from_address(address)
        values = []
        for place, (shape, name) in zip(numbers[3:], self.values, strict=True):
            dtype = np.dtype(np.uint64) if name == printing.POINTER else DTYPES[name].numpy
            count = math.prod(shape) * dtype.itemsize
            array = np.frombuffer(ctypes.string_at(place, count), dtype).reshape(shape)
            values.append((array, name))
        x, y, z, *_ = numbers
        return "\n".join(printing.lines((x, y, z), self.prefix, self.hex, values))


class Diagnosis:
    """Collects the asserts and prints of a kernel while it is emitted.

    Args:
        programs: Registers (i32) of the program's numbers x, y, z.
        callback: Register: address (pointer) of the function that prints.
    """

    def __init__(self, programs: list[Any], callback: Any) -> None:
        self.asserts: list[Assert] = []
        self.prints: list[Print] = []
        self._programs = programs
        self._callback = callback

    def stop_if(self, frame: Frame, operation: Operation, failed: Any) -> None:
        """Emit the end of the program for when an assert failed (i1)."""
        message = str(operation.attributes["message"])
        self.asserts.append(Assert(message, str(operation.location or "unknown place")))
        stop, after = frame.block("failed"), frame.block("after")
        frame.builder.cbranch(failed, stop, after)
        ir.IRBuilder(stop).ret(r.number(r.I64, len(self.asserts)))
        frame.start_block(after)

    def print(self, frame: Frame, operation: Operation) -> None:
        """Emit the call that prints."""
        count = 3 + len(operation.operands)
        numbers = frame.entry.alloca(r.I64, count)
        specifications: list[tuple[tuple[int, ...], str]] = []
        items = [frame.builder.sext(number, r.I64) for number in self._programs]
        for value in operation.operands:
            element = element_of(value.type)
            name = element.name if isinstance(element, DType) else printing.POINTER
            specifications.append((value.shape, name))
            if is_tile(value):
                copy = frame.new_copy(value, element)
                groups.copy_tile(frame, value, copy)
                place = copy.base
            else:
                place = frame.entry.alloca(r.memory_type(element))
                register = r.to_memory(frame.builder, element, frame.scalar(value))
                frame.builder.store(register, place)
            items.append(frame.builder.ptrtoint(place, r.I64))
        builder = frame.builder
        for n, item in enumerate(items):
            place = builder.gep(numbers, [r.number(r.I64, 8 * n)], source_etype=r.BYTE)
            builder.store(item, place)
        prefix, hex_ = str(operation.attributes["prefix"]), bool(operation.attributes["hex"])
        kind = ir.FunctionType(ir.VoidType(), [r.I64, ir.PointerType()])
        index = r.number(r.I64, len(self.prints))
        builder.call(_Callee(self._callback, kind), [index, numbers])
        self.prints.append(Print(prefix, hex_, tuple(specifications)))
        for value in operation.operands:
            frame.release_copy(value)


class _Callee:
    """A pointer as llvmlite wants what it calls."""

    def __init__(self, pointer: Any, kind: ir.FunctionType) -> None:
        self.type = pointer.type
        self.function_type = kind
        self._pointer = pointer

    def get_reference(self) -> str:
        """Return the pointer's name."""
        return str(self._pointer.get_reference())

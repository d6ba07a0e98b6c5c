"""Emission of ASSERT and PRINT; ``reports`` is their Python side."""

from __future__ import annotations

from llvmlite import ir

from emu.tile import printing
from emu.tile.cpu import call
from emu.tile.cpu.emit import groups
from emu.tile.cpu.emit.frame import Frame, is_tile
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.reports import Assert, Print
from emu.tile.ir import Operation
from emu.tile.llvm import IrPointer, Register
from emu.tile.types import DType, element_of


class Diagnosis:
    """Collector of the asserts and prints of a kernel while it is emitted.

    Args:
        programs: Registers (i32) of the program's numbers x, y, z.
        table: Address of the call table.
        before: Collector of the functions that were emitted before; the numbers go on.
    """

    def __init__(
        self, programs: list[Register], table: IrPointer, before: Diagnosis | None = None
    ) -> None:
        self.asserts: list[Assert] = [] if before is None else before.asserts
        self.prints: list[Print] = [] if before is None else before.prints
        self._programs = programs
        self._table = table

    def stop_if(self, frame: Frame, operation: Operation, failed: Register) -> None:
        """Emit a return that ends the program if an assert failed (i1)."""
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
        facts = builder.load(
            builder.gep(self._table, [r.number(r.I64, 8 * call.FACTS)], source_etype=r.BYTE),
            typ=ir.PointerType(),
        )
        place = builder.gep(facts, [r.number(r.I64, 8 * call.PRINT)], source_etype=r.BYTE)
        function = builder.load(place, typ=ir.PointerType())
        builder.call(r.Callee(function, kind), [index, numbers])
        self.prints.append(Print(prefix, hex_, tuple(specifications)))
        for value in operation.operands:
            frame.release_copy(value)

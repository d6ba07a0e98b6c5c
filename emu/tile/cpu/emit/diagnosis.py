"""Emission of ASSERT and PRINT; ``reports`` is their Python side."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from llvmlite import ir

from emu.tile import printing
from emu.tile.assertions import names_of
from emu.tile.cpu import call
from emu.tile.cpu.emit import groups
from emu.tile.cpu.emit.asserting import FailedLanes
from emu.tile.cpu.emit.frame import Frame, is_tile
from emu.tile.cpu.emit.table import write
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.reports import Assert, FailedAssert, Observe, Print
from emu.tile.ir import Operation, Value
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
        self.prints: list[Print | FailedAssert | Observe] = [] if before is None else before.prints
        self._programs = programs
        self.table = table

    def stop_if(
        self,
        frame: Frame,
        operation: Operation,
        failed: Register,
        lanes: FailedLanes | None = None,
    ) -> None:
        """Emit a return that ends the program if an assert failed (i1), after the error's values are told.

        Args:
            frame: The function.
            operation: The ASSERT.
            failed: Whether it failed.
            lanes: Of a tile, where it failed.
        """
        message = str(operation.attributes["message"])
        self.asserts.append(Assert(message, str(operation.location or "unknown place")))
        stop, after = frame.block("failed"), frame.block("after")
        frame.builder.cbranch(failed, stop, after)
        builder = ir.IRBuilder(stop)
        if lanes is not None or operation.operands[1:]:
            self._tell_failure(frame, builder, operation, lanes)
        builder.ret(r.number(r.I64, len(self.asserts)))
        frame.start_block(after)

    def _tell_failure(
        self,
        frame: Frame,
        builder: ir.IRBuilder,
        operation: Operation,
        lanes: FailedLanes | None,
    ) -> None:
        """Emit the call that keeps what the error of an assert shows."""
        condition, *shown = operation.operands
        if lanes is None:
            first, count = r.number(r.I64, 0), r.number(r.I64, 1)
            places = [frame.variable(r.memory_type(element_of(value.type))) for value in shown]
            for value, place in zip(shown, places, strict=True):
                register = r.to_memory(builder, element_of(value.type), frame.scalar(value))
                builder.store(register, place)
        else:
            first = builder.load(lanes.first, typ=r.I64)
            count = builder.load(lanes.count, typ=r.I64)
            places = lanes.values
        addresses = [builder.ptrtoint(place, r.I64) for place in places]
        self._call_python(frame, builder, [first, count, *addresses])
        names = names_of(operation.attributes)
        kinds = tuple(zip(names, (_kind(value) for value in shown), strict=True))
        self.prints.append(FailedAssert(condition.shape, kinds))

    def print(self, frame: Frame, operation: Operation) -> None:
        """Emit the call that prints."""
        specifications = tuple((v.shape, _kind(v)) for v in operation.operands)
        self._tell_values(frame, operation)
        prefix, hex_ = str(operation.attributes["prefix"]), bool(operation.attributes["hex"])
        self.prints.append(Print(prefix, hex_, specifications))

    def observe(self, frame: Frame, operation: Operation) -> None:
        """Emit the call that tells an observer, or native code."""
        site = operation.attributes["site"]
        if operation.attributes.get("native"):
            function, *_ = operation.operands
            address = frame.builder.inttoptr(frame.scalar(function), ir.PointerType())
            with self._values(frame, operation) as items:
                kind = ir.FunctionType(r.I64, [r.I64, ir.PointerType()])
                record = self._record(frame, frame.builder, items)
                frame.builder.call(r.Callee(address, kind), [r.number(r.I64, site), record])
            return
        self._tell_values(frame, operation)
        self.prints.append(Observe(site))

    def _tell_values(self, frame: Frame, operation: Operation) -> None:
        """Emit the call of Python with the addresses of an operation's operands, for the next report."""
        with self._values(frame, operation) as items:
            self._call_python(frame, frame.builder, items)

    @contextlib.contextmanager
    def _values(self, frame: Frame, operation: Operation) -> Iterator[list[Register]]:
        """Give the addresses of an operation's operands."""
        items: list[Register] = []
        for value in operation.operands:
            element = element_of(value.type)
            if is_tile(value):
                copy = frame.new_copy(value, element)
                groups.copy_tile(frame, value, copy)
                place = copy.base
            else:
                place = frame.entry.alloca(r.memory_type(element))
                register = r.to_memory(frame.builder, element, frame.scalar(value))
                frame.builder.store(register, place)
            items.append(frame.builder.ptrtoint(place, r.I64))
        yield items
        for value in operation.operands:
            frame.release_copy(value)

    def _record(self, frame: Frame, builder: ir.IRBuilder, items: Sequence[Register]) -> IrPointer:
        """Emit a record: the program's numbers, and what follows them."""
        words = [*(builder.sext(number, r.I64) for number in self._programs[:3]), *items]
        numbers = frame.entry.alloca(r.I64, len(words))
        for n, word in enumerate(words):
            place = builder.gep(numbers, [r.number(r.I64, 8 * n)], source_etype=r.BYTE)
            builder.store(word, place)
        return numbers

    def _call_python(self, frame: Frame, builder: ir.IRBuilder, items: Sequence[Register]) -> None:
        """Emit the call of ``reports.CALLBACK`` for the next report, with what follows the program's numbers."""
        numbers = self._record(frame, builder, items)
        kind = ir.FunctionType(ir.VoidType(), [r.I64, ir.PointerType()])
        facts = builder.load(
            builder.gep(self.table, [r.number(r.I64, 8 * call.FACTS)], source_etype=r.BYTE),
            typ=ir.PointerType(),
        )
        place = builder.gep(facts, [r.number(r.I64, 8 * call.PRINT)], source_etype=r.BYTE)
        function = builder.load(place, typ=ir.PointerType())
        write(builder, self.table, call.ACTIVE, 0)  # a crash in there is Python's
        builder.call(r.Callee(function, kind), [r.number(r.I64, len(self.prints)), numbers])
        write(builder, self.table, call.ACTIVE, 1)


def _kind(value: Value) -> str:
    element = element_of(value.type)
    return element.name if isinstance(element, DType) else printing.POINTER

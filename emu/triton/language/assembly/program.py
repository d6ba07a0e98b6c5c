"""Execution of PTX statements: emits the operations of each instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.tile import ir
from emu.triton.language.arithmetic import and_, equal, invert, not_equal, or_, where, xor_
from emu.triton.language.assembly import arithmetic, conversions, rounding
from emu.triton.language.assembly.memory import MEMORY
from emu.triton.language.assembly.registers import Registers, type_of
from emu.triton.language.assembly.text import (
    Declaration,
    Immediate,
    Instruction,
    Label,
    Operand,
    Pair,
    Register,
    Scope,
    Statement,
    Vector,
    unsupported,
)
from emu.triton.language.assembly.warps import WARPS
from emu.triton.language.context import builder, current
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.extra.bits import is_nan
from emu.triton.language.reductions import reduce_or
from emu.triton.language.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    get_int_dtype,
    int1,
    int32,
    uint8,
    uint16,
    uint32,
)
from emu.triton.language.values import tensor
from emu.triton.language.warps import sync_warp

_NOTHING = {
    *("bar", "barrier", "fence", "membar", "nanosleep", "griddepcontrol", "prefetch", "prefetchu"),
    *("discard", "applypriority", "pmevent", "createpolicy"),
}
"""Instructions that have no effect: one program is one thread, and its memory operations keep their order."""

_FENCES = ("fence", "membar")
"""Those that order what a program does for other programs, unless they are for the block alone: only a check of races asks."""

_PACKED = {
    "f16x2": float16,
    "bf16x2": bfloat16,
    "s16x2": dtype("int16"),
    "u16x2": uint16,
    "f32x2": float32,
}

_ORDERED: dict[str, Callable[[tensor, tensor], tensor]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_JOINED = {"and": and_, "or": or_, "xor": xor_}


class Program:
    """A text's statements and the registers that they work on."""

    def __init__(self, statements: Sequence[Statement], registers: Registers) -> None:
        self.statements = statements
        self.registers = registers
        self.labels = {s.name: i for i, s in enumerate(statements) if isinstance(s, Label)}

    def run(self, start: int = 0, end: int | None = None) -> None:
        """Emit the operations of the statements from ``start`` up to ``end``."""
        at = start
        stop = len(self.statements) if end is None else end
        while at < stop:
            statement = self.statements[at]
            if isinstance(statement, Scope):
                self.registers.open() if statement.opens else self.registers.close()
            elif isinstance(statement, Declaration):
                for name in statement.names:
                    self.registers.declare(name, statement.type, f".reg .{statement.type} {name}")
            elif isinstance(statement, Label):
                at = self._loop(at, stop)
                continue
            elif statement.name == "bra":
                at = self._skip(statement, at, stop)
                continue
            else:
                self._guarded(statement)
            at += 1

    # ---- control

    def _guard(self, guard: Register, line: str) -> tensor:
        return self.registers.bits(guard, line)

    def _guarded(self, instruction: Instruction) -> None:
        if instruction.guard is None:
            self._instruction(instruction)
            return
        before = self.registers.active
        self.registers.active = self.registers.restricted(
            self._guard(instruction.guard, instruction.text)
        )
        self._instruction(instruction)
        self.registers.active = before

    def _target(self, branch: Instruction) -> int:
        name = branch.operands[0].name if isinstance(branch.operands[0], Register) else None
        if len(branch.operands) != 1 or name not in self.labels:
            raise unsupported(branch.text, "the branch")
        return self.labels[name]

    def _skip(self, branch: Instruction, at: int, stop: int) -> int:
        """Run what a branch forward jumps over where it is not taken; return the place to go on at."""
        target = self._target(branch)
        if not at < target <= stop:
            raise unsupported(branch.text, "a branch that leaves a loop or enters one")
        if branch.guard is not None:
            before = self.registers.active
            taken = self._guard(branch.guard, branch.text)
            self.registers.active = self.registers.restricted(invert(taken))
            self.run(at + 1, target)
            self.registers.active = before
        return target

    def _loop(self, at: int, stop: int) -> int:
        """Run a label's loop, if a later branch leads back to it; return the place to go on at."""
        ends = [
            i
            for i in range(at + 1, stop)
            if isinstance(s := self.statements[i], Instruction)
            and s.name == "bra"
            and self._target(s) == at
        ]
        if not ends:
            return at + 1
        branch = self.statements[ends[-1]]
        assert isinstance(branch, Instruction)
        if len(ends) > 1 or branch.guard is None:
            raise unsupported(branch.text, "a loop with several ends or none")
        self._repeat(at + 1, ends[0], branch)
        return ends[0] + 1

    def _repeat(self, start: int, end: int, branch: Instruction) -> None:
        """Emit a loop whose condition comes last: elements that have left it keep what they have."""
        registers, emit = self.registers, builder()
        assert branch.guard is not None
        for key, held in registers.widths.items():
            registers.values.setdefault(key, registers.zeros(held))
        keys = list(registers.widths)
        outside = registers.active
        first = outside if outside is not None else registers.filled(1, int1)
        carried = [*(registers.values[k] for k in keys), first]
        types = [c.type for c in carried]
        body = ir.Region([ir.Value(c.handle.type) for c in carried])
        with emit.into(body):
            inside = [tensor(h, t) for h, t in zip(body.arguments, types, strict=True)]
            registers.values.update(zip(keys, inside[:-1], strict=True))
            registers.active = inside[-1]
            self.run(start, end)
            again = and_(inside[-1], self._guard(branch.guard, branch.text))
            some = again
            if again.extents:
                some = not_equal(reduce_or(cast_to(again, int32)), 0)
            left = [registers.values[k].handle for k in keys]
            emit.yield_(some.handle, *left, again.handle)
        after = ir.Region([ir.Value(c.handle.type) for c in carried])
        with emit.into(after):
            emit.yield_(*after.arguments)
        results = emit.while_([c.handle for c in carried], body, after)
        found = [tensor(h, t) for h, t in zip(results, types, strict=True)]
        registers.values.update(zip(keys, found[:-1], strict=True))
        registers.active = outside

    # ---- instructions

    def _instruction(self, instruction: Instruction) -> None:
        special: dict[str, Callable[[Instruction], None]] = {
            "mov": self._mov,
            "cvta": self._mov,
            "cvt": self._cvt,
            "setp": self._setp,
            "set": self._set,
            "selp": self._selp,
            "slct": self._slct,
            "lop3": self._lop3,
            "testp": self._testp,
        }
        name = instruction.name
        if name in _FENCES and "cta" not in instruction.suffixes and current().keeps_fences:
            builder().barrier(fence=True)
        if name in ("bar", "barrier") and "warp" in instruction.suffixes:
            sync_warp()
        if name in _NOTHING:
            return
        if name in special:
            special[name](instruction)
        elif name in MEMORY:
            MEMORY[name](self.registers, instruction)
        elif name in WARPS:
            if self.registers.active is not None:
                raise unsupported(instruction.text, "the predicate")
            WARPS[name](self.registers, instruction)
        elif name in arithmetic.BODIES:
            self._arithmetic(instruction)
        else:
            raise unsupported(instruction.text, f"the name {name!r}")

    def _type(self, instruction: Instruction, place: int = -1) -> str:
        types = [s for s in instruction.suffixes if type_of(s) is not None]
        if not types or (place == 0 and len(types) < 2):
            raise unsupported(instruction.text, "the type")
        return types[place]

    def _read(self, instruction: Instruction, place: int, held: dtype) -> tensor:
        if place >= len(instruction.operands):
            raise unsupported(instruction.text, "the number of operands")
        return self.registers.read(instruction.operands[place], held, instruction.text)

    def _write(self, instruction: Instruction, value: tensor) -> None:
        self.registers.write(instruction.operands[0], value, instruction.text)

    def _arithmetic(self, instruction: Instruction) -> None:
        name, suffixes = instruction.name, instruction.suffixes
        type_name = self._type(instruction)
        held = type_of(type_name)
        assert held is not None
        body = arithmetic.BODIES[name]
        places = range(1, len(instruction.operands))
        counts = arithmetic.COUNTS.get(name, ())
        if ("hi" in suffixes and "cc" in suffixes) or "cc" in suffixes:
            raise unsupported(instruction.text, "the carry")
        half = _PACKED.get(type_name)
        try:
            if half is not None:
                words = [self._read(instruction, p, held) for p in places]
                value = _of_pairs(body, suffixes, words, half)
            else:
                operands = [
                    self._read(instruction, p, uint32 if p - 1 in counts else held) for p in places
                ]
                if "wide" in suffixes and name == "mad":
                    wide = dtype(
                        f"{'int' if held.is_int_signed() else 'uint'}{2 * held.int_bitwidth}"
                    )
                    operands[2] = self._read(instruction, 3, wide)
                value = _computed(body, suffixes, operands)
        except TypeError as error:
            if "positional argument" not in str(error):
                raise
            raise unsupported(instruction.text, "the number of operands") from None
        self._write(instruction, value)

    def _mov(self, instruction: Instruction) -> None:
        held = type_of(self._type(instruction))
        assert held is not None
        if instruction.suffixes[0] in ("v2", "v4"):
            self._move_vector(instruction, held)
        else:
            self._write(instruction, self._read(instruction, 1, held))

    def _move_vector(self, instruction: Instruction, held: dtype) -> None:
        """Move each component of a vector, or one number into all."""
        target, *sources = instruction.operands
        count = int(instruction.suffixes[0][1])
        if not isinstance(target, Vector) or len(target.items) != count or len(sources) != 1:
            raise unsupported(instruction.text, "the destination")
        source = sources[0]
        items = source.items if isinstance(source, Vector) else (source,) * count
        if len(items) != count:
            raise unsupported(instruction.text, f"the source, which is no vector of {count},")
        values = [self.registers.read(item, held, instruction.text) for item in items]
        for item, value in zip(target.items, values, strict=True):
            self.registers.write(item, value, instruction.text)

    def _cvt(self, instruction: Instruction) -> None:
        """Convert: the last two suffixes are the types of the result and of the operand."""
        if len(instruction.suffixes) < 2:
            raise unsupported(instruction.text, "the types")
        to, source = instruction.suffixes[-2:]
        value = self._converted(instruction, to, source)
        if value is None:
            raise unsupported(instruction.text, f"the conversion of .{source} to .{to}")
        self._write(instruction, value)

    def _converted(self, instruction: Instruction, to: str, source: str) -> tensor | None:
        suffixes, count = instruction.suffixes[:-2], len(instruction.operands)
        if "rs" in suffixes:
            return self._randomly_rounded(instruction, to, source)
        if to == "tf32" and source == "f32":
            return conversions.to_tf32(self._read(instruction, 1, float32), suffixes)
        if source == "f32" and count == 3:
            pair = [self._read(instruction, place, float32) for place in (1, 2)]
            return conversions.packed_to(to, pair[0], pair[1], suffixes)
        if source in ("f16x2", "bf16x2"):
            high, low = conversions.pair_of_halves(source, self._read(instruction, 1, uint32))
            return conversions.packed_to(to, high, low, suffixes)
        if to in ("f16x2", "bf16x2"):
            width = uint8 if source == "e2m1x2" else uint16
            return conversions.unpacked_from(
                source, self._read(instruction, 1, width), to, suffixes
            )
        kinds = type_of(to), type_of(source)
        if kinds[0] is None or kinds[1] is None:
            return None
        return conversions.converted(self._read(instruction, 1, kinds[1]), kinds[0], suffixes)

    def _randomly_rounded(self, instruction: Instruction, to: str, source: str) -> tensor | None:
        """Round two or four numbers up or down as the bits of the last operand say."""
        operands = instruction.operands
        numbers: Sequence[Operand] = operands[1:-1]
        if len(numbers) == 1 and isinstance(numbers[0], Vector):
            numbers = numbers[0].items
        if source != "f32" or len(numbers) != (4 if to.endswith("x4") else 2):
            return None
        values = [self.registers.read(n, float32, instruction.text) for n in numbers]
        random = self._read(instruction, len(operands) - 1, uint32)
        return rounding.randomly_packed_to(to, values, random, instruction.suffixes)

    # ---- predicates

    def _compared(self, instruction: Instruction, held: dtype) -> tensor:
        a, b = self._read(instruction, 1, held), self._read(instruction, 2, held)
        name = instruction.suffixes[0]
        if name in ("num", "nan"):
            missing = or_(is_nan(a), is_nan(b))
            return missing if name == "nan" else invert(missing)
        if name in _ORDERED:
            found = _ORDERED[name](a, b)
            # Of NaN, "ne" alone would be true.
            return and_(found, invert(or_(is_nan(a), is_nan(b)))) if name == "ne" else found
        if name in _UNSIGNED:
            return _ORDERED[_UNSIGNED[name]](a, b)
        if name.endswith("u") and name[:-1] in _ORDERED:
            return or_(_ORDERED[name[:-1]](a, b), or_(is_nan(a), is_nan(b)))
        raise unsupported(instruction.text, f"the comparison .{name}")

    def _setp(self, instruction: Instruction) -> None:
        held = type_of(self._type(instruction))
        assert held is not None
        found = self._compared(instruction, held)
        joined = next((s for s in instruction.suffixes[1:] if s in _JOINED), None)
        results = [found, invert(found)]
        if joined is not None:
            other = self._read(instruction, 3, int1)
            results = [_JOINED[joined](r, other) for r in results]
        destination = instruction.operands[0]
        targets: tuple[Operand, ...] = (
            (destination.first, destination.second)
            if isinstance(destination, Pair)
            else (destination,)
        )
        for target, result in zip(targets, results, strict=False):
            self.registers.write(target, result, instruction.text)

    def _set(self, instruction: Instruction) -> None:
        to, held = type_of(self._type(instruction, -2)), type_of(self._type(instruction))
        assert to is not None
        assert held is not None
        found = self._compared(instruction, held)
        if to.is_floating():
            self._write(instruction, cast_to(found, to))
        else:
            self._write(instruction, -cast_to(found, int32))

    def _selp(self, instruction: Instruction) -> None:
        held = type_of(self._type(instruction))
        assert held is not None
        a, b = self._read(instruction, 1, held), self._read(instruction, 2, held)
        self._write(instruction, where(self._read(instruction, 3, int1), a, b))

    def _slct(self, instruction: Instruction) -> None:
        held, chooser = type_of(self._type(instruction, -2)), type_of(self._type(instruction))
        assert held is not None
        assert chooser is not None
        a, b = self._read(instruction, 1, held), self._read(instruction, 2, held)
        self._write(instruction, where(self._read(instruction, 3, chooser) >= 0, a, b))

    def _lop3(self, instruction: Instruction) -> None:
        table = instruction.operands[4] if len(instruction.operands) == 5 else None
        if not isinstance(table, Immediate) or not isinstance(table.value, int):
            raise unsupported(instruction.text, "the table of values")
        operands = [self._read(instruction, place, uint32) for place in (1, 2, 3)]
        a, b, c = operands
        self._write(instruction, arithmetic.lop3(a, b, c, table.value))

    def _testp(self, instruction: Instruction) -> None:
        held = type_of(self._type(instruction))
        assert held is not None
        x = self._read(instruction, 1, held)
        size = where(x < 0, -x, x)
        finite = size < float("inf")
        smallest = 2.0**-126 if held.primitive_bitwidth == 32 else 2.0**-1022
        results = {
            "finite": finite,
            "infinite": equal(size, float("inf")),
            "number": invert(is_nan(x)),
            "notanumber": is_nan(x),
            "normal": and_(finite, size >= smallest),
            "subnormal": and_(size > 0, size < smallest),
        }
        if instruction.suffixes[0] not in results:
            raise unsupported(instruction.text, f"the test .{instruction.suffixes[0]}")
        self._write(instruction, results[instruction.suffixes[0]])


def _computed(body: arithmetic.Body, suffixes: Sequence[str], operands: Sequence[tensor]) -> tensor:
    """Return an instruction's result with what its suffixes ask of operands and result."""
    if "ftz" in suffixes:
        operands = [arithmetic.flushed(o) if o.dtype == float32 else o for o in operands]
    return arithmetic.finished(body(suffixes, *operands), suffixes)


def _of_pairs(
    body: arithmetic.Body, suffixes: Sequence[str], words: Sequence[tensor], half: dtype
) -> tensor:
    """Compute with the lower and the upper halves of words."""
    width = half.primitive_bitwidth
    part, whole = get_int_dtype(width, False), get_int_dtype(2 * width, False)
    results = []
    for shift in (0, width):
        halves = [bitcast_to(cast_to(w >> shift, part), half) for w in words]
        results.append(cast_to(bitcast_to(_computed(body, suffixes, halves), part), whole))
    return (results[1] << width) | results[0]

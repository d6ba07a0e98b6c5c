"""A small interpreter of PTX: runs what the compiler made of a kernel, on host memory.

It knows the instructions that the kernels of this package use, by the public description of the
instruction set, and refuses all others. Registers hold bit patterns; each instruction reads them as
its type says. Threads of a block run in turn from barrier to barrier, blocks one after another.
"""

from __future__ import annotations

import ctypes
import operator
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from emu.kernels.cuda import simulated

FLOATS = {
    "f16": (np.uint16, np.float16),
    "f32": (np.uint32, np.float32),
    "f64": (np.uint64, np.float64),
}
MEMORY = {8: ctypes.c_uint8, 16: ctypes.c_uint16, 32: ctypes.c_uint32, 64: ctypes.c_uint64}
COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED_COMPARE = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
PLAIN = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "min": min,
    "max": max,
}


def width(kind: str) -> int:
    return 1 if kind == "pred" else int(kind[1:])


def cut(value: int, kind: str) -> int:
    return value & ((1 << width(kind)) - 1)


def integer(bits: int, kind: str) -> int:
    bits = cut(bits, kind)
    return bits - (1 << width(kind)) if kind[0] == "s" and bits >> (width(kind) - 1) else bits


def number(bits: int, kind: str) -> Any:
    unsigned, floating = FLOATS[kind]
    return unsigned(cut(bits, kind)).view(floating)


def pattern(value: Any, kind: str) -> int:
    unsigned, floating = FLOATS[kind]
    return int(floating(value).view(unsigned))


class Instruction(NamedTuple):
    guard: str | None
    negated: bool
    op: tuple[str, ...]
    arguments: list[str]
    text: str


class Program:
    """One kernel."""

    def __init__(self, code: str) -> None:
        start = code.index(".entry")
        self.parameters = re.findall(r"\.param \.\w+ (\S+?)[,\n]", code[start:])
        self.shared = re.findall(r"\.extern \.shared[^;]*?(\S+)\[\]", code)
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        body = code[code.index("{", start) + 1 : code.rindex("}")]
        for piece in re.sub(r"//[^\n]*", "", body).split(";"):
            text = piece.strip()
            while label := re.match(r"(\$?[\w$]+):\s*", text):
                self.labels[label[1]] = len(self.instructions)
                text = text[label.end() :].strip()
            if text and not text.startswith("."):
                self.instructions.append(self._decoded(text))

    @staticmethod
    def _decoded(text: str) -> Instruction:
        guard = re.match(r"@(!?)(%\w+)\s+", text)
        name, _, rest = re.sub(r"\s+", " ", text[guard.end() if guard else 0 :]).partition(" ")
        arguments = [a.strip() for a in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)]
        return Instruction(
            guard[2] if guard else None,
            bool(guard and guard[1]),
            tuple(name.split(".")),
            arguments,
            text,
        )

    def launch(
        self, grid: tuple[int, ...], block: tuple[int, ...], arguments: list[int], shared_bytes: int
    ) -> None:
        if len(arguments) != len(self.parameters):
            raise TypeError(f"{len(self.parameters)} arguments wanted, got {len(arguments)}")
        for index in np.ndindex(*grid[::-1]):
            self._block(index[::-1], grid, block, arguments, shared_bytes)

    def _block(self, index: Any, grid: Any, block: Any, arguments: Any, shared_bytes: int) -> None:
        shared = ctypes.create_string_buffer(shared_bytes + 64)
        base = -(-ctypes.addressof(shared) // 64) * 64
        names = dict.fromkeys(self.shared, base) | {"%dynamic_smem_size": shared_bytes}
        names |= dict(zip(self.parameters, arguments, strict=True))
        for name, extents in (("ctaid", index), ("nctaid", grid), ("ntid", block)):
            names |= {f"%{name}.{axis}": n for axis, n in zip("xyz", extents, strict=False)}
        threads = []
        for place in np.ndindex(*block[::-1]):
            mine = {f"%tid.{axis}": n for axis, n in zip("xyz", place[::-1], strict=False)}
            threads.append(Thread(self, {**names, **mine}).run())
        while threads:
            waiting = [thread for thread in threads if next(thread, None) is not None]
            if waiting and len(waiting) != len(threads):
                raise RuntimeError("a barrier that not all threads of a block reach")
            threads = waiting


class Thread:
    """The registers of a thread."""

    def __init__(self, program: Program, names: dict[str, int]) -> None:
        self.program = program
        self.local = ctypes.create_string_buffer(1024 + 64)
        names["__local_depot0"] = -(-ctypes.addressof(self.local) // 64) * 64
        self.values = names

    def run(self) -> Iterator[bool]:
        at = 0
        while at < len(self.program.instructions):
            instruction = self.program.instructions[at]
            at += 1
            guard, name = instruction.guard, instruction.op[0]
            if guard is not None and bool(self.values[guard]) == instruction.negated:
                continue
            if name == "ret":
                return
            if name == "bra":
                at = self.program.labels[instruction.arguments[0]]
            elif name == "bar":
                yield True
            else:
                with np.errstate(all="ignore"):
                    self.step(instruction)

    def value(self, argument: str) -> int:
        if argument in self.values:
            return self.values[argument]
        if argument[:2] in ("0f", "0d"):
            return int(argument[2:], 16)  # noqa: FURB166 - the bits of a float, not an integer
        return int(argument, 0)

    def address(self, argument: str) -> int:
        name, offset = re.fullmatch(r"\[(.+?)([+-]\d+)?\]", argument).groups()
        return self.value(name) + int(offset or 0)

    def step(self, instruction: Instruction) -> None:
        op, arguments, kind = instruction.op, instruction.arguments, instruction.op[-1]
        if op[0] in ("ld", "st", "atom", "red"):
            self._memory(op, arguments, kind)
        elif op[0] in ("mov", "cvta"):
            self._move(arguments, kind)
        elif op[0] == "cvt":
            self.values[arguments[0]] = self._converted(op, self.value(arguments[1]))
        elif op[0] == "setp":
            self.values[arguments[0]] = self._compared(op[1], kind, *arguments[1:])
        elif op[0] == "selp":
            chosen = arguments[1] if self.values[arguments[3]] else arguments[2]
            self.values[arguments[0]] = cut(self.value(chosen), kind)
        else:
            operands = [self.value(argument) for argument in arguments[1:]]
            compute = self._floating if kind in FLOATS else self._integral
            result = compute(op, kind, operands)
            if result is None:
                raise NotImplementedError(instruction.text)
            self.values[arguments[0]] = result

    def _memory(self, op: tuple[str, ...], arguments: list[str], kind: str) -> None:
        nbytes = width(kind) // 8
        if op[:2] == ("ld", "param"):
            self.values[arguments[0]] = cut(self.value(arguments[1][1:-1]), kind)
            return
        stores = op[0] in ("st", "red")
        address = self.address(arguments[0 if stores else 1])
        registers = arguments[1 if stores else 0].strip("{}").replace(",", " ").split()
        if address % (nbytes * len(registers)):
            raise ValueError(f"a misaligned access: {op} at {address:#x}")
        for i, register in enumerate(registers):
            cell = MEMORY[width(kind)].from_address(address + i * nbytes)
            old = int(cell.value)
            if op[0] == "st":
                cell.value = cut(self.value(register), kind)
            elif op[0] == "red" and kind in FLOATS:
                added = number(old, kind) + number(self.value(register), kind)
                cell.value = pattern(added, kind)
            elif op[0] == "red":
                cell.value = cut(old + self.value(register), kind)
            else:
                if op[0] == "atom" and old == cut(self.value(arguments[2]), kind):
                    cell.value = cut(self.value(arguments[3]), kind)
                self.values[register] = integer(old, kind) & (1 << 64) - 1

    def _move(self, arguments: list[str], kind: str) -> None:
        target, source = arguments
        if source.startswith("{"):
            parts = [self.value(part) for part in re.findall(r"[^{},\s]+", source)]
            bits = width(kind) // len(parts)
            packed = sum((p & (1 << bits) - 1) << i * bits for i, p in enumerate(parts))
            self.values[target] = packed
        elif target.startswith("{"):
            names = re.findall(r"[^{},\s]+", target)
            bits, value = width(kind) // len(names), self.value(source)
            for i, name in enumerate(names):
                self.values[name] = value >> i * bits & (1 << bits) - 1
        else:
            self.values[target] = cut(self.value(source), kind)

    def _converted(self, op: tuple[str, ...], bits: int) -> int:
        target, source = op[-2:]
        if source not in FLOATS:
            value = integer(bits, source)
            if target not in FLOATS:
                return cut(value, target)
            return pattern(np.array(value).astype(FLOATS[target][1])[()], target)
        value = number(bits, source)
        if target in FLOATS:
            return pattern(np.rint(value) if "rni" in op else value, target)
        return cut(int(value), target)

    def _compared(self, relation: str, kind: str, left: str, right: str) -> bool:
        a, b = self.value(left), self.value(right)
        if kind not in FLOATS:
            relation = UNSIGNED_COMPARE.get(relation, relation)
            return bool(COMPARE[relation](integer(a, kind), integer(b, kind)))
        x, y = number(a, kind), number(b, kind)
        unordered = bool(np.isnan(x) or np.isnan(y))
        if relation in ("nan", "num"):
            return unordered == (relation == "nan")
        if unordered:
            return relation.endswith("u")
        return bool(COMPARE[relation[:2]](x, y))

    @staticmethod
    def _floating(op: tuple[str, ...], kind: str, operands: list[int]) -> int | None:
        values = [number(bits, kind) for bits in operands]
        if op[0] == "fma":
            fma = simulated.fma32 if kind == "f32" else simulated.fma64
            return pattern(fma(*values), kind)
        if op[0] == "div":
            return pattern(values[0] / values[1], kind) if op[1] == "rn" else None
        if op[0] == "neg":
            return pattern(-values[0], kind)
        plain = {**PLAIN, "min": np.fmin, "max": np.fmax}.get(op[0])
        return None if plain is None else pattern(plain(*values), kind)

    @staticmethod
    def _integral(op: tuple[str, ...], kind: str, bits: list[int]) -> int | None:
        bits_wide = width(kind)
        values = [integer(value, kind) for value in bits]
        if op[0] in ("mul", "mad"):
            product = values[0] * values[1]
            if "hi" in op:
                product >>= bits_wide
            wide = 2 * bits_wide if "wide" in op else bits_wide
            return product + (bits[2] if op[0] == "mad" else 0) & (1 << wide) - 1
        if op[0] in ("shl", "shr"):
            count = bits[1] & 0xFFFFFFFF
            if op[0] == "shl":
                return cut(values[0] << count, kind) if count < bits_wide else 0
            return cut(values[0] >> min(count, bits_wide), kind)
        if op[0] in ("div", "rem"):
            quotient = abs(values[0]) // abs(values[1])
            quotient = -quotient if (values[0] < 0) != (values[1] < 0) else quotient
            return cut(quotient if op[0] == "div" else values[0] - quotient * values[1], kind)
        if op[0] == "bfi":
            inside = (1 << bits[3]) - 1 << bits[2]
            return cut(bits[1] & ~inside | bits[0] << bits[2] & inside, kind)
        if op[0] == "bfe" and kind[0] == "u":
            return bits[0] >> bits[1] & (1 << bits[2]) - 1
        if op[0] in ("not", "neg"):
            return cut(~values[0] if op[0] == "not" else -values[0], kind)
        plain = PLAIN.get(op[0])
        return None if plain is None or len(values) != 2 else cut(plain(*values), kind)

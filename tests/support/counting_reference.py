"""The definition of counts: an interpreter that counts what it does, element by element."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from emu.tile.ir import Module
from emu.tile.reference.interpreter import Program, argument
from emu.tile.types import Pointer, element_of

SPECIAL = frozenset(
    [
        "EXP",
        "EXP2",
        "EXPM1",
        "LOG",
        "LOG2",
        "LOG10",
        "LOG1P",
        "SQRT",
        "RSQRT",
        "SIN",
        "COS",
        "TAN",
        "ASIN",
        "ACOS",
        "ATAN",
        "SINH",
        "COSH",
        "TANH",
        "ERF",
        "SIGMOID",
        "POW",
        "ATAN2",
    ]
)
ARITHMETIC = frozenset(
    [
        "NEG",
        "NOT",
        "ABS",
        "FLOOR",
        "CEIL",
        "TRUNC",
        "RINT",
        "ADD",
        "SUB",
        "MUL",
        "DIV",
        "REM",
        "MIN",
        "MAX",
        "AND",
        "OR",
        "XOR",
        "SHL",
        "SHR",
        "MULHI",
    ]
)
COMPARISONS = frozenset(["EQ", "NE", "LT", "LE", "GT", "GE"])
NOTHING = frozenset(
    [
        "CONSTANT",
        "BARRIER",
        "JOIN_TOKENS",
        "AFTER",
        "ASSERT",
        "PRINT",
        "OBSERVE",
        "FOR",
        "WHILE",
        "IF",
        "CALL",
        "YIELD",
        "RETURN",
    ]
)
PLAIN = (
    ARITHMETIC
    | SPECIAL
    | COMPARISONS
    | {"CAST", "BITCAST", "SELECT", "FMA", "PTR_ADD", "CONSTANT", "YIELD"}
)


@dataclass
class Found:
    """What was counted; the sets have addresses of bytes."""

    operations: int = 0
    work: Counter = field(default_factory=Counter)
    bytes: Counter = field(default_factory=Counter)
    lanes: Counter = field(default_factory=Counter)
    atomics: Counter = field(default_factory=Counter)
    read: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class _Counting(Program):
    found: Found = field(default_factory=Found)
    times: list[int] = field(default_factory=list)

    def evaluate(self, operation, operands, frame=None):
        name = operation.code.name
        if name not in NOTHING:
            if not self.times:
                self.found.operations += 1
            self._note(name, operation, operands)
        if name not in ("REDUCE", "SCAN"):
            return super().evaluate(operation, operands, frame)
        plain = all(o.code.name in PLAIN for o in operation.regions[0].operations)
        shape = operands[0].shape
        rows = math.prod(shape) // shape[operation.attributes["axis"]]
        self.times.append(rows if plain else 1)
        results = super().evaluate(operation, operands, frame)
        self.times.pop()
        return results

    def _note(self, name, operation, operands):
        work, each = self.found.work, math.prod(self.times)
        value = operation.results[0] if operation.results else None
        element = None if value is None else element_of(value.type)
        dtype = "ptr" if isinstance(element, Pointer) else getattr(element, "name", "")
        size = 0 if value is None else math.prod(value.shape) * each
        if name in SPECIAL:
            work["special", dtype] += size
        elif name in ARITHMETIC or name == "FMA":
            is_float = dtype.startswith(("f", "bf"))
            work["vector" if is_float else "integer", dtype] += size * (2 if name == "FMA" else 1)
        elif name in COMPARISONS:
            operand = element_of(operation.operands[0].type)
            work["compare", "ptr" if isinstance(operand, Pointer) else operand.name] += size
        elif name in ("SELECT", "CAST"):
            work[name.lower(), dtype] += size
        elif name == "PTR_ADD":
            work["address", "ptr"] += size
        elif name == "DOT":
            a, b = operands[:2]
            work["dot", operation.operands[0].dtype.name] += 2 * a.size * b.shape[-1]
        elif name == "HISTOGRAM":
            work["integer", "i32"] += operands[0].size
        elif name == "SORT":
            work["compare", dtype] += operands[0].size * math.ceil(math.log2(operands[0].shape[-1]))
        elif name in ("LOAD", "STORE", "ATOMIC_RMW", "ATOMIC_CAS"):
            self._access(name, operation, operands)

    def _access(self, name, operation, operands):
        at = {"LOAD": 1, "STORE": 2, "ATOMIC_RMW": 2}.get(name, 99)
        mask = operands[at] if len(operands) > at else np.ones(operands[0].shape, bool)
        element = element_of(operation.operands[0].type).element
        verb = {"LOAD": "loaded", "STORE": "stored"}.get(name, "atomic")
        addresses = operands[0][mask].reshape(-1).tolist()
        self.found.bytes[verb] += len(addresses) * element.bytes
        self.found.lanes["all"] += mask.size
        self.found.lanes["off"] += mask.size - len(addresses)
        touched = {a + n for a in addresses for n in range(element.bytes)}
        if verb != "stored":
            self.found.read |= touched
        if verb != "loaded":
            self.found.written |= touched
        if verb == "atomic":
            kind = operation.attributes.get("kind", "cas")
            self.found.atomics[f"{kind} {element}"] += len(addresses)


def run(module: Module, arguments, grid=(1,)) -> Found:
    """Run the kernel of a module for every program of a grid; return what it did."""
    kernel = module.kernel
    values = [argument(v, a.type) for v, a in zip(arguments, kernel.body.arguments, strict=True)]
    extents = (*grid, 1, 1, 1)[:3]
    found = Found()
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(*(range(e) for e in reversed(extents))):
            _Counting(module, (x, y, z), extents, lambda _: None, found).call(kernel, values)
    return found


def same(found: Found, counts) -> None:
    """Check that counts are those that were found."""
    work = {(u, d): n for u, of in counts.work.items() for d, n in of.items()}
    assert work == {key: n for key, n in found.work.items() if n}
    assert counts.operations == found.operations
    assert (counts.loaded, counts.stored) == (found.bytes["loaded"], found.bytes["stored"])
    assert sum(t.atomic for t in counts.tensors) == found.bytes["atomic"]
    assert (counts.lanes, counts.masked_off) == (found.lanes["all"], found.lanes["off"])
    assert counts.atomics == {k: n for k, n in found.atomics.items() if n}
    assert counts.unique == len(found.read | found.written)
    assert sum(t.unique_loaded for t in counts.tensors) == len(found.read)
    assert sum(t.unique_stored for t in counts.tensors) == len(found.written)
    groups = counts.by_program
    assert sum(g.programs for g in groups) == counts.programs
    assert sum(g.operations for g in groups) == counts.operations
    assert sum(g.flops for g in groups) == counts.flops
    atomic = found.bytes["atomic"]
    assert sum(g.loaded for g in groups) == counts.loaded + atomic
    assert sum(g.stored for g in groups) == counts.stored + atomic

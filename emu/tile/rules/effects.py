"""Rules of operations with effects: memory, control, order and diagnosis."""

from __future__ import annotations

from emu.tile import machine
from emu.tile.ir import Operation, Value
from emu.tile.ops import Rmw
from emu.tile.rules.demands import (
    Broken,
    count_operands,
    count_regions,
    data_of,
    dtype_in,
    is_integer,
    need,
    result_is,
    types_are,
    yields,
)
from emu.tile.types import (
    I1,
    I64,
    DType,
    Pointer,
    Token,
    Type,
    element_of,
    with_element,
)

# ---- memory


def _pointer(value: Value) -> Type:
    """Check for a pointer or a tile of them, and return the type of the elements."""
    element = element_of(data_of(value))
    if not isinstance(element, Pointer):
        raise Broken(f"its first operand must be a pointer, but got {value.type}")
    return with_element(value.type, element.element)


def pointer_add(o: Operation) -> None:
    """Check the rules of PTR_ADD."""
    count_operands(o, 2)
    _pointer(o.operands[0])
    dtype = dtype_in(o.operands[1], is_integer, "integers as offsets")
    types_are(
        "its operands", o.operands, [o.operands[0].type, with_element(o.operands[0].type, dtype)]
    )
    result_is(o, o.operands[0].type)


def load(o: Operation) -> None:
    """Check the rules of LOAD."""
    count_operands(o, 1, 3)
    there = _pointer(o.operands[0])
    wanted = [o.operands[0].type, with_element(there, I1), there]
    types_are("its operands", o.operands, wanted[: len(o.operands)])
    result_is(o, there)


def store(o: Operation) -> None:
    """Check the rules of STORE."""
    count_operands(o, 2, 3)
    there = _pointer(o.operands[0])
    wanted = [o.operands[0].type, there, with_element(there, I1)]
    types_are("its operands", o.operands, wanted[: len(o.operands)])
    types_are("its results", o.results, [])


def _atomic(o: Operation) -> DType:
    element = element_of(_pointer(o.operands[0]))
    if not isinstance(element, DType) or element == I1 or (element.is_float and element.bits < 16):
        raise Broken(f"there are no atomic operations on {element}")
    return element


def atomic_rmw(o: Operation) -> None:
    """Check the rules of ATOMIC_RMW."""
    count_operands(o, 2, 3)
    kind = o.attributes["kind"]
    need(kind in [k.value for k in Rmw], f"there is no kind {kind!r}")
    dtype = _atomic(o)
    need(
        not dtype.is_float or kind not in ("and", "or", "xor"),
        f"{kind} takes integers, but got {dtype}",
    )
    there = _pointer(o.operands[0])
    wanted = [o.operands[0].type, there, with_element(there, I1)]
    types_are("its operands", o.operands, wanted[: len(o.operands)])
    result_is(o, there)


def atomic_cas(o: Operation) -> None:
    """Check the rules of ATOMIC_CAS."""
    count_operands(o, 3)
    _atomic(o)
    there = _pointer(o.operands[0])
    types_are("its operands", o.operands, [o.operands[0].type, there, there])
    result_is(o, there)


# ---- control


def _scalar_truth(what: str, value: Value) -> None:
    need(value.type == I1, f"{what} must be i1, but got {value.type}")


def for_(o: Operation) -> None:
    """Check the rules of FOR."""
    need(len(o.operands) >= 3, f"it must have 3 operands or more, but got {len(o.operands)}")
    count_regions(o, 1)
    index, carried = o.operands[0].type, [v.type for v in o.operands[3:]]
    need(isinstance(index, DType) and index.is_integer, f"bounds must be integers, but got {index}")
    types_are("its bounds", o.operands[:3], [index] * 3)
    types_are("the region's arguments", o.regions[0].arguments, [index, *carried])
    types_are("what the region yields", yields(o.regions[0]), carried)
    types_are("its results", o.results, carried)


def while_(o: Operation) -> None:
    """Check the rules of WHILE."""
    count_regions(o, 2)
    before, after = o.regions
    carried = [v.type for v in o.operands]
    types_are("the first region's arguments", before.arguments, carried)
    given = yields(before)
    need(len(given) > 0, "the first region must yield a condition")
    _scalar_truth("the condition", given[0])
    passed = [v.type for v in given[1:]]
    types_are("the second region's arguments", after.arguments, passed)
    types_are("what the second region yields", yields(after), carried)
    types_are("its results", o.results, passed)


def if_(o: Operation) -> None:
    """Check the rules of IF."""
    count_operands(o, 1)
    count_regions(o, 2)
    _scalar_truth("the condition", o.operands[0])
    for region in o.regions:
        types_are("the region's arguments", region.arguments, [])
        types_are("what the region yields", yields(region), [v.type for v in o.results])


def terminator(o: Operation) -> None:
    """Check the rules of YIELD, RETURN."""
    types_are("its results", o.results, [])


def call(o: Operation) -> None:
    """Check the rules of CALL; ``verify`` compares the types with those of the callee."""


# ---- order and diagnosis


def barrier(o: Operation) -> None:
    """Check the rules of BARRIER."""
    count_operands(o, 0)
    types_are("its results", o.results, [])


def join_tokens(o: Operation) -> None:
    """Check the rules of JOIN_TOKENS."""
    result_is(o, Token())


def after(o: Operation) -> None:
    """Check the rules of AFTER."""
    count_operands(o, 2)
    types_are("its operands", o.operands, [data_of(o.operands[0]), Token()])
    result_is(o, o.operands[0].type)


def assert_(o: Operation) -> None:
    """Check the rules of ASSERT."""
    names = [name for name in o.attributes.get("names", "").split("\n") if name]
    count_operands(o, 1 + len(names))
    dtype_in(o.operands[0], lambda d: d == I1, "i1")
    for operand in o.operands[1:]:
        data_of(operand)
        need(
            operand.shape in ((), o.operands[0].shape),
            "what its error shows must be scalars, or of the shape of its condition",
        )
    types_are("its results", o.results, [])


def observe(o: Operation) -> None:
    """Check the rules of OBSERVE."""
    need(len(o.operands) >= 1, "it must have the number of its observer")
    types_are("its first operand", o.operands[:1], [I64])
    for operand in o.operands[1:]:
        data_of(operand)
    types_are("its results", o.results, [])


def machine_word(o: Operation) -> None:
    """Check the rules of MACHINE_WORD."""
    count_operands(o, 0)
    result_is(o, I64)


def machine_call(o: Operation) -> None:
    """Check the rules of MACHINE_CALL."""
    count = machine.CALLS[o.attributes["what"]]
    count_operands(o, count)
    types_are("its operands", o.operands, [I64] * count)
    result_is(o, I64)


def print_(o: Operation) -> None:
    """Check the rules of PRINT."""
    for operand in o.operands:
        data_of(operand)
    types_are("its results", o.results, [])

"""``atomic_poll``: waiting until memory holds a value."""

from __future__ import annotations

from emu.tile.ir import Region, Value
from emu.tile.ops import Code
from emu.tile.types import I64
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import cast_to, to_tensor
from emu.triton.language.memory import Order, order_of
from emu.triton.language.types import int1, int64, pointer_type
from emu.triton.language.values import TensorLike, member, tensor

_WIDTHS = (16, 32, 64)


@member
def atomic_poll(
    pointer: tensor,
    expected_value: TensorLike,
    sem: ConstexprLike[str | None] = None,
    scope: ConstexprLike[str | None] = None,
    timeout_ns: TensorLike | None = None,
) -> tensor:
    """Wait until memory holds a value; return whether it does, an int1.

    Without a time-out the wait is like ``while tl.load(pointer, volatile=True) != expected_value``: a wait in vain
    is reported in the same way.

    Args:
        pointer: A pointer to an integer of 16, 32 or 64 bits.
        expected_value: The value, converted to the dtype.
        sem: ``"acquire"`` (the default) or ``"relaxed"``.
        scope: ``"gpu"`` (the default), ``"cta"`` or ``"sys"``.
        timeout_ns: After this time the result is false; 0 looks once. It is counted in looks at memory, of which the
            compiled code takes about one a nanosecond.

    Raises:
        TypeError: ``pointer`` is not a single pointer to such an integer.
        ValueError: ``sem`` or ``scope`` is unknown, or the time-out is negative.
    """
    _check_order(sem, scope)
    if not isinstance(pointer, tensor) or not isinstance(pointer.type, pointer_type):
        got = pointer if isinstance(pointer, tensor) else repr(unwrap(pointer))
        raise TypeError(f"pointer of atomic_poll must be a single pointer, but got {got}")
    element = pointer.type.element_ty
    if not element.is_int() or element.primitive_bitwidth not in _WIDTHS:
        raise TypeError(f"atomic_poll needs integers of 16, 32 or 64 bits, but got {pointer}")
    expected = to_tensor(expected_value)
    if expected.extents:
        raise TypeError(f"expected_value of atomic_poll must be a scalar, but got {expected}")
    wanted = cast_to(expected, element)
    order = order_of(sem, scope, "acquire")
    limit = timeout_ns if isinstance(timeout_ns, tensor) else unwrap(timeout_ns)
    if limit is None:
        return _wait(pointer.handle, wanted.handle, order)
    return _wait_for(pointer.handle, wanted.handle, _checked_limit(limit), order)


def _check_order(sem: ConstexprLike[str | None], scope: ConstexprLike[str | None]) -> None:
    if unwrap(sem) not in (None, "acquire", "relaxed"):
        raise ValueError(
            f"sem of atomic_poll must be 'acquire' or 'relaxed', but got {unwrap(sem)!r}"
        )
    if unwrap(scope) not in (None, "gpu", "cta", "sys"):
        raise ValueError(f"scope must be one of 'gpu', 'cta', 'sys', but got {unwrap(scope)!r}")


def _checked_limit(limit: TensorLike) -> Value:
    if not isinstance(limit, tensor) and (not isinstance(limit, int) or limit < 0):
        raise ValueError(f"timeout_ns must be an int of at least 0, but got {limit!r}")
    given = to_tensor(limit)
    if given.extents or not given.dtype.is_int():
        raise TypeError(f"timeout_ns must be a single integer, but got {given}")
    return cast_to(given, int64).handle


def _wait(pointer: Value, expected: Value, order: Order) -> tensor:
    emit, before, after = builder(), Region(), Region()
    with emit.into(before):
        emit.yield_(emit.compare(Code.NE, emit.load(pointer, order=order), expected))
    with emit.into(after):
        emit.yield_()
    emit.while_([], before, after)
    return to_tensor(True)


def _wait_for(pointer: Value, expected: Value, limit: Value, order: Order) -> tensor:
    emit = builder()
    left = Value(I64)
    before, after = Region([left]), Region()
    with emit.into(before):
        found = emit.compare(Code.EQ, emit.load(pointer, order=order), expected)
        more = emit.compare(Code.GT, left, emit.constant(0, I64))
        goes_on = emit.binary(Code.AND, emit.unary(Code.NOT, found), more)
        emit.yield_(goes_on, left, found)
    after.arguments += [Value(I64), Value(found.type)]
    with emit.into(after):
        emit.yield_(emit.binary(Code.SUB, after.arguments[0], emit.constant(1, I64)))
    _, matched = emit.while_([limit], before, after)
    return tensor(matched, int1)

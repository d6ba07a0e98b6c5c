"""Assertions, printing, and hints to the compiler."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import TypeVar

from emu.tile.ir import Builder, Value
from emu.triton.language.arithmetic import logical_or, not_
from emu.triton.language.constants import ConstexprLike, unwrap, unwrap_sequence
from emu.triton.language.context import Asserted, builder, current
from emu.triton.language.conversion import cast_to, computed, to_tensor
from emu.triton.language.shapes import broadcast_to
from emu.triton.language.types import int1
from emu.triton.language.values import ShapeLike, TensorLike, tensor

T = TypeVar("T")


class StaticAssertionError(AssertionError):
    """Failure of a ``static_assert``."""


_NOT_GIVEN = object()


def static_assert(
    cond: object, msg: ConstexprLike[str] = "", _semantic: object = _NOT_GIVEN
) -> None:
    """Stop compiling with an error unless a condition holds.

    Args:
        cond: The condition.
        msg: What the error says.
        _semantic: What Python functions that are written for Triton hand on. In these Triton's function checks nothing,
            and some have conditions that do not hold; so it does not here.

    Raises:
        StaticAssertionError: The condition does not hold.
        TypeError: The condition is not known at compile time.
    """
    if _semantic is not _NOT_GIVEN:
        return
    if isinstance(cond, tensor):
        raise TypeError(f"a static_assert must be known at compile time, but got {cond}")
    if not unwrap(cond):
        raise StaticAssertionError(str(unwrap(msg)))


def static_print(
    *values: object,
    sep: ConstexprLike[str] = " ",
    end: ConstexprLike[str] = "\n",
    **keywords: object,
) -> None:
    """Print values while compiling, as Python's ``print`` does."""
    keywords.pop("flush", None)
    write = current().print_ or print
    file = unwrap(keywords.get("file"))
    write(*(unwrap(v) for v in values), sep=unwrap(sep), end=unwrap(end), file=file)


def device_assert(
    cond: TensorLike, msg: ConstexprLike[str] = "", mask: TensorLike | None = None
) -> None:
    """Stop the program with an error unless every element of a condition is true.

    It has an effect only where assertions are enabled (``debug=True`` or ``TRITON_DEBUG=1``).

    Args:
        cond: A condition, or a tensor of them.
        msg: Text of the error, known at compile time.
        mask: The condition is checked only where this is true.

    The error names the kernel, the program, the first lane that fails and, where the condition compares values,
    those values in that lane.
    """
    context = current()
    if not context.debug:
        return
    condition = cast_to(to_tensor(cond), int1)
    where = unwrap(mask)
    if where is not None:
        condition = logical_or(condition, not_(cast_to(to_tensor(where), int1)))
    if context.asserted is not None:
        _collect(context.asserted, condition, str(unwrap(msg)), context.builder)
        return
    compared = shown(context.operands, condition)
    context.builder.assert_(condition.handle, str(unwrap(msg)), compared)  # noqa: PT009 - emits an ASSERT


def _collect(asserted: Asserted, condition: tensor, message: str, at: Builder) -> None:
    if at.region is not asserted.region:
        raise TypeError(
            "the combine function of a reduction or scan must not assert inside an `if`: write the assertion "
            "outside, as `not when_it_matters or condition`"
        )
    asserted.conditions.append(condition.handle)
    asserted.messages[message] = None


def shown(operands: Mapping[str, object], condition: tensor) -> dict[str, Value]:
    """Return what the error of an assertion shows: the operands that have a value in each of its lanes."""
    found = {}
    for name, given in operands.items():
        value = unwrap(given)
        if not isinstance(value, (tensor, bool, int, float)):
            continue
        try:
            operand = computed(to_tensor(value))
            if operand.extents and operand.extents != condition.extents:
                operand = broadcast_to(operand, condition.extents)
        except (
            ValueError
        ):  # it has more elements than the condition, or is a number of more than 64 bits
            continue
        found[name] = operand.handle
    return found


def device_print(
    prefix: ConstexprLike[str], *args: TensorLike, hex: ConstexprLike[bool] = False
) -> None:
    """Print values while the program runs.

    Args:
        prefix: ASCII text before them, known at compile time.
        args: Tensors or numbers.
        hex: Whether numbers are printed in hexadecimal.

    Raises:
        TypeError: The prefix is not a string.
        ValueError: The prefix has a character that is not printable ASCII.
    """
    text = unwrap(prefix)
    if not isinstance(text, str):
        raise TypeError(f"prefix must be a text known at compile time, but got {text!r}")
    if any(c not in string.printable for c in text):
        raise ValueError(f"prefix must be printable ASCII, but got {text!r}")
    # The form of Triton's output, which programs' tests compare: " name: value".
    if args and not text.endswith(": "):
        text = text.rstrip(" ").removesuffix(":") + ": "
    if len(text) > 2 and not text.startswith(" "):
        text = " " + text
    builder().print_(text, [computed(to_tensor(a)).handle for a in args], bool(unwrap(hex)))


def debug_barrier() -> None:
    """Complete the memory operations before it before any after it begins."""
    builder().barrier()


def _hint(name: str, input: T, values: ShapeLike) -> T:
    rank = max(1, len(to_tensor(input).extents)) if isinstance(input, tensor) else 1
    given = unwrap_sequence(values)
    if len(given) != rank or not all(isinstance(v, int) for v in given):
        raise ValueError(
            f"values of {name} must be {rank} ints known at compile time, but got {unwrap(values)}"
        )
    return input


def multiple_of(input: T, values: ShapeLike) -> T:
    """Promise that the first of each run is a multiple; return ``input``. The promise is not used."""
    return _hint("multiple_of", input, values)


def max_contiguous(input: T, values: ShapeLike) -> T:
    """Promise that elements come in runs of consecutive numbers; return ``input``."""
    return _hint("max_contiguous", input, values)


def max_constancy(input: T, values: ShapeLike) -> T:
    """Promise that elements come in runs of equal numbers; return ``input``."""
    return _hint("max_constancy", input, values)


def assume(cond: TensorLike) -> None:
    """Promise that a condition holds; the promise is not used."""
    to_tensor(cond)


def expect_zero(x: TensorLike, mask: TensorLike | None) -> tensor:
    """Promise that elements are 0 where the mask is true; checked where assertions are enabled."""
    value = to_tensor(x)
    device_assert(value == 0, "expect_zero: x must be 0 where mask is true", mask)
    return value

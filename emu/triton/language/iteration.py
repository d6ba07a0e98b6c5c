"""Iterators of loops, whose attributes the code generator reads."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emu.triton.language.constants import ConstexprLike, base_value, constexpr, unwrap
from emu.triton.language.context import builder
from emu.triton.language.values import TensorLike, tensor


class _Range(base_value):
    """Start, end and step of a loop."""

    def __init__(self, arg1: TensorLike, arg2: TensorLike | None, step: TensorLike | None) -> None:
        self.start: TensorLike = constexpr(0) if arg2 is None else arg1
        self.end: TensorLike = arg1 if arg2 is None else arg2
        self.step: TensorLike = constexpr(1) if step is None else step

    def __iter__(self) -> Iterator[Any]:
        # Only a builder that evaluates at once can loop: the code generator reads the attributes instead.
        try:
            loop = getattr(builder(), "loop", None)
        except RuntimeError:
            loop = None
        if loop is None:
            raise RuntimeError(
                f"tl.{type(self).__name__} can only be looped over in functions decorated with @triton.jit"
            )
        bounds = (self.start, self.end, self.step)
        return iter(loop(bounds, isinstance(self, static_range)))


class static_range(_Range):
    """A loop that is unrolled while compiling: ``for i in tl.static_range(10)``.

    Args:
        arg1: The end, or with ``arg2`` the start; known at compile time.
        arg2: The end.
        step: By default 1.

    Raises:
        TypeError: An argument is not known at compile time.
    """

    def __init__(
        self,
        arg1: ConstexprLike[int],
        arg2: ConstexprLike[int] | None = None,
        step: ConstexprLike[int] | None = None,
    ) -> None:
        for name, value in (("arg1", arg1), ("arg2", arg2), ("step", step)):
            if isinstance(value, tensor):
                raise TypeError(
                    f"{name} of static_range must be known at compile time, but got {value}"
                )
        given = [None if v is None else constexpr(v) for v in (arg2, step)]
        super().__init__(constexpr(arg1), *given)


class range(_Range):
    """A loop, with hints that have no effect here: ``for i in tl.range(10, num_stages=3)``.

    Args:
        arg1: The end, or with ``arg2`` the start.
        arg2: The end.
        step: By default 1; negative only if known at compile time.
        num_stages: Accepted.
        loop_unroll_factor: Accepted.
        disallow_acc_multi_buffer: Accepted.
        flatten: Accepted.
        warp_specialize: Accepted.
        disable_licm: Accepted.
    """

    def __init__(
        self,
        arg1: TensorLike,
        arg2: TensorLike | None = None,
        step: TensorLike | None = None,
        num_stages: ConstexprLike[int | None] = None,
        loop_unroll_factor: ConstexprLike[int | None] = None,
        disallow_acc_multi_buffer: ConstexprLike[bool] = False,
        flatten: ConstexprLike[bool] = False,
        warp_specialize: ConstexprLike[bool] = False,
        disable_licm: ConstexprLike[bool] = False,
    ) -> None:
        super().__init__(arg1, arg2, step)
        self.num_stages = unwrap(num_stages)
        self.loop_unroll_factor = unwrap(loop_unroll_factor)
        self.disallow_acc_multi_buffer = unwrap(disallow_acc_multi_buffer)
        self.flatten = unwrap(flatten)
        self.warp_specialize = unwrap(warp_specialize)
        self.disable_licm = unwrap(disable_licm)


class condition(base_value):
    """Condition of a while loop, with a hint: ``while tl.condition(c)``.

    Args:
        arg1: The condition.
        disable_licm: Accepted.
    """

    def __init__(self, arg1: TensorLike, disable_licm: ConstexprLike[bool] = False) -> None:
        self.condition = arg1
        self.disable_licm = unwrap(disable_licm)


_HINTS = tuple(inspect.signature(range).parameters)[3:]


def check_plain_range(arguments: Sequence[object], keywords: Mapping[str, object]) -> None:
    """Refuse what Python's ``range`` cannot be given in a kernel; hints of :class:`range` have no effect there, as in Triton.

    Raises:
        TypeError: There are more than 3 arguments, none, or a keyword that is no hint. Triton ignores ``step``, too; it is
            refused unless it is 1.
    """
    if not 1 <= len(arguments) <= 3:
        raise TypeError(f"range takes 1 to 3 arguments, but got {len(arguments)}")
    for name, value in keywords.items():
        if name == "step":
            step = unwrap(value)
            if isinstance(step, int) and step == 1:
                continue
            raise TypeError(
                f"range takes its step as the third argument, as Triton ignores the keyword, but got step={step!r}"
            )
        if name not in _HINTS:
            raise TypeError(f"range takes the keywords {', '.join(_HINTS)}, but got {name}")

"""Windows of ``reduce_window`` and of convolutions, and their padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.dense import integer_values
from emu.mlir.ir import Operation
from emu.stablehlo.checks import Invalid
from emu.stablehlo.syntax import ints

_DESCRIBED = (
    "window-strides",
    "base-dilation factors",
    "window-dilation factors",
    "padding-entries",
)


def _integers(attribute: Attribute | None) -> tuple[int, ...]:
    """Return the numbers of ``array<i64: …>`` or of ``dense<…> : tensor<…xi64>``."""
    if isinstance(attribute, DenseElementsAttr):
        return integer_values(attribute)
    return ints(attribute)


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0


@dataclass(frozen=True, slots=True)
class Window:
    """A window along one dimension.

    Attributes:
        size: Number of its elements.
        stride: Distance from one place of the window to the next.
        base_dilation: Distance between neighbouring elements of the operand.
        dilation: Distance between neighbouring elements of the window.
        padding: Elements added in front of the operand and behind it; fewer than none cut it.
    """

    size: int
    stride: int
    base_dilation: int
    dilation: int
    padding: tuple[int, int]

    def problem(self, dim: int) -> str | None:
        """Return what is wrong with it, or None."""
        for what, value in (
            ("value", self.size),
            ("stride", self.stride),
            ("base dilation factor", self.base_dilation),
            ("window dilation factor", self.dilation),
        ):
            if value <= 0:
                return (
                    f"expects window to have positive {what} for {dim}-th window dimension, but "
                    f"got {value}."
                )
        return None

    def count(self, size: int | None) -> int | None:
        """Return in how many places of a dimension it fits; None for an unknown size."""
        if size is None:
            return None
        padded = sum(self.padding) + _dilated(size, self.base_dilation)
        window = _dilated(self.size, self.dilation)
        return 0 if not padded or window > padded else (padded - window) // self.stride + 1


def windows(op: Operation, sizes: Sequence[int], dilations: tuple[str, str]) -> list[Window]:
    """Return the windows of an operation, one per dimension.

    Args:
        op: An operation with the attributes of windows.
        sizes: Sizes of the windows.
        dilations: Names of the attributes that dilate the operand and the window.

    Raises:
        Invalid: The attributes do not fit.
    """
    rank = len(sizes)
    lists = []
    for name, described in zip(("window_strides", *dilations, "padding"), _DESCRIBED, strict=True):
        width = 2 if name == "padding" else 1
        values = _integers(op.properties.get(name))
        if values and len(values) != width * rank:
            raise Invalid(
                f"expects {described} to have same dimension-size as size of window dimensions "
                f"({rank}), but got: {len(values) // width}."
            )
        # Default: strides and dilations of 1, paddings of 0.
        lists.append(values or (2 - width,) * (width * rank))
    strides, base, inner, padding = lists
    windows = []
    for dim, size in enumerate(sizes):
        around = (padding[2 * dim], padding[2 * dim + 1])
        windows.append(Window(size, strides[dim], base[dim], inner[dim], around))
        problem = windows[-1].problem(dim)
        if problem is not None:
            raise Invalid(problem)
    return windows


def padding_attribute(pairs: Sequence[tuple[int, int]]) -> DenseElementsAttr:
    """Make ``dense<[[1, 1], [0, 2]]> : tensor<2x2xi64>``."""
    return DenseElementsAttr.of([value for pair in pairs for value in pair], (len(pairs), 2))


def padding(attribute: Attribute | None) -> list[tuple[int, int]]:
    """Return the pairs of such an attribute; none where it is absent."""
    if not isinstance(attribute, DenseElementsAttr):
        return []
    values = integer_values(attribute)
    return list(zip(values[::2], values[1::2], strict=True))

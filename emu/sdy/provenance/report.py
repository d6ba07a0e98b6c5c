"""Reports of single values: plain data, and its text for the terminal."""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.mlir.arguments import ArgumentError, check
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import AxisRef, TensorSharding
from emu.sdy.dialect.text import factor_symbol
from emu.sdy.dialect.walker import FunctionResult
from emu.sdy.provenance.history import PathStep, Recorder, Rejection, ShardingOwner
from emu.sdy.provenance.names import ValueName, name_of, place_of


@dataclass(frozen=True, slots=True)
class ValueReport:
    """Report of what propagation did to one value.

    Attributes:
        name: Name of the value in the text.
        value: The value that propagation saw (a copy where passes copied it),
            or the function's result.
        type: Its type.
        place: ``file:line`` of its definition.
        operation: Name of the operation that defines it, or "argument", or
            "result".
        before: Its sharding before propagation.
        after: Its sharding after propagation.
        exported: Its sharding in the module at the end; None if the value no
            longer exists there.
        rejections: Axes that it could have had but did not get.
        recorder: The recorded steps.
    """

    name: ValueName
    value: ShardingOwner
    type: Type
    place: str
    operation: str
    before: TensorSharding | None
    after: TensorSharding | None
    exported: TensorSharding | None
    rejections: tuple[Rejection, ...]
    recorder: Recorder = field(repr=False, compare=False)

    @property
    def axes(self) -> tuple[tuple[tuple[AxisRef, tuple[PathStep, ...]], ...], ...]:
        """Axes of each dimension, each with the path it took from its origin."""
        return self.paths()

    def paths(
        self, limit: int | None = None
    ) -> tuple[tuple[tuple[AxisRef, tuple[PathStep, ...]], ...], ...]:
        """Return the axes of each dimension with the last steps of their paths.

        Paths are followed on demand, because one can be as long as the program.

        Args:
            limit: Number of steps per path. Default: all.

        Raises:
            ArgumentError: ``limit`` is neither None nor a number of at least 1.
        """
        if limit is not None and check("limit", limit, int, "a whole number or None") < 1:
            raise ArgumentError(f"limit must be at least 1, but got {limit}")
        follow = self.recorder.path
        return tuple(
            tuple((axis, tuple(follow(self.value, d, axis, limit))) for axis in dim.axes)
            for d, dim in enumerate(self.after.dims if self.after is not None else ())
        )

    def text(self, limit: int | None = None) -> str:
        """Return the report as text of several lines.

        Args:
            limit: Number of steps shown per path; earlier ones are elided. Default: all.

        Raises:
            ArgumentError: ``limit`` is neither None nor a number of at least 1.
        """
        place = f", {self.place}" if self.place else ""
        lines = [
            f"{self.name} : {self.type}   ({self.operation}{place})",
            f"  before  {sharding_text(self.before)}",
            f"  after   {sharding_text(self.after)}",
        ]
        if self.exported is not None and _dim_axes(self.exported) != _dim_axes(self.after):
            lines.append(f"  export  {sharding_text(self.exported)}")
        for dim, axes in enumerate(self.paths(limit)):
            lines += self._dim_lines(dim, axes, limit)
        if self.rejections:
            lines.append("  not taken:")
            lines += [f"      {rejection_text(rejection)}" for rejection in self.rejections]
        return "\n".join(lines) + "\n"

    def _dim_lines(
        self, dim: int, axes: tuple[tuple[AxisRef, tuple[PathStep, ...]], ...], limit: int | None
    ) -> list[str]:
        size = self.type.shape[dim] if isinstance(self.type, TensorType) else "?"
        head = f"  dim {dim} (size {size}): "
        if not axes:
            is_rejected = any(rejection.dim == dim for rejection in self.rejections)
            why = "refused, see below" if is_rejected else "nothing brought it an axis"
            return [f"{head}not sharded ({why})"]
        lines = []
        for axis, path in axes:
            lines.append(f"{head}{axis.stripped_text()}")
            # A path that is as long as the limit and starts with a step goes further back.
            if len(path) == limit and path[0].step is not None:
                lines.append(f"      … (as it came to {owner_text(path[0].value)})")
            lines += [f"      {_path_step_text(step)}" for step in path]
        return lines

    def __str__(self) -> str:
        return self.text()


def sharding_text(sharding: TensorSharding | None) -> str:
    """Return the short text of a sharding, "none" for None."""
    return "none" if sharding is None else sharding.stripped_text()


def _dim_axes(sharding: TensorSharding | None) -> list[tuple[AxisRef, ...]]:
    return [dim.axes for dim in sharding.dims] if sharding is not None else []


def _path_step_text(step: PathStep) -> str:
    here = f"{owner_text(step.value)} dim {step.dim}"
    if step.step is None:
        return f"from {here}: {step.cause}"
    factor = f", factor {factor_symbol(step.factor)}" if step.factor is not None else ""
    place = place_of(step.op.location) if step.op is not None else ""
    where = f", {place}" if place else ""
    return f"-> {here}: {step.cause}{factor}{where} [step {step.step}]"


def rejection_text(rejection: Rejection) -> str:
    """Return which axis was not taken where, and why, in words."""
    conflict = rejection.conflict
    text = (
        f"{rejection.axis.stripped_text()} on dim {rejection.dim} at {rejection.op.name}, "
        f"factor {factor_symbol(conflict.factor)}: {conflict.reason.value}"
    )
    if rejection.other is not None:
        other = conflict.other_factor
        factor = "" if other is None else f", factor {factor_symbol(other)}"
        text += f" ({owner_text(rejection.other)}{factor})"
    place = place_of(rejection.op.location)
    return f"{text}, {place}" if place else text


def owner_text(owner: ShardingOwner) -> str:
    """Return the name of a value, or of a function's result."""
    if isinstance(owner, FunctionResult):
        return f"result {owner.index} of @{owner.function.symbol_name}"
    name = name_of(owner)
    return "a value that passes made" if name is None else str(name)

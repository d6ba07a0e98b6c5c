"""Comparison of a partitioned program with the whole one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from emu.mlir.diagnostics import shown_place
from emu.mlir.ir import BlockArgument, Operation, OpResult, Value
from emu.mlir.types import TensorType
from emu.sdy.execution.program import Partitioned, main_function
from emu.sdy.execution.shards import Placement
from emu.sdy.execution.trace import Recorder, Values
from emu.sdy.execution.whole import evaluate
from emu.stablehlo.reference.devices import SingleDevice
from emu.stablehlo.reference.dtypes import is_complex, is_float
from emu.stablehlo.reference.scope import HANDLERS, CustomCall, Program, Scope, callee
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import captured

_ROUNDINGS = {2: 16, 1: 4}
"""Number of roundings that may add up, by the bytes of a format; 1024 for larger ones."""
_INHERITED = 256
"""How much more is allowed where errors of earlier operations are in the value."""


@dataclass(frozen=True)
class Comparison:
    """A value that differs between the partitioned and the whole program.

    Attributes:
        what: The operation with its result, or the number of the program's result.
        location: Where it is in the source.
        device: Device that has the element with the largest error.
        index: Index of that element in the whole tensor.
        got: Its value in the partitioned program.
        expected: Its value in the whole program.
        error: The largest error, relative to the largest magnitude of the tensor.
        tolerance: What is allowed.
        made: What the passes made of the operation, a line each.
    """

    what: str
    location: str
    device: int
    index: tuple[int, ...]
    got: object
    expected: object
    error: float
    tolerance: float
    made: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.location}: {self.what} differs from the unsharded program",
            f"  at {list(self.index)}, on PE {self.device}: {self.got}, but unsharded {self.expected}",
            f"  error {self.error:.3g} of the largest magnitude; {self.tolerance:.3g} is allowed",
        ]
        if self.made:
            lines.append("  made into:")
            lines += [f"    {line}" for line in self.made]
        return "\n".join(lines)


@dataclass(frozen=True)
class Verdict:
    """Outcome of a comparison.

    Attributes:
        findings: What differs, in the order of the program.
        compared: Number of values that were compared.
        largest_error: The largest error among those that agree, relative to their magnitude.
    """

    findings: tuple[Comparison, ...]
    compared: int
    largest_error: float


def tolerance(dtype: np.dtype[np.generic], length: int) -> float:
    """Return the error that is allowed, relative to the largest magnitude.

    Args:
        dtype: Dtype of the value; what is no float must be equal.
        length: Number of elements that a reduction before it may have added up.
    """
    if not (is_float(dtype) or is_complex(dtype)):
        return 0.0
    real = np.empty(0, dtype).real.dtype if is_complex(dtype) else dtype
    roundings = _ROUNDINGS.get(real.itemsize, 1024)
    eps = float(ml_dtypes.finfo(real).eps)  # type: ignore[no-untyped-call]  # ml_dtypes has no types
    return eps * (roundings + math.sqrt(length))


def largest_error(
    got: Array, expected: Array, scale: Array | float | None = None
) -> tuple[float, tuple[int, ...]]:
    """Return the largest error relative to a magnitude, and where it is.

    NaN differs from all but NaN, and an infinity from all but itself.

    Args:
        got: One array.
        expected: The other one.
        scale: The magnitude. Default: the largest finite one of ``expected``.
    """
    if not got.size:
        return 0.0, ()
    wide = np.complex128 if is_complex(got.dtype) else np.float64
    a, b = got.astype(wide), expected.astype(wide)
    same = (got == expected) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=0.0)) or 1.0
    scale = largest if scale is None else np.maximum(scale, largest)
    with np.errstate(all="ignore"):
        error = np.where(same, 0.0, np.where(finite, np.abs(a - b) / scale, np.inf))
    place = np.unravel_index(int(np.argmax(error)), error.shape)
    return float(error[place]), tuple(map(int, place))


@dataclass(frozen=True)
class _Expected:
    """What a value should be.

    Attributes:
        value: The value.
        length: Number of elements that may have been added up.
        scale: Magnitude of what was added up; None for that of the value.
        is_exact: Whether it was computed from the devices' own operands.
    """

    value: Array
    length: int
    scale: Array | None = None
    is_exact: bool = True


def _compared(
    what: str,
    location: str,
    placement: Placement,
    got: Array,
    expected: _Expected,
    made: tuple[str, ...] = (),
) -> Comparison | float:
    """Return what differs, or the error that is allowed."""
    error, place = largest_error(got, expected.value, expected.scale)
    allowed = tolerance(got.dtype, expected.length)
    if not expected.is_exact:
        # Errors of what came before are in it, and so are decisions that they turned.
        allowed = allowed * _INHERITED if allowed else np.inf
    if error <= allowed:
        return error if expected.is_exact else 0.0
    device = device_of(placement, place)
    value = expected.value[place]
    return Comparison(what, location, device, place, got[place], value, error, allowed, made)


def _is_inexact(x: Array) -> bool:
    return is_float(x.dtype) or is_complex(x.dtype)


def _size(type_: object) -> int:
    return type_.size if isinstance(type_, TensorType) and type_.is_static else 1


def device_of(placement: Placement, index: Sequence[int]) -> int:
    """Return the first device that has an element."""
    devices = placement.mesh.device_ids or range(max(placement.mesh.total_size, 1))
    for device in devices if placement.mesh.axes else [0]:
        starts, shape = placement.starts(device), placement.local_shape
        if all(a <= i < a + n for a, i, n in zip(starts, index, shape, strict=True)):
            return device
    return 0


def _verdict(compared: Sequence[Comparison | float]) -> Verdict:
    findings = tuple(each for each in compared if isinstance(each, Comparison))
    errors = [each for each in compared if not isinstance(each, Comparison)]
    return Verdict(findings, len(compared), max(errors, default=0.0))


def compare_results(
    program: Partitioned, expected: Sequence[Array], got: Sequence[Array]
) -> Verdict:
    """Compare the results of the program."""
    return _verdict(
        [
            _compared(f"result {index}", "main", placement, a, _Expected(b, a.size))
            for index, (placement, a, b) in enumerate(
                zip(program.results, got, expected, strict=True)
            )
        ]
    )


# Operations


_ADDING = {
    *("stablehlo.convolution", "stablehlo.dot", "stablehlo.dot_general", "stablehlo.reduce"),
    *("stablehlo.reduce_window",),
}
"""Operations that may cancel: their error is measured by the magnitude of what they add up."""


def compare(
    program: Partitioned,
    every_operation: bool,
    inputs: Sequence[Array],
    results: Sequence[Array],
    per_device: Sequence[Values],
    custom_calls: Mapping[str, CustomCall],
) -> Verdict:
    """Run the whole program, and compare what it computes with what the partitioned one has.

    Args:
        program: The partitioned program.
        every_operation: Whether to compare what every operation computes, too; ``program`` has probes then.
        inputs: The whole inputs.
        results: The whole results of the partitioned program.
        per_device: What the probes of each device saw.
        custom_calls: Functions by the name of their target.
    """
    recorder = Recorder(program.whole) if every_operation else None
    expected = evaluate(
        program.whole,
        *inputs,
        function=str(main_function(program.whole).symbol_name),
        custom_calls=custom_calls,
        observer=recorder,
    )
    verdict = compare_results(program, expected, results)
    if recorder is None:
        return verdict
    values = compare_values(program, recorder, per_device, custom_calls)
    # The results tell only that something is wrong, where no operation was found to be.
    findings = values.findings or verdict.findings
    largest = max(values.largest_error, verdict.largest_error)
    return Verdict(findings, values.compared + verdict.compared, largest)


def compare_values(
    program: Partitioned,
    whole: Recorder,
    per_device: Sequence[Values],
    custom_calls: Mapping[str, CustomCall] | None = None,
) -> Verdict:
    """Compare what every operation computes.

    What an operation should give is computed from the operands that the devices have, as far as they
    are known, so that neither rounding nor an error before it is reported again. An operation that was
    made into several is compared after the last one that has its type: where partial sums are added
    up, after the sum.

    Args:
        program: The partitioned program.
        whole: Values of the whole program.
        per_device: What the probes of each device saw.
        custom_calls: Functions by the name of their target. Default: none.
    """
    comparison = _Comparison(program, whole, per_device, custom_calls or {})
    found: list[Comparison | float] = []
    for number, op in program.operations.items():
        found += comparison.compare(number, op)
    return _verdict(found)


class _Comparison:
    """Values of the whole and of the partitioned program, by operations of the whole one."""

    def __init__(
        self,
        program: Partitioned,
        whole: Recorder,
        per_device: Sequence[Values],
        custom_calls: Mapping[str, CustomCall],
    ) -> None:
        self.program = program
        self.custom_calls = custom_calls
        self.whole = whole
        self.per_device = per_device
        self.numbers = {op: number for number, op in program.operations.items()}
        self.calls: dict[str, list[Operation]] = {}
        for op in self.numbers:
            if op.name == "func.call":
                self.calls.setdefault(callee(op), []).append(op)
        # Of several probes of a value the last one is behind all that was made of it.
        self.probes = {
            (probe.operation, probe.result): number for number, probe in program.probes.items()
        }

    def compare(self, number: int, op: Operation) -> list[Comparison | float]:
        """Return the errors of an operation's values; the first that is too large ends the list."""
        expected = self.whole.values.get(number, [])
        made = tuple(self.program.made.get(number, ()))
        compared: list[Comparison | float] = []
        for turn in range(len(expected)):
            for index in range(len(op.results)):
                found = self.assembled(number, index, turn)
                if found is None:
                    continue
                got, placement = found
                wanted = self._recomputed(op, turn, len(expected))[index]
                what = f"{op.name}, result {index}" if len(op.results) > 1 else op.name
                if len(expected) > 1:
                    what += f", at its run {turn + 1} of {len(expected)},"
                location = shown_place(op.location)
                compared.append(_compared(what, location, placement, got, wanted, made))
                if isinstance(compared[-1], Comparison):
                    return compared
        return compared

    def assembled(self, number: int, index: int, turn: int) -> tuple[Array, Placement] | None:
        """Return what the devices have of a result, and where it is; None where that is not known."""
        probe = self.probes.get((number, index))
        if probe is None:
            return None
        turns = len(self.whole.values.get(number, ()))
        runs = [values.get(probe, []) for values in self.per_device]
        if any(len(run) != turns for run in runs):
            return None
        placement = self.program.probes[probe].placement
        parts = [run[turn][0] for run in runs]
        return placement.assemble(parts, range(len(parts))), placement

    def _recomputed(self, op: Operation, turn: int, turns: int) -> list[_Expected]:
        """Return what an operation should give for the operands that the devices have."""
        length = max([_size(value.type) for value in op.operands], default=1)
        seen = self.whole.values[self.numbers[op]][turn]
        values, is_known = {}, True
        for value in (*op.operands, *captured(op)):
            found = self._operand(value, turn, turns)
            if found is None:
                return [_Expected(value, length, is_exact=False) for value in seen]
            values[value] = found[0]
            is_known &= found[1]
        operands = [values[value] for value in op.operands]
        scope = Scope(Program(self.program.whole, SingleDevice(), self.custom_calls), values)
        with np.errstate(all="ignore"):
            expected = HANDLERS[op.name](op, operands, scope)
            scales: Sequence[Array | None] = [None] * len(expected)
            if op.name in _ADDING and all(_is_inexact(x) for x in operands):
                scales = [
                    np.abs(x).astype(np.float64)
                    for x in HANDLERS[op.name](op, [np.abs(x) for x in operands], scope)
                ]
        return [
            _Expected(value, length, scale, is_known)
            for value, scale in zip(expected, scales, strict=True)
        ]

    def _operand(self, value: Value, turn: int, turns: int) -> tuple[Array, bool] | None:
        """Return an operand's value, and whether it is the devices'; None if it is not known."""
        if isinstance(value, BlockArgument):
            return self._argument(value, turn, turns)
        assert isinstance(value, OpResult)
        number = self.numbers[value.owner]
        results = self.whole.values.get(number, [])
        place = _corresponding(turn, turns, len(results))
        if place is None:
            return None
        found = self.assembled(number, value.index, place)
        return (results[place][value.index], False) if found is None else (found[0], True)

    def _argument(self, value: BlockArgument, turn: int, turns: int) -> tuple[Array, bool] | None:
        """Return the value of a block's argument: of a function's from where it is called."""
        entered = self.whole.arguments.get(value.owner, [])
        place = _corresponding(turn, turns, len(entered))
        if place is None:
            return None
        function = value.owner.parent_op
        if function is not None and function.name == "func.func":
            calls = self.calls.get(function.symbol_name or "", [])
            if len(calls) == 1:
                return self._operand(calls[0].operands[value.index], place, len(entered))
            if not calls:
                return entered[place][value.index], True  # an input of the program
        return entered[place][value.index], False


def _corresponding(turn: int, turns: int, others: int) -> int | None:
    """Return which run of an operation around or before another one belongs to its run ``turn``."""
    if not others or turns % others:
        return None
    return turn * others // turns

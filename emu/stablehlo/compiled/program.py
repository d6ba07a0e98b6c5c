"""Compiled programs, and programs bound to the memory of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from emu.mlir.diagnostics import shown_place
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.stablehlo.compiled import families  # noqa: F401  (the planners register themselves)
from emu.stablehlo.compiled.collectives import has_groups
from emu.stablehlo.compiled.forms import Action, Memory, Site, Step
from emu.stablehlo.compiled.planner import Planned, plan
from emu.stablehlo.compiled.prepare import find_function, prepared
from emu.stablehlo.compiled.storage import Kind
from emu.stablehlo.reference.devices import Device, SingleDevice
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.evaluate import evaluate
from emu.stablehlo.reference.scope import CustomCall, Program
from emu.stablehlo.reference.values import Array


class CompiledProgram:
    """A function of a module, compiled; immutable and picklable.

    Attributes:
        module: The module: a copy, in which the function has no calls.
        function: Name of the function.
        inputs: Types of its parameters.
        results: Types of its results.
        planned: The plan; None where the reference computes the whole function.
    """

    def __init__(
        self,
        module: Operation,
        function: str,
        custom_calls: Mapping[str, CustomCall],
        donated: Sequence[int],
    ) -> None:
        main = find_function(module, function)
        self.function = function
        self.inputs = tuple(argument.type for argument in main.body().arguments)
        self.results = tuple(value.type for value in main.body().terminator.operands)
        self.custom_calls = dict(custom_calls)
        _check_donated(donated, len(self.inputs))
        self.module = prepared(module, function)
        self.planned: Planned | None = None
        try:
            self.planned = plan(self.module, find_function(self.module, function), donated)
        except EvaluationError:
            # A type that has no dtype, or no static shape: the reference says what is wrong.
            self.module = module.clone()

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the buffers that a bound program has, beside inputs, results and constants."""
        return 0 if self.planned is None else self.planned.arena + self.planned.shared

    @property
    def made_in_inputs(self) -> dict[int, int]:
        """Number of the donated input whose memory a result is made in, by the number of the result."""
        if self.planned is None:
            return {}
        roots, layouts = self.planned.roots, self.planned.layouts
        own = {root.index for root in roots if root.kind is Kind.OUTPUT}
        return {
            index: roots[layouts[slot].root].index
            for index, slot in enumerate(self.planned.results)
            if index not in own
        }

    def load(self) -> None:
        """Load the kernels that are on disk: processes that are forked from this one then have them."""
        if self.planned is not None:
            _load(self.planned.steps)

    def bind(
        self, device: Device | None = None, custom_calls: Mapping[str, CustomCall] | None = None
    ) -> BoundProgram:
        """Allocate the buffers of one process.

        Args:
            device: The process that runs it. Default: the only one.
            custom_calls: Functions by the name of their target, beside those that
                ``compile_program`` was given. Default: none.
        """
        calls = {**self.custom_calls, **(custom_calls or {})}
        return BoundProgram(self, SingleDevice() if device is None else device, calls)


def _check_donated(donated: Sequence[int], count: int) -> None:
    for index in donated:
        if not 0 <= index < count:
            raise EvaluationError(
                f"donated must be indices of the {count} inputs, but one is {index}"
            )


class BoundProgram:
    """A compiled program with its buffers: what one process calls.

    Attributes:
        program: The compiled program.
    """

    def __init__(
        self, program: CompiledProgram, device: Device, custom_calls: Mapping[str, CustomCall]
    ) -> None:
        self.program = program
        self._device = device
        self._custom_calls = custom_calls
        planned = program.planned
        if planned is None:
            return
        self._planned = planned
        if has_groups(device):
            shared = device.shared_memory(planned.shared)
        else:
            shared = np.empty(planned.shared + 64, np.uint8)
        self._memory = Memory(
            planned.roots, planned.layouts, planned.constants, planned.arena, shared
        )
        ops = list(program.module.walk())
        scope = Program(program.module, device, custom_calls)
        self._run = _bound(planned.steps, self._memory, ops, scope)
        kinds: dict[Kind, dict[int, int]] = {kind: {} for kind in (Kind.INPUT, Kind.OUTPUT)}
        for number, root in enumerate(planned.roots):
            if root.kind in kinds:
                kinds[root.kind][root.index] = number
        self._inputs = [kinds[Kind.INPUT][i] for i in range(len(program.inputs))]
        # Results that are made in a donated input have no root of their own.
        self._outputs = [kinds[Kind.OUTPUT].get(i) for i in range(len(program.results))]

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers, beside inputs, results and constants."""
        return self.program.buffer_bytes

    def __call__(
        self, inputs: Sequence[Array], outputs: Sequence[Array] | None = None
    ) -> list[Array]:
        """Run the program.

        Args:
            inputs: One array per parameter, of its shape and dtype.
            outputs: Arrays to write the results to. They may share memory with inputs. Default: new
                ones, or the donated inputs in which results were made.

        Returns:
            ``outputs``, or the new arrays.

        Raises:
            EvaluationError: An input or output does not fit, or an operation cannot be evaluated.
        """
        given = _checked(self.program.function, "input", inputs, self.program.inputs)
        targets = None
        if outputs is not None:
            targets = _checked(self.program.function, "output", outputs, self.program.results)
            _check_writable(targets)
        if self.program.planned is None:
            found = self._evaluated(given)
        else:
            found = self._ran(given, targets)
        if targets is None:
            return found
        _copy_all(found, targets)
        return targets

    def _evaluated(self, inputs: Sequence[Array]) -> list[Array]:
        """Let the reference compute the whole function."""
        return evaluate(
            self.program.module,
            *inputs,
            function=self.program.function,
            device=self._device,
            custom_calls=self._custom_calls,
        )

    def _ran(self, inputs: Sequence[Array], targets: Sequence[Array] | None) -> list[Array]:
        """Run the steps; return the results, where possible in the arrays that are given for them."""
        plain = [_plain(x) for x in inputs]
        for root, array in zip(self._inputs, plain, strict=True):
            self._memory.give(root, array)
        made = self._results(inputs, targets)
        for place, result in zip(self._outputs, made, strict=True):
            if place is not None and result is not None:
                self._memory.give(place, result)
        # NumPy warns of what StableHLO defines: overflow, 0 / 0, NaN.
        with np.errstate(all="ignore"):
            self._run()
        if targets is None:
            for place in self._outputs:
                if place is not None:
                    self._memory.release(place)
        return [
            plain[self._source(slot)] if result is None else result
            for result, slot in zip(made, self._planned.results, strict=True)
        ]

    def _results(
        self, inputs: Sequence[Array], targets: Sequence[Array] | None
    ) -> list[Array | None]:
        """Return the arrays that results are made in; None for those made in a donated input."""
        own = [i for i, place in enumerate(self._outputs) if place is not None]
        is_shared = targets is not None and _overlap([targets[i] for i in own], inputs)
        given = None if is_shared else targets
        made: list[Array | None] = [None] * len(self._outputs)
        for index in own:
            made[index] = self._target(index, None if given is None else given[index])
        return made

    def _source(self, slot: int) -> int:
        """Return which input a slot lies in."""
        return self._planned.roots[self._planned.layouts[slot].root].index

    def _target(self, index: int, given: Array | None) -> Array:
        if given is not None and given.flags.c_contiguous and given.flags.aligned:
            return given
        type_ = self.program.results[index]
        if not isinstance(type_, TensorType):
            return np.empty(0, np.bool_)
        return np.empty(type_.static_shape, dtype_of(type_.element))


def _copy_all(sources: Sequence[Array], targets: Sequence[Array]) -> None:
    """Copy arrays to others, as if all at once."""
    moved = [(s, t) for s, t in zip(sources, targets, strict=True) if not _is_same(t, s)]
    if _overlap([t for _, t in moved], [s for s, _ in moved]):
        moved = [(s.copy(), t) for s, t in moved]
    for source, target in moved:
        np.copyto(target, source)


def _is_same(a: Array, b: Array) -> bool:
    """Return whether two arrays of one shape are the same memory."""
    if a is b:
        return True
    same = a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
    return same and a.strides == b.strides


def _plain(array: Array) -> Array:
    """Return an array as the plan expects it: C-contiguous and aligned."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.array(array, order="C")


def _overlap(targets: Sequence[Array], inputs: Sequence[Array]) -> bool:
    """Return whether memory of targets and inputs, or of two targets, may overlap."""
    spans = sorted(
        (*np.lib.array_utils.byte_bounds(array), is_target)
        for is_target, arrays in ((True, targets), (False, inputs))
        for array in arrays
        if array.size
    )
    top, top_is_target = 0, False
    for low, high, is_target in spans:
        if low < top and (is_target or top_is_target):
            return True
        if high > top:
            top, top_is_target = high, is_target
    return False


def _checked(
    function: str, what: str, arrays: Sequence[Array], types: Sequence[Type]
) -> list[Array]:
    if len(arrays) != len(types):
        verb = "takes" if what == "input" else "gives"
        raise EvaluationError(f"@{function} {verb} {len(types)} {what}s, but got {len(arrays)}")
    return [
        _check_array(f"{what} {i}", x, t)
        for i, (x, t) in enumerate(zip(arrays, types, strict=True))
    ]


def _check_array(what: str, value: Array, type_: Type) -> Array:
    if not isinstance(type_, TensorType) or not type_.is_static:
        raise EvaluationError(f"{what} is {type_}, which has no static shape")
    array = np.asarray(value)
    if array.shape != type_.shape or array.dtype != dtype_of(type_.element):
        raise EvaluationError(f"{what} must be {type_}, but is {array.dtype}{list(array.shape)}")
    return array


def _check_writable(arrays: Sequence[Array]) -> None:
    for index, array in enumerate(arrays):
        if not array.flags.writeable:
            raise EvaluationError(f"output {index} must be writable")


def _load(steps: Sequence[Step]) -> None:
    for step in steps:
        step.form.load()
        for block in step.blocks:
            _load(block)


# Binding


def _bound(
    steps: Sequence[Step], memory: Memory, ops: Sequence[Operation], program: Program
) -> Action:
    """Return what runs steps."""
    actions: list[Action] = []
    places: list[Operation] = []
    for step in steps:
        blocks = tuple(_bound(block, memory, ops, program) for block in step.blocks)
        op = ops[step.op]
        actions.append(step.form.bind(Site(memory, step, op, program, blocks)))
        places.append(op)

    def run() -> None:
        action: Action | None = None
        try:
            for action in actions:
                action()
        except EvaluationError as error:
            if error.placed or action is None:
                raise
            op = places[next(i for i, each in enumerate(actions) if each is action)]
            text = f"{shown_place(op.location)}: {op.name}: {error}"
            raise EvaluationError(text, placed=True) from error.__cause__

    return run


def compile_program(
    module: Operation,
    function: str = "main",
    *,
    custom_calls: Mapping[str, CustomCall] | None = None,
    donated: Sequence[int] = (),
) -> CompiledProgram:
    """Compile a function of a module.

    Args:
        module: A verified module of static shapes; it is left as it is.
        function: Name of the function. Default: "main".
        custom_calls: Functions by the name of their target. Default: none.
        donated: Indices of the inputs whose memory a call may overwrite. Default: none.

    Returns:
        The program: immutable, picklable if ``custom_calls`` are.

    Raises:
        EvaluationError: There is no such function, or no input that ``donated`` names.
    """
    return CompiledProgram(module, function, custom_calls or {}, donated)

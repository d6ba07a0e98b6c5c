"""The program of one device, as a process gets it, and bound to a device of that process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from emu.mlir.attributes import IntegerAttr
from emu.mlir.ir import Operation
from emu.sdy.execution.pickled import Pickled
from emu.sdy.execution.program import NUMBER, PROBE, Partitioned, main_function
from emu.sdy.execution.shards import Placement
from emu.sdy.execution.trace import Values
from emu.stablehlo.reference.devices import Device
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.scope import CustomCall
from emu.stablehlo.reference.values import Array

if TYPE_CHECKING:
    from emu.stablehlo.compiled import CompiledProgram

Path = Literal["compiled", "reference"]
PATHS = ("compiled", "reference")


def local_form(placement: Placement) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Return shape and dtype of a shard."""
    return placement.local_shape, dtype_of(placement.type.element)


@dataclass(frozen=True, eq=False)
class LocalProgram:
    """What every process needs to run its part: picklable if its custom calls are.

    Attributes:
        code: The compiled program of one device; its module where the reference runs it.
        path: "compiled" or "reference".
        function: Name of the function.
        inputs: Shape and dtype of each input's shard.
        results: Those of each result's shard.
        made_in_inputs: Number of the donated input whose memory a result is made in, by the number of the
            result.
        custom_calls: Functions by the name of their target.
    """

    code: Pickled[CompiledProgram | Operation]
    path: Path
    function: str
    inputs: tuple[tuple[tuple[int, ...], np.dtype[np.generic]], ...]
    results: tuple[tuple[tuple[int, ...], np.dtype[np.generic]], ...]
    made_in_inputs: dict[int, int]
    custom_calls: Mapping[str, CustomCall] = field(default_factory=dict)

    @classmethod
    def of(cls, partitioned: Partitioned, path: Path, donated: Sequence[int]) -> LocalProgram:
        """Return the program of one device of a partitioned program, without custom calls.

        Args:
            partitioned: The partitioned program.
            path: "compiled" or "reference".
            donated: Inputs whose memory a call may overwrite.
        """
        module = partitioned.local
        function = str(main_function(module).symbol_name)
        inputs, results = (
            tuple(map(local_form, each)) for each in (partitioned.inputs, partitioned.results)
        )
        if path == "reference":
            return cls(Pickled(module), path, function, inputs, results, {})
        from emu.stablehlo.compiled import compile_program

        compiled = compile_program(module, function, donated=donated)
        made = compiled.made_in_inputs
        return cls(Pickled(compiled), path, function, inputs, results, made)

    @property
    def compiled(self) -> CompiledProgram | None:
        """The compiled program; None where the reference runs it."""
        found = self.code.value
        return None if isinstance(found, Operation) else found

    def bind(self, device: Device) -> BoundLocalProgram:
        """Return the program on a device of this process."""
        return BoundLocalProgram(self, device)


class BoundLocalProgram:
    """A program on a device.

    Attributes:
        buffer_bytes: Bytes that the program needs beside its inputs and results; 0 where the reference
            runs it.
    """

    def __init__(self, program: LocalProgram, device: Device) -> None:
        self._program = program
        self._device = device
        self._seen: Values = {}
        self._calls = {**program.custom_calls, PROBE: self._probe}
        self._bound = None
        self.buffer_bytes = 0
        compiled = program.compiled
        if compiled is not None:
            self._bound = compiled.bind(device, self._calls)
            self.buffer_bytes = self._bound.buffer_bytes

    def _probe(self, op: Operation, value: Array) -> Sequence[Array]:
        number = op.attributes[NUMBER]
        assert isinstance(number, IntegerAttr)
        # A copy: what a compiled program passes is a buffer that it will use again.
        self._seen.setdefault(number.value, []).append([np.array(value)])
        return ()

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Values:
        """Run the program on shards.

        Args:
            inputs: The shards of the inputs.
            outputs: Arrays to fill with those of the results.

        Returns:
            What the probes saw.
        """
        self._seen = {}
        program = self._program
        if self._bound is not None:
            self._bound(inputs, outputs)
        else:
            from emu.sdy.execution.whole import evaluate

            module = program.code.value
            assert isinstance(module, Operation)
            found = evaluate(
                module,
                *inputs,
                function=program.function,
                device=self._device,
                custom_calls=self._calls,
            )
            for target, source in zip(outputs, found, strict=True):
                target[...] = source
        return self._seen

    def new_outputs(self) -> list[Array]:
        """Return arrays for the results."""
        return [np.empty(shape, dtype) for shape, dtype in self._program.results]

"""The program of one device, as a process gets it, and bound to a device of that process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from emu.mlir.attributes import IntegerAttr
from emu.mlir.ir import Operation
from emu.sdy.execution.partitioned import NUMBER, PROBE
from emu.sdy.execution.shards import Placement
from emu.sdy.execution.trace import Values
from emu.stablehlo.compiled import CompiledProgram, compile_program
from emu.stablehlo.reference import evaluate
from emu.stablehlo.reference.devices import Device
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.scope import CustomCall
from emu.stablehlo.reference.values import Array

Path = Literal["compiled", "reference"]
PATHS = ("compiled", "reference")


def local_form(placement: Placement) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Return shape and dtype of a shard."""
    return placement.local_shape, dtype_of(placement.type.element)


@dataclass(frozen=True, eq=False)
class LocalProgram:
    """What every process needs to run its part: picklable if its custom calls are.

    Attributes:
        module: The program of one device; None where it is compiled.
        compiled: Its compiled form; None where the reference runs it.
        function: Name of the function.
        inputs: Shape and dtype of each input's shard.
        results: Those of each result's shard.
        custom_calls: Functions by the name of their target.
    """

    module: Operation | None
    compiled: CompiledProgram | None
    function: str
    inputs: tuple[tuple[tuple[int, ...], np.dtype[np.generic]], ...]
    results: tuple[tuple[tuple[int, ...], np.dtype[np.generic]], ...]
    custom_calls: Mapping[str, CustomCall] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        module: Operation,
        function: str,
        placements: tuple[Sequence[Placement], Sequence[Placement]],
        custom_calls: Mapping[str, CustomCall],
        *,
        path: Path,
        donated: Sequence[int],
    ) -> LocalProgram:
        """Return the program of a module.

        Args:
            module: The program of one device.
            function: Name of its function.
            placements: Where inputs and results are.
            custom_calls: Functions by the name of their target.
            path: "compiled" or "reference".
            donated: Inputs whose memory a call may overwrite.
        """
        inputs, results = (tuple(map(local_form, each)) for each in placements)
        if path == "reference":
            return cls(module, None, function, inputs, results, custom_calls)
        compiled = compile_program(module, function, donated=donated)
        return cls(None, compiled, function, inputs, results, custom_calls)

    @cached_property  # every call asks
    def made_in_inputs(self) -> dict[int, int]:
        """Number of the donated input whose memory a result is made in, by the number of the result."""
        return {} if self.compiled is None else self.compiled.made_in_inputs

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
        if program.compiled is not None:
            self._bound = program.compiled.bind(device, self._calls)
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
            assert program.module is not None
            found = evaluate(
                program.module,
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

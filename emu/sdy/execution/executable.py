"""Programs that run on PEs, once or many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

import emu.sdy.execution.whole  # noqa: F401  # handlers of sdy operations
from emu.comm.process.launch import launch
from emu.comm.process.launch_options import LaunchOptions
from emu.comm.world.current import current
from emu.kernels.core.messages import shown
from emu.mlir.arguments import check_module
from emu.mlir.attributes import IntegerAttr
from emu.mlir.ir import Operation
from emu.sdy.execution.comparison import Verdict, compare_results, compare_values
from emu.sdy.execution.device import WorldDevice
from emu.sdy.execution.errors import ExecutionError, MismatchError
from emu.sdy.execution.partitioned import (
    DEFAULT_PIPELINE,
    NUMBER,
    PROBE,
    Partitioned,
    main_function,
    partition,
)
from emu.sdy.execution.shards import Placement
from emu.sdy.execution.trace import Recorder, Values
from emu.stablehlo.reference import evaluate
from emu.stablehlo.reference.custom_calls import registered_calls
from emu.stablehlo.reference.devices import Device, SingleDevice
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.scope import CustomCall
from emu.stablehlo.reference.values import Array

Check = Literal["outputs", "unsharded"]
_CHECKS = (None, "outputs", "unsharded")


@dataclass(frozen=True)
class _Work:
    """What every PE needs to run its part."""

    local: Operation
    inputs: tuple[Placement, ...]
    function: str
    custom_calls: Mapping[str, CustomCall] = field(default_factory=dict)

    def run(self, device: Device, shards: Sequence[Array]) -> tuple[list[Array], Values]:
        """Run the program of one device on its shards; return the results and what probes saw."""
        values: Values = {}

        def probe(op: Operation, value: Array) -> Sequence[Array]:
            number = op.attributes[NUMBER]
            assert isinstance(number, IntegerAttr)
            values.setdefault(number.value, []).append([value])
            return ()

        calls = {**self.custom_calls, PROBE: probe}
        found = evaluate(
            self.local, *shards, function=self.function, device=device, custom_calls=calls
        )
        return found, values


def _run_on_pe(work: _Work, wholes: Sequence[Array]) -> tuple[list[Array], Values]:
    """Run one device's part in a PE; return its shards of the results and what its probes saw."""
    world = current()
    assert world is not None
    device = WorldDevice(world, 1, world.n_pes)
    shards = [p.shard(x, world.my_pe) for p, x in zip(work.inputs, wholes, strict=True)]
    return work.run(device, shards)


class Executable:
    """A partitioned program that can be called.

    Attributes:
        partitioned: The program of one device, and where inputs and results are.
        check: What is compared with the whole program: "outputs", "unsharded" or None.
        verdict: Outcome of the comparison after the last call; None without one.
    """

    def __init__(
        self,
        module: Operation,
        *,
        passes: str = DEFAULT_PIPELINE,
        check: Check | None = None,
        custom_calls: Mapping[str, CustomCall] | None = None,
    ) -> None:
        if check not in _CHECKS:
            raise ExecutionError(
                f"check must be None, 'outputs' or 'unsharded', but is {shown(check)}"
            )
        self.check = check
        self.verdict: Verdict | None = None
        probed = check == "unsharded"
        self.partitioned: Partitioned = partition(check_module(module), passes, probed=probed)
        self._work = _Work(
            self.partitioned.local,
            self.partitioned.inputs,
            str(main_function(self.partitioned.local).symbol_name),
            {**registered_calls(module), **(custom_calls or {})},
        )

    @property
    def n_devices(self) -> int:
        """Number of devices, and so of PEs, that the program runs on."""
        return self.partitioned.n_devices

    def __call__(self, *inputs: Array, options: LaunchOptions | None = None) -> list[Array]:
        """Run the program.

        Called by a process that is no PE, it launches as many PEs as the program has devices; called by
        every PE of a world of that size, it runs there, and each gets the whole results.

        Args:
            *inputs: One array per parameter of ``main``, of its global shape and of its dtype.
            options: Settings of the launch. Default: those of ``emu.LaunchOptions()``.

        Returns:
            The results, of their global shapes.

        Raises:
            ExecutionError: An argument does not fit; nothing was started.
            MismatchError: The partitioned program computes something else than the whole one.
            EvaluationError: An operation cannot be evaluated.
            ExceptionGroup: As of ``emu.launch``.
        """
        wholes = self._checked(inputs)
        if current() is not None:
            return self._in_world(wholes)
        if self.n_devices == 1:
            per_device = [self._work.run(SingleDevice(), wholes)]
        else:
            per_device = launch(
                _run_on_pe, self.n_devices, args=(self._work, wholes), options=options
            )
        results = self._assembled([found for found, _ in per_device])
        if self.check is not None:
            self._compare(wholes, results, [values for _, values in per_device])
        return results

    def _checked(self, inputs: Sequence[Array]) -> list[Array]:
        placements = self.partitioned.inputs
        if len(inputs) != len(placements):
            raise ExecutionError(
                f"the program takes {len(placements)} inputs, but got {len(inputs)}"
            )
        found = []
        for index, (value, placement) in enumerate(zip(inputs, placements, strict=True)):
            array = np.asarray(value)
            dtype = dtype_of(placement.type.element)
            if array.shape != placement.type.shape or array.dtype != dtype:
                raise ExecutionError(
                    f"input {index} must be {placement.type}, but is {array.dtype}{list(array.shape)}"
                )
            found.append(array)
        return found

    def _assembled(self, per_device: Sequence[Sequence[Array]]) -> list[Array]:
        devices = range(len(per_device))
        return [
            placement.assemble([found[index] for found in per_device], devices)
            for index, placement in enumerate(self.partitioned.results)
        ]

    def _in_world(self, wholes: Sequence[Array]) -> list[Array]:
        world = current()
        assert world is not None
        if world.n_pes != self.n_devices:
            raise ExecutionError(
                f"the program runs on {self.n_devices} PEs, but this world has {world.n_pes}"
            )
        if self.check is not None:
            raise ExecutionError("check must be None inside of a world: call from a single process")
        found, _ = _run_on_pe(self._work, wholes)
        device = WorldDevice(world, 1, world.n_pes)
        everyone = range(world.n_pes)
        return [
            placement.assemble(device.gather(x, everyone), everyone)
            for placement, x in zip(self.partitioned.results, found, strict=True)
        ]

    def _compare(
        self, wholes: Sequence[Array], results: Sequence[Array], per_device: Sequence[Values]
    ) -> None:
        """Run the whole program, and raise an error where the partitioned one differs."""
        whole = self.partitioned.whole
        recorder = Recorder(whole) if self.check == "unsharded" else None
        expected = evaluate(
            whole,
            *wholes,
            function=str(main_function(whole).symbol_name),
            custom_calls=self._work.custom_calls,
            observer=recorder,
        )
        verdict = compare_results(self.partitioned, expected, results)
        if recorder is not None:
            values = compare_values(self.partitioned, recorder, per_device)
            # The results tell only that something is wrong, where no operation was found to be.
            findings = values.findings or verdict.findings
            largest = max(values.largest_error, verdict.largest_error)
            verdict = Verdict(findings, values.compared + verdict.compared, largest)
        self.verdict = verdict
        if verdict.findings:
            raise MismatchError(str(verdict.findings[0]), verdict.findings)


def compile(
    module: Operation,
    *,
    passes: str = DEFAULT_PIPELINE,
    check: Check | None = None,
    custom_calls: Mapping[str, CustomCall] | None = None,
) -> Executable:
    """Partition a module, and return what runs it.

    Args:
        module: A module of ``emu.sdy.parse`` or ``emu.sdy.from_jax``; it is left as it is.
        passes: Pipeline that makes the program of one device. Default: "emu-partition-pipeline".
        check: "outputs" runs the program without shardings too at each call, and compares the
            results; "unsharded" compares what every operation computes, and names the first that
            differs. Default: neither.
        custom_calls: Functions ``(operation, *arrays) -> arrays`` by the name of the custom call's
            target. Default: none.

    Returns:
        The program; call it with the inputs.

    Raises:
        ArgumentError: ``module`` is no module.
        ExecutionError: The module has no ``main``, or types that are not static tensors.
        PassFailed: A pass failed.
    """
    return Executable(module, passes=passes, check=check, custom_calls=custom_calls)


def execute(
    module: Operation,
    *inputs: Array,
    passes: str = DEFAULT_PIPELINE,
    check: Check | None = None,
    custom_calls: Mapping[str, CustomCall] | None = None,
    options: LaunchOptions | None = None,
) -> list[Array]:
    """Run a module once: ``compile`` and a call, whose arguments these are."""
    program = compile(module, passes=passes, check=check, custom_calls=custom_calls)
    return program(*inputs, options=options)

"""Programs that run on PEs, once or many times."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload
from weakref import WeakKeyDictionary

import numpy as np

from emu.comm.process.launch_options import MPI, LaunchOptions
from emu.comm.world.current import current
from emu.kernels.core.messages import shown
from emu.mlir.arguments import check_flag, check_module
from emu.mlir.attributes import IntegerAttr
from emu.mlir.ir import Operation
from emu.sdy.execution.arguments import (
    Input,
    check_choice,
    check_count,
    check_custom_calls,
    check_donated,
    check_donations,
    check_inputs,
    with_mesh,
)
from emu.sdy.execution.arrays import DeviceArray, PerDevice
from emu.sdy.execution.device import WorldDevice
from emu.sdy.execution.errors import ExecutionError, MismatchError
from emu.sdy.execution.local_program import PATHS, BoundLocalProgram, Path
from emu.sdy.execution.memory import Buffer, array_nbytes, copy_all
from emu.sdy.execution.preparation import prepare
from emu.sdy.execution.program import (
    DEFAULT_PIPELINE,
    has_dynamic_inputs,
    main_function,
    n_devices,
)
from emu.sdy.execution.resident import ResidentPEs
from emu.sdy.execution.shards import Placement, box, is_same_place
from emu.sdy.execution.trace import Values
from emu.stablehlo.reference.custom_calls import registered_calls
from emu.stablehlo.reference.devices import SingleDevice
from emu.stablehlo.reference.scope import CustomCall
from emu.stablehlo.reference.values import Array

if TYPE_CHECKING:
    from emu.comm.world.world import World
    from emu.sdy.execution.comparison import Verdict
    from emu.sdy.execution.symbolic import Specializations

Check = Literal["outputs", "unsharded"]
CHECKS = (None, "outputs", "unsharded")
_OF_THIS_PROCESS = ("_alone", "_in_worlds", "_resident", "_lock", "_owner")


class Executable:
    """A partitioned program that can be called.

    Its PEs start at the first call and stay for the calls that follow. They end with :meth:`close`, at the
    end of a ``with`` block, when the program is collected as garbage, at the end of this process, and
    when a call fails: the next call then starts others.

    Attributes:
        partitioned: The program of one device, and where inputs and results are; of a program of
            dynamic shapes, those of the last call.
        check: What is compared with the whole program: "outputs", "unsharded" or None.
        path: "compiled" or "reference".
        donated: Numbers of the donated inputs.
        n_replicas: Number of replicas.
        verdict: Outcome of the comparison after the last call; None without one.
    """

    def __init__(
        self,
        module: Operation,
        *,
        passes: str = DEFAULT_PIPELINE,
        check: Check | None = None,
        custom_calls: Mapping[str, CustomCall] | None = None,
        mesh: Mapping[str, int] | str | None = None,
        n_pes: int | None = None,
        replicas: int | None = None,
        donate: Sequence[int] = (),
        path: Path = "compiled",
    ) -> None:
        check_choice("check", check, CHECKS)
        check_choice("path", path, PATHS)
        module = check_module(module)
        if mesh is not None:
            module = with_mesh(module, mesh)
        self.check = check
        self.path = path
        self.verdict: Verdict | None = None
        self.donated = check_donated(module, main_function(module), donate)
        self.n_replicas = _replicas(module, replicas)
        if check is not None and self.n_replicas > 1:
            raise ExecutionError("check must be None for a program of several replicas")
        self._n_partitions = n_devices(module)
        self._symbolic: Specializations[Executable] | None = None
        if has_dynamic_inputs(module):
            from emu.sdy.execution.symbolic import Specializations  # loads every pass

            self._symbolic = Specializations(module)
            self._options: dict[str, Any] = {
                "passes": passes,
                "check": check,
                "custom_calls": custom_calls,
                "n_pes": n_pes,
                "replicas": replicas,
                "donate": donate,
                "path": path,
            }
            check_custom_calls(custom_calls)
            self._begin()
            return
        self._calls = {**registered_calls(module), **check_custom_calls(custom_calls)}
        probed = check == "unsharded"
        found = prepare(module, passes, probed=probed, path=path, donated=self.donated)
        self.partitioned = found.partitioned
        self._program = replace(found.local, custom_calls=self._calls)
        if n_pes is not None and check_count("n_pes", n_pes) != self.n_devices:
            raise ExecutionError(
                f"n_pes must be the number of devices of the program, {self.n_devices}, but is {n_pes}"
            )
        self._begin()

    @property
    def n_devices(self) -> int:
        """Number of devices, and so of PEs, that the program runs on."""
        return self._n_partitions * self.n_replicas

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: it has PEs of its own, or is one."""
        return {name: x for name, x in vars(self).items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def _begin(self) -> None:
        self._alone: BoundLocalProgram | None = None
        self._in_worlds: WeakKeyDictionary[World, BoundLocalProgram] = WeakKeyDictionary()
        self._resident: ResidentPEs | None = None
        self._lock = threading.RLock()
        self._owner = os.getpid()

    def _check_owner(self) -> None:
        """Begin anew in a copy of the process made by a fork: the PEs are those of the original."""
        if os.getpid() != self._owner:
            self._begin()

    def __getattr__(self, name: str) -> Any:
        if name == "partitioned":
            raise AttributeError("a program of dynamic shapes is partitioned at its first call")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def close(self) -> None:
        """End the PEs; the next call starts others. A call that goes on in another thread ends first."""
        self._check_owner()
        with self._lock:
            resident, self._resident = self._resident, None
            if resident is not None:
                resident.close()
            if self._symbolic is not None:
                self._symbolic.close()

    # --- calls -----------------------------------------------------------------------------

    @overload
    def __call__(
        self, *inputs: Any, options: LaunchOptions | None = None, gather: Literal[True] = True
    ) -> list[Array]: ...

    @overload
    def __call__(
        self, *inputs: Any, options: LaunchOptions | None = None, gather: Literal[False]
    ) -> list[DeviceArray]: ...

    def __call__(
        self, *inputs: Any, options: LaunchOptions | None = None, gather: bool = True
    ) -> list[Array] | list[DeviceArray]:
        """Run the program.

        Called by a process that is no PE, it runs on as many PEs as the program has devices; called by
        every PE of a world of that size, it runs there, and each gets the whole results.

        Args:
            *inputs: One per parameter of ``main``: an array (NumPy's, or any with ``__array__`` or
                DLPack's methods) of its global shape and of its dtype, which is sharded; an
                ``emu.sdy.PerDevice``, or a list of arrays, with the shard of each device; a result of
                an earlier call with ``gather=False``; or a number for a scalar.
            options: Settings of the launch; others than those of the running PEs start new ones. Default:
                those of the running PEs, or of ``emu.LaunchOptions()``.
            gather: Whether to bring the results to this process. False leaves each shard on its PE: the
                results are handles, which the next call takes as they are. Default: True.

        Returns:
            The results, of their global shapes; those of the first replica.

        Raises:
            ExecutionError: An argument does not fit; nothing was started.
            MismatchError: The partitioned program computes something else than the whole one.
            EvaluationError: An operation cannot be evaluated.
            ExceptionGroup: As of ``emu.launch``.
        """
        check_flag("gather", gather)
        if options is not None and not isinstance(options, LaunchOptions):
            raise ExecutionError(
                f"options must be an emu.LaunchOptions or None, but is {shown(options)}"
            )
        if self._symbolic is not None:
            return self._call_specialized(self._symbolic, inputs, options, gather)
        given = check_inputs(inputs, self.partitioned.inputs, self.n_devices)
        if not gather and self.check is not None:
            raise ExecutionError("gather must be True for a program that is checked")
        over_hosts = options is not None and options.transport == MPI
        if not gather and over_hosts:
            raise ExecutionError("gather must be True with transport='mpi': PEs end with the call")
        here = current()
        if here is not None:
            if not gather:
                raise ExecutionError("gather must be True inside of a world")
            return self._in_world(here, given)
        check_donations(given, self.donated)
        self._check_owner()
        try:
            with self._lock:
                if self.n_devices == 1:
                    values, found = self._in_process(given)
                elif options is not None and over_hosts:
                    values, found = self._over_hosts(given, options)
                else:
                    values, found = self._on_pes(given, options)
        finally:  # a call that has failed may have overwritten them, too
            for index in self.donated:
                donated = given[index]
                if isinstance(donated, DeviceArray):
                    donated.donate()
        if not gather:
            return found
        results = self._gathered(found)
        if self.check is not None:
            self._compare([_whole(p, x) for p, x in self._placed(given)], results, values)
        return results

    def _call_specialized(
        self,
        symbolic: Specializations[Executable],
        inputs: Sequence[Any],
        options: LaunchOptions | None,
        gather: bool,
    ) -> list[Array] | list[DeviceArray]:
        """Call the program for the inputs' shapes."""
        with self._lock:
            program = symbolic.program(inputs, lambda m: Executable(m, **self._options))
        self.partitioned = program.partitioned
        try:
            if gather:
                return program(*inputs, options=options)
            return program(*inputs, options=options, gather=False)
        finally:
            self.verdict = program.verdict

    def _placed(self, given: Sequence[Input]) -> list[tuple[Placement, Input]]:
        return list(zip(self.partitioned.inputs, given, strict=True))

    def _partition(self, device: int) -> int:
        """Return which shard a device has: all replicas have the same."""
        return device % self.partitioned.n_devices

    def _in_process(self, given: Sequence[Input]) -> tuple[list[Values], list[DeviceArray]]:
        """Run a program of one device."""
        if self._alone is None:
            self._alone = self._program.bind(SingleDevice())
        inputs = [self._shard(p, x, 0) for p, x in self._placed(given)]
        for index in self.donated:  # the program may overwrite it, but not what is the caller's
            if not isinstance(given[index], DeviceArray):
                inputs[index] = np.array(inputs[index])
        outputs = self._alone.new_outputs()
        values = self._alone(inputs, outputs)
        pairs = zip(self.partitioned.results, outputs, strict=True)
        return [values], [DeviceArray(placement, [x]) for placement, x in pairs]

    def _over_hosts(
        self, given: Sequence[Input], options: LaunchOptions
    ) -> tuple[list[Values], list[DeviceArray]]:
        """Run a program on PEs of several hosts."""
        from emu.sdy.execution.over_hosts import run_over_hosts

        devices = range(self.n_devices)
        shards = [
            [np.array(self._shard(p, x, device), order="C") for p, x in self._placed(given)]
            for device in devices
        ]
        values, outputs = run_over_hosts(self._program, self.n_replicas, shards, options)
        return values, [
            DeviceArray(placement, [outputs[device][number] for device in devices])
            for number, placement in enumerate(self.partitioned.results)
        ]

    def _shard(self, placement: Placement, value: Input, device: int) -> Array:
        if isinstance(value, DeviceArray) and not is_same_place(value.placement, placement):
            value = value.numpy()  # of another program
        if isinstance(value, np.ndarray):
            return placement.shard(value, self._partition(device), copy=False)
        parts = value.shards if isinstance(value, PerDevice) else value.parts
        return parts[device]

    # --- PEs that stay ---------------------------------------------------------------------

    def _on_pes(
        self, given: Sequence[Input], options: LaunchOptions | None
    ) -> tuple[list[Values], list[DeviceArray]]:
        resident = self._started(options)
        try:
            inputs = self._stored(resident, given)
            forms = self._program.results
            outputs = self._outputs(resident, [buffer for buffer, _ in inputs])
            values = resident.run(inputs, outputs)
        except BaseException:
            if not resident.session.is_open:
                self._resident = None
            raise
        devices = range(self.n_devices)
        found = [
            DeviceArray(placement, [buffer.on(pe, *form) for pe in devices], buffer)
            for placement, buffer, form in zip(
                self.partitioned.results, outputs, forms, strict=True
            )
        ]
        return values, found

    def _started(self, options: LaunchOptions | None) -> ResidentPEs:
        there = self._resident
        if there is not None and there.session.is_open and options in (None, there.options):
            return there
        self.close()
        chosen = LaunchOptions() if options is None else options
        self._resident = ResidentPEs(self._program, self.n_devices, self.n_replicas, chosen)
        return self._resident

    def _stored(
        self, resident: ResidentPEs, given: Sequence[Input]
    ) -> list[tuple[Buffer, tuple[int, ...] | None]]:
        """Bring the inputs to the PEs; return where they are."""
        memory = resident.memory
        there = [
            x.buffer
            if isinstance(x, DeviceArray) and x.buffer is not None and x.buffer.memory is memory
            and is_same_place(x.placement, p)
            else None
            for p, x in self._placed(given)
        ]  # fmt: skip
        forms = self._program.inputs
        sizes = [
            array_nbytes(*form) for form, known in zip(forms, there, strict=True) if known is None
        ]
        fresh = iter(memory.take(sizes))
        found: list[tuple[Buffer, tuple[int, ...] | None]] = []
        copies: list[tuple[Array, Array]] = []
        for index, (placement, value) in enumerate(self._placed(given)):
            known = there[index]
            if known is not None:
                found.append((known, None))
                continue
            buffer, owners = next(fresh), self._owners(index, placement, value)
            for pe in sorted(set(owners)):
                target = buffer.on(pe, *forms[index])
                copies += self._copies(placement, value, pe, target)
            found.append((buffer, owners))
        copy_all(copies)
        return found

    def _outputs(self, resident: ResidentPEs, inputs: Sequence[Buffer]) -> list[Buffer]:
        """Return memory for the results: that of a donated input for what is made there."""
        found: dict[int, Buffer] = {}
        taken: set[int] = set()
        for result, index in self._program.made_in_inputs.items():
            if index not in taken:  # of two results in one input the second is a copy
                taken.add(index)
                found[result] = inputs[index]
        forms = self._program.results
        missing = [number for number in range(len(forms)) if number not in found]
        fresh = resident.memory.take([array_nbytes(*forms[number]) for number in missing])
        found.update(zip(missing, fresh, strict=True))
        return [found[number] for number in range(len(forms))]

    def _owners(self, index: int, placement: Placement, value: Input) -> tuple[int, ...]:
        """Return which PE's memory each PE reads an input from: equal shards are stored once."""
        devices = range(self.n_devices)
        if not isinstance(value, np.ndarray) or index in self.donated:
            return tuple(devices)
        first: dict[tuple[int, ...], int] = {}
        return tuple(first.setdefault(placement.starts(self._partition(d)), d) for d in devices)

    def _copies(
        self, placement: Placement, value: Input, pe: int, target: Array
    ) -> list[tuple[Array, Array]]:
        """Return what to copy (target, source) for a shard; clear what reaches beyond the tensor."""
        if isinstance(value, DeviceArray) and not is_same_place(value.placement, placement):
            value = value.numpy()
        if not isinstance(value, np.ndarray):
            return [(target, self._shard(placement, value, pe))]
        part = placement.part(value, self._partition(pe))
        if part.shape != target.shape:
            target[...] = np.zeros((), target.dtype)
        return [(box(target, (0,) * part.ndim, part.shape), part)]

    # --- results ---------------------------------------------------------------------------

    def _gathered(self, found: Sequence[DeviceArray]) -> list[Array]:
        if self.n_devices == 1:
            return [each.parts[0] for each in found]
        wholes, copies = [], []
        for each in found:
            whole = np.empty(each.shape, each.dtype)
            seen = set()
            for device in range(self.partitioned.n_devices):
                starts = each.placement.starts(device)
                # The first device that holds a part decides where several hold it.
                if starts not in seen:
                    seen.add(starts)
                    target = each.placement.part(whole, device)
                    copies.append(
                        (target, box(each.parts[device], (0,) * target.ndim, target.shape))
                    )
            wholes.append(whole)
        copy_all(copies)
        return wholes

    def _in_world(self, here: World, given: Sequence[Input]) -> list[Array]:
        """Run the program as one of the PEs of a world."""
        if here.n_pes != self.n_devices:
            raise ExecutionError(
                f"the program runs on {self.n_devices} PEs, but this world has {here.n_pes}"
            )
        if self.check is not None:
            raise ExecutionError("check must be None inside of a world: call from a single process")
        device = WorldDevice(here, self.n_replicas, self.partitioned.n_devices)
        bound = self._in_worlds.get(here)
        if bound is None:
            bound = self._in_worlds[here] = self._program.bind(device)
        inputs = [
            np.array(self._shard(p, x, here.my_pe), order="C") for p, x in self._placed(given)
        ]
        outputs = bound.new_outputs()
        bound(inputs, outputs)
        devices = range(self.partitioned.n_devices)
        return [
            placement.assemble(device.gather(x, range(here.n_pes))[: len(devices)], devices)
            for placement, x in zip(self.partitioned.results, outputs, strict=True)
        ]

    def _compare(
        self, wholes: Sequence[Array], results: Sequence[Array], per_device: Sequence[Values]
    ) -> None:
        """Run the whole program, and raise an error where the partitioned one differs."""
        from emu.sdy.execution.comparison import compare

        verdict = compare(
            self.partitioned, self.check == "unsharded", wholes, results, per_device, self._calls
        )
        self.verdict = verdict
        if verdict.findings:
            raise MismatchError(str(verdict.findings[0]), verdict.findings)


def _is_pass(value: object) -> bool:
    """Return whether a value is a pass; where passes were never imported there is none."""
    passes = sys.modules.get("emu.sdy.passes.base")
    return passes is not None and isinstance(value, passes.Pass)


def _whole(placement: Placement, value: Input) -> Array:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, PerDevice):
        return placement.assemble(value.shards, range(len(value.shards)))
    return value.numpy()


def _replicas(module: Operation, replicas: int | None) -> int:
    if replicas is not None:
        return check_count("replicas", replicas)
    found = module.attributes.get("mhlo.num_replicas")
    return found.value if isinstance(found, IntegerAttr) and found.value > 0 else 1


def compile(
    module: Operation,
    *,
    passes: str = DEFAULT_PIPELINE,
    check: Check | None = None,
    custom_calls: Mapping[str, CustomCall] | None = None,
    mesh: Mapping[str, int] | str | None = None,
    n_pes: int | None = None,
    replicas: int | None = None,
    donate: Sequence[int] = (),
    path: Path = "compiled",
) -> Executable:
    """Partition a module, compile it, and return what runs it.

    Where ``main`` takes tensors of dynamic shapes, as ``jax.export`` writes them for symbolic ones, a call makes
    the program of its inputs' shapes; the programs of the last eight sets of shapes are kept.

    Args:
        module: A module of ``emu.sdy.parse`` or ``emu.sdy.from_jax``; it is left as it is.
        passes: Pipeline that makes the program of one device. Default: "emu-partition-pipeline".
        check: "outputs" runs the program without shardings too at each call, and compares the
            results; "unsharded" compares what every operation computes, and names the first that
            differs. Default: neither.
        custom_calls: Functions ``(operation, *arrays) -> arrays`` by the name of the custom call's
            target. Default: none.
        mesh: Axes and sizes, ``{"x": 2, "y": 4}`` or ``"x=2,y=4"``, in the place of the module's
            only mesh, whose axes it must have, or as ``@mesh`` of a module that has none. Default: the
            module's.
        n_pes: Number of PEs, which must be that of the devices: for programs that want to be sure.
            Default: as many.
        replicas: Number of replicas, each of which runs on all devices of the mesh. They get the
            same inputs, but for those given per device. Default: the module's ``mhlo.num_replicas``, or 1.
        donate: Numbers of inputs whose memory a call may use for other values, beside those that the
            attributes ``jax.buffer_donor`` and ``tf.aliasing_output`` name. A handle given for one has no
            value afterwards; other arrays are copied. Default: none.
        path: "compiled" compiles the program; "reference" computes operation by operation in NumPy:
            slow, and what defines the meaning. Default: "compiled".

    Returns:
        The program; call it with the inputs.

    Raises:
        ArgumentError: ``module`` is no module.
        ExecutionError: An argument is wrong, or the module has no ``main``, or types that are not
            static tensors.
        PassFailed: A pass failed.
    """
    return Executable(
        module,
        passes=passes,
        check=check,
        custom_calls=custom_calls,
        mesh=mesh,
        n_pes=n_pes,
        replicas=replicas,
        donate=donate,
        path=path,
    )


def run(
    module: Operation,
    *inputs: Any,
    passes: str = DEFAULT_PIPELINE,
    check: Check | None = None,
    custom_calls: Mapping[str, CustomCall] | None = None,
    mesh: Mapping[str, int] | str | None = None,
    n_pes: int | None = None,
    replicas: int | None = None,
    path: Path = "compiled",
    options: LaunchOptions | None = None,
) -> list[Array]:
    """Run a module once: ``compile`` and a call, whose arguments these are."""
    if any(isinstance(each, str) or _is_pass(each) for each in inputs):
        raise ExecutionError(
            "run takes the program's inputs, but got passes: run_passes(module, passes) runs those"
        )
    with compile(
        module,
        passes=passes,
        check=check,
        custom_calls=custom_calls,
        mesh=mesh,
        n_pes=n_pes,
        replicas=replicas,
        path=path,
    ) as program:
        return program(*inputs, options=options)

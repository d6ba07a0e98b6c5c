"""Steps of :func:`emu.accelerator.install` and of its undoing; :mod:`.patches` lists the changes to torch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.utils.backend_registration import (
    generate_methods_for_privateuse1_backend,
    rename_privateuse1_backend,
)

from emu.accelerator import (
    autocast,
    autocast_fp32,
    batch_norm,
    compilers,
    cuda_dtypes,
    cuda_python,
    custom_operators,
    device_tags,
    distributed,
    division,
    dlpack,
    draws,
    dtensor,
    flash_attention,
    foreign_arrays,
    generator,
    handlers,
    iris,
    legacy_types,
    modules,
    narrow_floats,
    patches,
    poison,
    products,
    profiling,
    red_zones,
    serialization,
    storages,
    test_cases,
    torch_streams,
    tracing,
    wrappers,
)
from emu.accelerator.annotations import Tensor
from emu.accelerator.mode import adopt, calling_back, enter, leave, on_stack
from emu.accelerator.nvshmem import alias as nvshmem
from emu.accelerator.patches import record, replace
from emu.accelerator.state import begin_pass, end_pass
from emu.comm.world import recording
from emu.comm.world.listened_heaps import find_heaps
from emu.kernels.core import environment
from emu.tile.counting.state import Counting

if TYPE_CHECKING:
    from torch.autograd.graph import GradientEdge

Hook: TypeAlias = Callable[[Any], Any]
"""Function from a tensor that autograd saves to what it keeps, or back."""


def set_up() -> None:
    """Register or replace the parts of torch that a mode cannot see, and enter the mode.

    The order matters in two places: torch makes ``Tensor.npu`` only once ``torch.npu`` is registered, and
    the mode is entered last, since from then on it handles our own calls into torch too.
    """
    if torch._C._get_privateuse1_backend_name() != "npu":  # a name for good: torch sets it once
        rename_privateuse1_backend("npu")
    generator.begin()
    modules.install()
    _generate_npu_methods()
    handlers.provide_npu()
    serialization.install()
    generator.install()
    draws.install()
    torch_streams.install()
    autocast.install()
    batch_norm.install()
    products.install()
    narrow_floats.install()
    custom_operators.install()
    flash_attention.install()
    dlpack.install()
    foreign_arrays.install()
    profiling.install()
    legacy_types.install()
    test_cases.install()
    storages.install()
    red_zones.install()
    poison.install()
    tracing.install()
    autocast_fp32.install()
    division.install()
    cuda_dtypes.install()
    dtensor.install()
    iris.install()
    cuda_python.install()
    nvshmem.install()
    wrappers.install(device_tags.resolve, device_tags.set_tag)
    _cover_backward()
    _cover_saved_tensors()
    compilers.disable()
    _cover_threads()
    enter()
    distributed.register()
    if find_heaps() is not None:
        from emu.accelerator import heap_operators

        heap_operators.start()
    if environment.checks_streams():
        from emu.accelerator import stream_check

        stream_check.start()
    _cover_counting()
    if recording.active is not None:
        from emu.accelerator import recorded

        recorded.start()


def tear_down() -> None:
    """Leave the mode in this thread and undo the changes, the last first.

    Raises:
        RuntimeError: Another mode was entered after ours; nothing was undone.
    """
    checked = sys.modules.get("emu.accelerator.stream_check")
    if checked is not None:
        checked.stop()
    told = sys.modules.get("emu.accelerator.heap_operators")
    if told is not None:
        told.stop()
    leave()
    _end_counting()
    patches.undo_all()


def _cover_counting() -> None:
    """Count operators while somebody wants to know; the module is loaded then."""
    Counting.operator_switches.append(_switch_counting)
    if Counting.sink is not None and Counting.operators:
        _switch_counting(True)


def _switch_counting(begins: bool) -> None:
    if begins or "emu.accelerator.counted" in sys.modules:
        from emu.accelerator import counted

        counted.switch(begins)


def _end_counting() -> None:
    _switch_counting(False)
    Counting.operator_switches.remove(_switch_counting)


def _generate_npu_methods() -> None:
    """Let torch generate ``npu()`` and ``is_npu`` of tensors, modules and storages."""
    owners = (
        torch.Tensor,
        torch.nn.Module,
        torch.storage._StorageBase,
        torch.TypedStorage,
        torch.nn.utils.rnn.PackedSequence,
    )
    generate_methods_for_privateuse1_backend()
    for owner in owners:
        for name in ("npu", "is_npu"):
            if name in vars(owner):
                record(
                    f"{owner.__module__}.{owner.__name__}.{name}",
                    "torch generates it for a registered device",
                    partial(delattr, owner, name),
                )


def _cover_backward() -> None:
    """Run the hooks and Python functions that a backward pass calls inside the mode.

    ``Tensor.backward`` is itself a call that the mode handles, and a mode is off meanwhile. The device of
    the pass is the current one for the called code, as in the threads in which CUDA runs a pass.
    """
    run = torch.autograd.graph._engine_run_backward

    def run_inside(t_outputs: Sequence[Tensor | GradientEdge], *args: Any, **kwargs: Any) -> object:
        tensors = (tensor for tensor in t_outputs if isinstance(tensor, torch.Tensor))
        before = begin_pass(next(map(device_tags.emulated_device, tensors), None))
        try:
            if on_stack():
                return run(t_outputs, *args, **kwargs)
            with calling_back():
                return run(t_outputs, *args, **kwargs)
        finally:
            end_pass(before)

    for owner in (torch.autograd.graph, torch.autograd):
        replace(owner, "_engine_run_backward", run_inside, "a mode is off while it handles a call")


def _cover_saved_tensors() -> None:
    """Run hooks on tensors that autograd saves inside the mode, as checkpoints need.

    They are called in the midst of a call that the mode handles, and a mode is off meanwhile.
    """
    begin = torch.autograd.graph.saved_tensors_hooks.__init__

    def covered(hook: Hook) -> Hook:
        def run(value: object) -> object:
            if on_stack():
                return hook(value)
            if isinstance(value, torch.Tensor):
                adopt(value)
            with calling_back():
                return hook(value)

        return run

    def begin_inside(
        self: torch.autograd.graph.saved_tensors_hooks, pack_hook: Hook, unpack_hook: Hook
    ) -> None:
        begin(self, covered(pack_hook), covered(unpack_hook))

    hooks = torch.autograd.graph.saved_tensors_hooks
    replace(hooks, "__init__", begin_inside, "a mode is off while it handles a call")


def _cover_threads() -> None:
    """Enter the mode in each thread started from now on: a torch function mode belongs to a thread."""
    run = threading.Thread.run

    def run_inside(self: threading.Thread) -> None:
        enter()
        run(self)

    replace(threading.Thread, "run", run_inside, "a mode belongs to a thread")

"""What :func:`emu.accelerator.install` does. The table of what is changed in torch is docs/torch.md."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.backend_registration import (
    generate_methods_for_privateuse1_backend,
    rename_privateuse1_backend,
)


def set_up() -> None:
    """Enter the mode, and register or replace what a mode cannot see."""
    from emu.accelerator import (
        autocast,
        batch_norm,
        custom_operators,
        distributed,
        dlpack,
        generator,
        generic,
        handlers,
        legacy_types,
        marks,
        modules,
        profiling,
        serialization,
        sharded,
        storages,
        tracing,
        wide,
        wrappers,
    )
    from emu.accelerator.mode import enter

    rename_privateuse1_backend("npu")
    modules.install()
    generate_methods_for_privateuse1_backend()
    handlers.provide_npu()
    serialization.install()
    generator.install()
    generic.install()
    autocast.install()
    batch_norm.install()
    custom_operators.install()
    dlpack.install()
    profiling.install()
    legacy_types.install()
    storages.install()
    tracing.install()
    wide.install()
    sharded.install()
    wrappers.install(marks.resolve, marks.put_mark)
    _cover_backward()
    _cover_saved_tensors()
    # A compiled function is no call that a mode sees: what it makes would count as the host's.
    torch.jit._state.disable()
    for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        os.environ.setdefault(name, "1")
    _cover_threads()
    enter()
    distributed.register()


def _cover_backward() -> None:
    """Have hooks and functions in Python that a backward pass calls run inside the mode.

    ``Tensor.backward`` is itself a call that the mode handles, and a mode is off meanwhile. The device of
    the pass is the current one for what it calls, as it is for the thread that CUDA runs a pass in.
    """
    from emu.accelerator.marks import mark_of
    from emu.accelerator.mode import inside, on_stack
    from emu.accelerator.state import begin_pass, end_pass

    run = torch.autograd.graph._engine_run_backward

    def run_inside(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        device = next((mark_of(t) for t in t_outputs if isinstance(t, torch.Tensor)), None)
        before = begin_pass(device)
        try:
            if on_stack():
                return run(t_outputs, *args, **kwargs)
            with inside():
                return run(t_outputs, *args, **kwargs)
        finally:
            end_pass(before)

    torch.autograd.graph._engine_run_backward = run_inside
    torch.autograd._engine_run_backward = run_inside  # type: ignore[attr-defined]


def _cover_saved_tensors() -> None:
    """Have hooks on tensors that autograd saves run inside the mode, as checkpoints need.

    They are called in the midst of a call that the mode handles, and a mode is off meanwhile.
    """
    from emu.accelerator.mode import adopt, inside, on_stack

    begin = torch.autograd.graph.saved_tensors_hooks.__init__

    def covered(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            if on_stack():
                return hook(value)
            if isinstance(value, torch.Tensor):
                adopt(value)
            with inside():
                return hook(value)

        return run

    def begin_inside(self: Any, pack_hook: Any, unpack_hook: Any) -> None:
        begin(self, covered(pack_hook), covered(unpack_hook))

    torch.autograd.graph.saved_tensors_hooks.__init__ = begin_inside  # type: ignore[method-assign]


def _cover_threads() -> None:
    """Have threads started from now on enter the mode: a torch function mode belongs to a thread."""
    from emu.accelerator.mode import enter

    run = threading.Thread.run

    def run_inside(self: threading.Thread) -> None:
        enter()
        run(self)

    threading.Thread.run = run_inside  # type: ignore[method-assign]

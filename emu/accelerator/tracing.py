"""Fake tensors and exported graphs of emulated devices.

A fake tensor on a device that torch was not built for ends the process in autograd. So fake tensors are made
for the CPU and carry a tag, as real ones do. Traced graphs then name the CPU wherever they make tensors; those
nodes get their device back.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch

from emu.accelerator.device_tags import CPU, emulated_device, resolve, set_tag
from emu.accelerator.import_hooks import after_import
from emu.accelerator.mode import on_stack
from emu.accelerator.patches import replace
from emu.accelerator.state import TYPES, state, working_device


def install() -> None:
    """Change fake tensors, tracers and ``torch.export.export`` when a script imports them."""
    after_import("torch._subclasses.fake_tensor", _change_fakes)
    after_import("torch.fx.experimental.proxy_tensor", _change_tracer)
    after_import("torch.export", _change_export)


def _change_fakes(module: ModuleType) -> None:
    make = module.FakeTensor.__new__

    def make_on_cpu(
        cls: type, fake_mode: Any, elem: Any = None, device: Any = None, *args: Any, **kw: Any
    ) -> Any:
        where = None if device is None else resolve(device)
        emulated = where is not None and where.type in TYPES
        with torch._C.DisableTorchFunction():  # the memory is on "meta", whatever its tag says
            made = make(cls, fake_mode, elem, CPU if emulated else where, *args, **kw)
            if emulated:
                set_tag(made, where)
        return made

    reason = "autograd ends the process for a device that torch was not built for"
    replace(module.FakeTensor, "__new__", staticmethod(make_on_cpu), reason)
    place = module.FakeTensor.fake_device

    def place_on_cpu(self: Any, device: Any) -> None:
        emulated = device.type in TYPES
        place.fset(self, CPU if emulated else device)
        if emulated:  # a view of a fake tensor, which torch places once more
            with torch._C.DisableTorchFunction():
                set_tag(self, device)

    replace(module.FakeTensor, "fake_device", property(place.fget, place_on_cpu), reason)
    mode = module.FakeTensorMode
    dispatch = mode.__torch_dispatch__

    def dispatch_without_mode(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = state.fakes_show_devices
        if before is None:
            state.fakes_show_devices = False
        try:
            with torch._C.DisableTorchFunction():
                return dispatch(self, *args, **kwargs)
        finally:
            state.fakes_show_devices = before

    # A call of the program's comes here with the mode off. A backward pass does not, whose hooks the mode must see.
    replace(mode, "__torch_dispatch__", dispatch_without_mode, "fake tensors are made of others")
    own_device = module.FakeTensor.device.fget

    def device(self: Any) -> Any:
        found = own_device(self)
        if found.type != "cpu":
            return found
        shows = state.fakes_show_devices
        return (
            (emulated_device(self) or found) if (on_stack() if shows is None else shows) else found
        )

    replace(module.FakeTensor, "device", property(device), reason)


def _change_tracer(module: ModuleType) -> None:
    tracer = module.PythonKeyTracer
    create = tracer.create_node

    def create_with_device(
        self: Any, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **named: Any
    ) -> Any:
        if kwargs and kwargs.get("device") == CPU and working_device() is not None:
            kwargs = {**kwargs, "device": working_device()}
        return create(self, kind, target, args, kwargs, *rest, **named)

    replace(tracer, "create_node", create_with_device, "traced graphs name the CPU")


def _change_export(module: ModuleType) -> None:
    export = module.export

    @functools.wraps(export)
    def export_with_devices(*args: Any, **kwargs: Any) -> Any:
        program = export(*args, **kwargs)
        for node in program.graph.nodes:
            made = node.meta.get("val")
            if node.kwargs.get("device") is not None and isinstance(made, torch.Tensor):
                tag = emulated_device(made)
                if tag is not None:
                    node.kwargs = {**node.kwargs, "device": tag}
        return program

    replace(module, "export", export_with_devices, "traced graphs name the CPU")

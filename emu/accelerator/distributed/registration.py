"""Registration of the backends with ``torch.distributed``, and the attributes replaced for it.

"hccl" is registered as torch intends (``Backend.register_backend``). Torch knows "nccl" already, as a class
of its CUDA builds. So :func:`register` sets these attributes, once:

=====================================================  ==============================================
``distributed_c10d.ProcessGroupNCCL``, also in         :class:`NcclProcessGroup`: torch's own code for
``torch.distributed``                                  "nccl" then makes our process group
``distributed_c10d._NCCL_AVAILABLE``                   True: ``is_nccl_available()``
``distributed_c10d.default_pg_nccl_timeout``           10 minutes; None in a CPU build, with a warning
``torch.cuda.nccl.version``                            :data:`NCCL_VERSION`; torch puts it into its logs
``torch._C._get_accelerator``                          the device type of the script where torch's own
                                                       raises, as it does once "npu" has its name
``torch.distributed.is_hccl_available``                new: answers True
``init_process_group`` of both modules                 :func:`_init_process_group`: rank, world size and
                                                       store come from the World; all other backends go
                                                       to torch's function as they are
=====================================================  ==============================================
"""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.cuda import nccl
from torch.distributed import distributed_c10d

from emu.accelerator.device_tags import accelerator_type
from emu.accelerator.distributed import at_once, joining, spawned, works, world_groups
from emu.accelerator.distributed.process_group import WorldProcessGroup
from emu.accelerator.distributed.splitting import TIMEOUT, NcclOptions
from emu.accelerator.distributed.store import WorldStore
from emu.accelerator.distributed.symmetric import operators
from emu.accelerator.patches import record, replace
from emu.comm.errors import ArgumentError, CommError
from emu.comm.world.current import own

if TYPE_CHECKING:  # it loads Numba, and a process that is no PE does not need it
    from emu.comm.world.world import World

DEVICES = {"nccl": ["cuda"], "hccl": ["npu"]}
"""Backends and the device types of the tensors that they take."""

NCCL_VERSION = (2, 21, 5)
"""Release of NCCL whose rules apply: scripts may use whatever it has."""

_registered = False


class NcclProcessGroup(WorldProcessGroup):
    """Process group of backend "nccl", made with the arguments of torch's own class."""

    Options = NcclOptions

    def __init__(self, store: Any, rank: int, size: int, options: NcclOptions) -> None:
        group = world_groups.world_group_of(options.group_name, options.global_ranks_in_group)
        super().__init__("nccl", DEVICES["nccl"], group)


def register() -> None:
    """Register the backends; a second call does nothing."""
    global _registered
    if _registered:
        return
    _registered = True
    record("torch.distributed", "backends are registered once", _forget)
    at_once.provide()
    spawned.install()
    operators.install()
    _register_plugin("hccl", DEVICES["hccl"])
    module: Any = distributed_c10d
    replace(module, "_NCCL_AVAILABLE", True, "torch asks whether it was built with NCCL")
    replace(module, "default_pg_nccl_timeout", TIMEOUT, "a build for the CPU has none, and warns")
    replace(nccl, "version", lambda: NCCL_VERSION, "torch puts it into its logs")
    accelerator = _accelerator(torch._C._get_accelerator)
    replace(torch._C, "_get_accelerator", accelerator, "it raises once 'npu' has its name")
    replaced = _replace(module.init_process_group)
    _ignore_barrier_warning()
    for owner in (module, dist):
        replace(owner, "ProcessGroupNCCL", NcclProcessGroup, "torch makes groups of this class")
        replace(owner, "init_process_group", replaced, "the World gives rank, size and store")
        replace(owner, "is_hccl_available", lambda: True, "torch has no such function")


def _forget() -> None:
    global _registered
    _registered = False
    at_once.forget()


def _ignore_barrier_warning() -> None:
    """Silence a warning that a barrier may hang: NCCL's would where torch guesses a wrong device."""
    before = list(warnings.filters)
    warnings.filterwarnings("ignore", r"barrier\(\): using the device under current context")
    added = [entry for entry in warnings.filters if entry not in before]

    def undo() -> None:
        filters: Any = warnings.filters
        for entry in added:
            if entry in filters:
                filters.remove(entry)

    record("warnings.filters", "our barrier needs no device", undo)


def _accelerator(original: Callable[..., torch.device]) -> Callable[..., torch.device]:
    def get_accelerator(*args: Any, **kwargs: Any) -> torch.device:
        try:
            return original(*args, **kwargs)
        except RuntimeError:
            return torch.device(accelerator_type())

    return get_accelerator


def _register_plugin(name: str, devices: list[str]) -> None:
    def create(options: Any, _: Any) -> WorldProcessGroup:
        group = world_groups.world_group_of(options.group_id, options.global_ranks_in_group)
        return WorldProcessGroup(name, devices, group)

    dist.Backend.register_backend(name, create, extended_api=True, devices=devices)


def _replace(original: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        backend = _choose(bound.arguments["backend"], bound.arguments["device_id"])
        if backend is None:
            original(*args, **kwargs)
        else:
            _init_process_group(original, backend, bound)

    return init_process_group


def _init_process_group(
    original: Callable[..., None], backend: str, bound: inspect.BoundArguments
) -> None:
    """Initialise torch with one of our backends: rank and world size are those of the World."""
    given = bound.arguments
    everyone = _launched()
    if everyone is not None:
        _take_ranks(given, everyone)
    device = _device(given["device_id"], backend)
    if dist.is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    if everyone is None:
        everyone = _join(given, backend)
    number = world_groups.new_epoch(everyone)
    if given["store"] is None:
        given["store"] = WorldStore(everyone, number)
    # Torch would bind the device through CUDA; it is set below, once the group is there.
    given.update(backend=backend, init_method=None, device_id=None)
    everyone.on_finish(works.flush_collectives)
    original(*bound.args, **bound.kwargs)
    if device is not None:
        dist.distributed_c10d._get_default_group().bound_device_id = device


def _choose(backend: Any, device_id: Any) -> str | None:
    """Return the backend to use if it is one of ours, else None.

    Without a backend it is the one of ``device_id``; without that too "hccl" in a script that has
    loaded torch_npu, else "nccl".

    Raises:
        ArgumentError: A list of backends that has one of ours for another device.
    """
    if backend is None:
        if isinstance(device_id, torch.device):
            return {"cuda": "nccl", "npu": "hccl"}.get(device_id.type)
        return "hccl" if accelerator_type() == "npu" else "nccl"
    name = str(backend).lower()
    if ":" not in name:
        return name if name in DEVICES else None
    pairs = dict(pair.split(":", 1) for pair in name.split(",") if ":" in pair)
    ours = [device for device, each in pairs.items() if each in DEVICES]
    if not ours:
        return None
    for device, each in pairs.items():
        allowed = DEVICES.get(each, ["cpu"] if each == "gloo" else [])
        if device not in allowed:
            raise ArgumentError(
                "backend must pair cuda with nccl, npu with hccl and cpu with gloo, but got "
                f"{backend!r}"
            )
    if name not in dist.Backend.backend_list:
        _register_plugin(name, list(pairs))
    return name


def _device(device_id: Any, backend: str) -> torch.device | None:
    """Return the device that the process group is bound to, checked."""
    if device_id is None:
        return None
    kinds = list(dist.Backend.backend_capability[backend])
    device = torch.device(kinds[-1], device_id) if isinstance(device_id, int) else device_id
    if device.type not in kinds or device.index is None:
        raise ArgumentError(
            f"device_id must be a device of type {' or '.join(kinds)} with an index for backend "
            f"{backend!r}, but got {device_id}"
        )
    return device


def _launched() -> World | None:
    """Return the World of a process that was started as a PE; None: it is none, or one by :mod:`.joining` only."""
    found = own()
    if found is not None and not joining.is_member(found):
        return found
    return spawned.accept()


def _take_ranks(given: dict[str, Any], everyone: World) -> None:
    """Take rank and world size of a launch."""
    for name, value in (("rank", everyone.my_pe), ("world_size", everyone.n_pes)):
        if given[name] not in (-1, value):
            raise ArgumentError(
                f"{name} must be {value}, as the launch of this PE has it, but got {given[name]}"
            )
        given[name] = value


def _join(given: dict[str, Any], backend: str) -> World:
    """Make this process a PE by a store or an address that it shares with others."""
    says_nothing = given["store"] is None and given["init_method"] is None and given["rank"] == -1
    if says_nothing and "RANK" not in os.environ:
        raise CommError(
            f"init_process_group with backend {backend!r} must be called in a PE, or with what lets processes find "
            "each other (init_method, a store, or RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment), "
            "but this process is none and has none of them: run the script with `emu run -n N script.py`, or start "
            "it with torch.multiprocessing.spawn"
        )
    return joining.join(given, given["timeout"] or TIMEOUT)

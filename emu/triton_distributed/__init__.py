"""Triton-distributed on emulated devices: its kernels and its host layer run as they are, on the World's symmetric heap.

Its language extends a compiler of its own; those modules get the functions of :mod:`emu.triton.language.distributed` and of
:mod:`emu.triton.language.threads`. Its host layer reaches for CUDA's libraries: the module that imports them finds
:mod:`emu.accelerator.cuda_python` there, and ``nvshmem`` is :mod:`emu.accelerator.nvshmem`. All else is its own code.

Internal: names may change in any release.
"""

from __future__ import annotations

import contextlib
import importlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import emu
from emu.accelerator.import_hooks import after_import, while_imported
from emu.accelerator.patches import Ledger

_ledger = Ledger()  # for good, as is the name of triton: its modules are changed once

_UTILS = "triton_dist.utils"
_LANGUAGE = "triton_dist.language"
_COMPILER = "triton._C.libtriton.distributed"
_LINKER = "triton.tools.link"
_KHZ = 1_000_000
"""Rate that devices are said to have: 1 GHz."""

_GB_PER_S = 400
"""Speed that is said of the links between devices; choices between algorithms ask for it."""


def install() -> None:
    """Change the modules of Triton-distributed when they are imported."""
    while_imported(_UTILS, _cuda_is_there, _ledger)
    after_import(_UTILS, _say_cuda, _ledger)
    after_import("triton_dist.nv_utils", _describe_devices, _ledger)
    while_imported("triton_dist.tools.compile_aot", _linker_is_there, _ledger)
    after_import("triton_dist.jit", _compile_as_triton, _ledger)
    for name in ("distributed_ops", "simt_ops"):
        while_imported(f"{_LANGUAGE}.{name}", _compiler_is_there, _ledger)
    after_import("triton_dist.kernels.nvidia.common_ops", _barriers, _ledger)
    for name, change in _LANGUAGES.items():
        after_import(f"{_LANGUAGE}.{name}", change, _ledger)


# ---- the host's side


@contextlib.contextmanager
def _cuda_is_there() -> Iterator[None]:
    """Let a module find the tool that it takes for CUDA, and CUDA's Python bindings."""
    from emu.accelerator.cuda_python import core, driver, runtime

    modules = {name: ModuleType(name) for name in ("cuda", "cuda.core", "cuda.bindings")}
    for child in ("core", "bindings"):
        setattr(modules["cuda"], child, modules[f"cuda.{child}"])
    vars(modules["cuda.core"])["Device"] = core.Device
    vars(modules["cuda.bindings"]).update(driver=driver, runtime=runtime)
    tools: Any = shutil
    find = tools.which

    def which(cmd: str, *args: Any, **options: Any) -> Any:
        return cmd if cmd == "nvidia-smi" else find(cmd, *args, **options)

    with _as_modules(modules):
        tools.which = which
        try:
            yield
        finally:
            tools.which = find


class _Names(ModuleType):
    """Module in which every name is a class: annotations name the compiler's."""

    def __getattr__(self, name: str) -> type:
        return type(name, (), {})


@contextlib.contextmanager
def _compiler_is_there() -> Iterator[None]:
    """Let a module find the compiler's extension, whose classes it names; the functions that use them are replaced."""
    extension = importlib.import_module("triton._C.libtriton")
    module = ModuleType(_COMPILER)
    vars(module)["ir"] = vars(extension)["ir"] = _Names("ir")
    with _as_modules({_COMPILER: module}):
        try:
            yield
        finally:
            del vars(extension)["ir"]


def _linker_is_there() -> contextlib.AbstractContextManager[None]:
    """Let the module that compiles kernels ahead find the linker; what calls it needs CUDA's compiler."""
    return _as_modules({_LINKER: _Names(_LINKER)})


@contextlib.contextmanager
def _as_modules(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _say_cuda(module: ModuleType) -> None:
    """Let the libraries take the emulated devices for CUDA's."""
    reason = "they look for a vendor's tool"
    for vendor in ("cuda", "hip", "maca", "ascend"):
        is_ours = vendor == "cuda"
        _ledger.replace(module, f"is_{vendor}", lambda is_ours=is_ours: is_ours, reason)
    _ledger.replace(module, "get_nvshmem_version", lambda: "emu", "the library has no header here")
    _ledger.replace(
        module, "triton_dist_key", lambda: f"emu {emu.__version__}", "the compiler has no file here"
    )
    _ledger.replace(module, "get_nvshmem_hash", lambda: "emu", "the library has no file here")


def _describe_devices(module: ModuleType) -> None:
    """Say what the management library and the vendor's tool would say."""
    reason = "NVML and nvidia-smi know no emulated device"
    said: dict[str, Callable[..., Any]] = {
        "_get_pynvml_device_id": lambda device_id=None: _index(device_id),
        "get_max_gpu_clock_rate_in_khz": lambda device_id=0: _KHZ,
        "get_current_gpu_clock_rate_in_khz": lambda device_id=None: _KHZ,
        "get_numa_node": lambda gpu_index: 0,
        "get_nvlink_max_speed_gbps": lambda gpu_index=0: _GB_PER_S,
        "get_pcie_link_max_speed_gbps": lambda gpu_index: _GB_PER_S,
        "get_intranode_max_speed_gbps": lambda gpu_index=0, with_scale=False: _GB_PER_S,
        "has_fullmesh_nvlink": lambda: True,
        "get_physical_device_count": lambda: _torch().cuda.device_count(),
        "is_gpu_max_performance_mode": lambda device_id: True,
    }
    for name, function in said.items():
        if hasattr(module, name):
            _ledger.replace(module, name, function, reason)


def _index(device_id: int | None) -> int:
    return int(_torch().cuda.current_device()) if device_id is None else device_id


def _torch() -> Any:
    return sys.modules["torch"]


def _compile_as_triton(module: ModuleType) -> None:
    """Let kernels be Triton's own: no library is linked to them."""
    triton: Any = sys.modules["triton"]
    _ledger.replace(module, "jit", triton.jit, "no library is linked to kernels")
    _ledger.replace(module, "get_shmem_extern_lib", dict, "no library is linked to kernels")
    # Its compiler's language has this name, too, which Triton's has not.
    name = "constexpr_function"
    _ledger.replace(triton.language, name, triton.constexpr_function, "as in its own compiler")


# ---- the kernels' side


def _signals(module: ModuleType) -> None:
    from emu.triton.language import distributed

    for name in ("wait", "consume_token", "rank", "num_ranks", "symm_at", "notify"):
        _ledger.replace(
            module, name, getattr(distributed, name), "the compiler's operations are not ours"
        )


def _calls(module: ModuleType) -> None:
    from emu.triton.language import distributed, external

    reason = "functions of libraries are called by symbol"
    _ledger.replace(module, "extern_call", distributed.extern_call, reason)
    _ledger.replace(module, "extern_elementwise", external.extern_elementwise, reason)


def _regions(module: ModuleType) -> None:
    from emu.triton.language import distributed
    from emu.triton.language.threads import simt_exec_region

    _ledger.replace(module, "simt_exec_region", simt_exec_region, "threads run one after the other")
    for name in ("vector", "vector_type", "make_vector", "fill_vector", "zeros_vector"):
        if hasattr(module, name):
            _ledger.replace(module, name, getattr(distributed, name), "their tensors are not ours")


def _threads(module: ModuleType) -> None:
    """Let functions of single threads be ours, as far as the module has them."""
    from emu.triton.language import distributed, threads
    from emu.triton.language.extra.cuda import utils

    ours: dict[str, Callable[..., Any]] = {
        "tid": threads.thread_index,
        "ntid": threads.threads_of_program,
        "laneid": threads.lane_index,
        "__syncthreads": threads.sync_threads,
        "threads_per_warp": threads.threads_per_warp,
        "num_threads": utils.num_threads,
        "num_warps": utils.num_warps,
        "smid": utils.smid,
        "globaltimer": utils.globaltimer,
        **{name: getattr(distributed, name) for name in _OF_THREADS},
    }
    for name, function in ours.items():
        if hasattr(module, name):
            _ledger.replace(module, name, function, "a program has no threads of its own")


def _barriers(module: ModuleType) -> None:
    from emu.triton_distributed.barriers import barrier_on_this_grid

    reason = "a launch has no memory of its own"
    _ledger.replace(module, "barrier_on_this_grid", barrier_on_this_grid, reason)


_OF_THREADS = (
    *("ld", "st", "atomic_add", "atomic_cas", "red_release"),
    *("ld_vector", "st_vector", "pack", "unpack"),
)

_LANGUAGES: Mapping[str, Callable[[ModuleType], None]] = {
    "core": _calls,
    "distributed_ops": _signals,
    "simt_ops": _regions,
    "extra.language_extra": _threads,
    "extra.cuda.language_extra": _threads,
}

"""Steps of :func:`emu.inductor.install` and of its undoing.

Little has to be changed: Inductor can write Triton for the CPU by itself (``config.cpu_backend``), for a back end
of Triton that is not published in a release. It finds emu's in the place of that one.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from emu.accelerator import compilers
from emu.accelerator.import_hooks import after_import
from emu.accelerator.patches import Ledger
from emu.inductor import configs, devices, late, mutations, symmetric_buffers
from emu.inductor.errors import InductorError
from emu.kernels.core import environment
from emu.triton import alias
from emu.triton.runtime.compiled import CompiledKernel

ledger = Ledger()
"""The changes of :func:`emu.inductor.install`."""

_FEW_CORES = 2
_ON_PATH = str(Path(__file__).with_name("on_path"))


def set_up() -> None:
    """Do the steps.

    Raises:
        InductorError: Inductor has been loaded without Triton or with another one.
    """
    _check_what_is_loaded()
    compilers.allow()
    ledger.record("torch.compile", "it compiles for emulated devices, too", compilers.disallow)
    alias.install()  # before any module of Inductor, some of which look for Triton when they are imported
    _find_in_workers()
    _forget_what_was_asked()
    late.run()
    from torch._inductor import config

    _set(config, "cpu_backend", "triton", "Inductor writes C++ for the CPU otherwise")
    _choose_workers(config)
    _choose_products(config)
    after_import("torch._inductor.codegen.cpu_device_op_overrides", _change_overrides, ledger)
    after_import("torch._dynamo.device_interface", _change_interface, ledger)
    after_import("torch._inductor.graph", _change_graph, ledger)
    after_import("torch._inductor.compile_fx", _change_wrappers, ledger)
    after_import("torch._inductor.kernel.flex.flex_attention", _change_flex_attention, ledger)
    after_import("torch._inductor.runtime.triton_heuristics", _change_launchers, ledger)
    after_import(configs.MODULE, partial(configs.install, ledger), ledger)
    kernels_inside = "torch._higher_order_ops.triton_kernel_wrap"
    after_import(kernels_inside, partial(mutations.install, ledger), ledger)
    devices.install(ledger)
    symmetric_buffers.install(ledger)


def _choose_workers(config: ModuleType) -> None:
    """Compile in this process where the cores are few: workers take longer to start and to end than they save."""
    if (
        environment.usable_cores() <= _FEW_CORES
        and "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ
    ):
        _set(config, "compile_threads", 1, "workers take seconds to start")


_PRODUCTS = "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS"


def _choose_products(config: ModuleType) -> None:
    """Let max-autotune measure products of torch and of Triton only: templates in C++ want a C++ compiler."""
    if _PRODUCTS not in os.environ:
        reason = "the templates in C++ need a C++ compiler"
        _set(config, "max_autotune_gemm_backends", "ATEN,TRITON", reason)


def _set(config: ModuleType, name: str, value: object, reason: str) -> None:
    """Change a setting of Inductor; its module keeps them elsewhere than other modules their attributes."""
    before = getattr(config, name)
    setattr(config, name, value)
    ledger.record(f"{config.__name__}.{name}", reason, partial(setattr, config, name, before))


def tear_down() -> None:
    """Undo the changes."""
    ledger.undo_all()


def _check_what_is_loaded() -> None:
    """Check that Inductor has loaded no other Triton than ours.

    Raises:
        InductorError: It has, or it has noted that there is none.
    """
    loaded = sys.modules.get("torch._inductor.runtime.triton_compat")
    if loaded is None:
        return
    found = getattr(loaded, "triton", None) if loaded.HAS_TRITON else None
    if found is not sys.modules.get("emu.triton"):
        which = "no Triton" if found is None else f"another Triton, {found.__file__}"
        raise InductorError(
            f"emu.inductor.install() must be called before the first torch.compile: Inductor has found {which}"
        )


def _find_in_workers() -> None:
    """Let the processes in which Inductor compiles import emu's Triton: they get this process's path."""
    if _ON_PATH in sys.path:
        return
    sys.path.insert(1, _ON_PATH)  # behind the script's own folder, as Python has it
    ledger.record(
        "sys.path", "Inductor's workers import triton", partial(sys.path.remove, _ON_PATH)
    )


def _forget_what_was_asked() -> None:
    """Let torch look for Triton again, which it does once."""
    from torch.utils import _triton

    for name in (
        "has_triton_package",
        "get_triton_version",
        "has_triton",
        "triton_backend",
        "triton_hash_with_backend",
    ):
        clear = getattr(getattr(_triton, name, None), "cache_clear", None)
        if clear is not None:
            clear()
            ledger.record(f"torch.utils._triton.{name}", "torch asks once for Triton", clear)


def _change_overrides(module: ModuleType) -> None:
    """Let generated code import the function that returns the stream.

    Inductor's text for the CPU defines one, in two lines, under a fixed name. Where it puts the text inside of a
    function, for choices that it measures, that is an IndentationError.
    """

    def import_get_raw_stream_as(self: object, name: str) -> str:
        del self
        return f"from emu.inductor.streams import get_raw_stream as {name}"

    ledger.replace(
        module.CpuDeviceOpOverrides,
        "import_get_raw_stream_as",
        import_get_raw_stream_as,
        "two lines of text cannot be put inside of a function",
    )


def _change_interface(module: ModuleType) -> None:
    """Give the CPU the context in which Inductor measures kernels, and let it synchronize emulated devices."""

    def synchronize(device: Any = None) -> None:
        torch.cuda.synchronize(device)  # as it is now: the devices may be younger than the module

    interface = module.CpuInterface
    ledger.replace(interface, "device", contextlib.nullcontext, "max-autotune enters the device")
    reason = "it keeps the functions of the time of its import"
    ledger.replace(module.CudaInterface, "synchronize", staticmethod(synchronize), reason)


def _change_launchers(module: ModuleType) -> None:
    """Let kernels use as many threads as torch's own do, and as Inductor's C++ would."""
    owner = module.TritonCompileResult
    make = owner.make_launcher

    def make_launcher(self: Any) -> Any:
        kernel = self.kernel
        if isinstance(kernel, CompiledKernel):
            kernel.threads = environment.thread_count() or torch.get_num_threads()
        return make(self)

    ledger.replace(
        owner, "make_launcher", make_launcher, "emu's kernels use all cores by themselves"
    )


def _change_graph(module: ModuleType) -> None:
    """Pass tensors without dimensions to kernels of the CPU as tensors.

    Inductor passes them as numbers, as a GPU cannot read the host's memory. Where such a tensor's memory is used again
    for a result, the kernel it writes takes the pointer for the number, and no Triton can compile that.
    """
    ask = module.GraphLowering.is_unspec_arg

    def is_unspec_arg(self: Any, name: str) -> bool:
        return bool(self.device_types - {"cpu", "meta"}) and ask(self, name)

    reason = "kernels of the CPU read such tensors where they are"
    ledger.replace(module.GraphLowering, "is_unspec_arg", is_unspec_arg, reason)


def _change_wrappers(module: ModuleType) -> None:
    """Write C++ kernels where Inductor writes the code that calls them in C++, too: for AOTInductor and ``cpp_wrapper``.

    It calls Triton's kernels of the CPU by a library that Triton's compiler writes for each of them, and emu's does not.
    """
    compile_inner = module._compile_fx_inner

    def compile_inner_in_cpp(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("cpp_wrapper"):
            return compile_inner(*args, **kwargs)
        with module.config.patch({"cpu_backend": "cpp", "triton.autotune_at_compile_time": False}):
            return compile_inner(*args, **kwargs)

    reason = "its C++ calls kernels of Triton by libraries that emu does not write"
    ledger.replace(module, "_compile_fx_inner", compile_inner_in_cpp, reason)


def _change_flex_attention(module: ModuleType) -> None:
    """Lower flex_attention for the CPU to Triton's template, as for a GPU.

    Inductor chooses its C++ template by the device alone, and the Triton back end cannot render that.
    """
    from torch._inductor import config

    lower_to_cpp = module.lower_cpu

    def lower(query: Any, *args: Any) -> Any:
        if config.cpu_backend != "triton":
            return lower_to_cpp(query, *args)

        def answer_once() -> Any:
            del query.get_device
            return torch.device("meta")

        query.get_device = answer_once  # to the question that led here
        return module.flex_attention(query, *args)

    ledger.replace(module, "lower_cpu", lower, "Inductor chooses its template by the device alone")

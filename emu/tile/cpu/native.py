"""Compilation of LLVM IR to native code in this process, by llvmlite.

Numba itself is not needed here, and not loaded: a kernel of the tile IR is typed already, and is
vectorised by its own compiler, so that what Numba does between Python source and LLVM would only cost
time.
"""

from __future__ import annotations

import enum
import functools
import os
import threading
from dataclasses import dataclass

from llvmlite import binding

from emu.kernels.core import tile_data
from emu.tile.cpu import constant_masks

_lock = threading.Lock()  # LLVM's engine is not made for two threads at once
_next_number = 0

AS_WRITTEN = '"emu-as-written"'
"""Attribute of a function of LLVM IR that no pass is to change: its code is straight, or its loops are as they should run."""


@dataclass(frozen=True)
class Target:
    """The CPU that code is compiled for.

    Attributes:
        cpu: LLVM's name of it.
        features: LLVM's feature string.
    """

    cpu: str
    features: str


@functools.cache
def default_target() -> Target:
    """Return the CPU that code is compiled for: this machine's, or the one that Numba's settings name.

    ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` are read as Numba reads them, so that kernels and
    tile programs are compiled for one CPU: features that are not given are this machine's, whatever
    the name, but for "generic".
    """
    name = os.environ.get("NUMBA_CPU_NAME")
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is None and (name or "").lower() == "generic":
        features = ""
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    return Target(name or binding.get_host_cpu_name(), _usable(features))


def _usable(features: str) -> str:
    """Return features without AMX if the system refuses this process its registers."""
    names = features.split(",")
    if "+amx-tile" not in names or tile_data.is_permitted():
        return features
    return ",".join(name.replace("+", "-") if name.startswith("+amx-") else name for name in names)


def host_is_x86() -> bool:
    """Return whether this machine's CPU is an x86."""
    return binding.get_default_triple().split("-", 1)[0] in ("x86_64", "i686")


def has_feature(name: str) -> bool:
    """Return whether the CPU that code is compiled for has a feature, by LLVM's name of it."""
    return f"+{name}" in _features()


@functools.cache
def _features() -> frozenset[str]:
    return frozenset(default_target().features.split(","))


@functools.cache
def _machine(target: Target) -> binding.TargetMachine:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, jit=True
    )


@functools.cache
def _engine() -> binding.ExecutionEngine:
    return binding.create_mcjit_compiler(binding.parse_assembly(""), _machine(default_target()))


def new_name(prefix: str) -> str:
    """Return a symbol that no other code loaded into this process has."""
    global _next_number
    with _lock:
        _next_number += 1
        return f"{prefix}.{_next_number}"


class Effort(enum.Enum):
    """How much LLVM does for faster code."""

    NONE = enum.auto()
    """For code that must be ready soon and seldom runs."""
    QUICK = enum.auto()
    """Passes that take little time: for kernels whose loops are written as they should run."""
    FULL = enum.auto()


def to_object(text: str, target: Target | None = None, effort: Effort = Effort.FULL) -> bytes:
    """Optimise a module of LLVM IR and compile it to an object file.

    Args:
        text: The module. It says itself which operations may be reassociated or contracted.
        target: Default: that of :func:`default_target`.
        effort: Default: all that LLVM has.

    Returns:
        The object file.
    """
    target = target or default_target()
    with _lock:
        machine = _machine(target)
        if effort is Effort.FULL:
            module = _optimised(text, machine)
        else:
            module = binding.parse_assembly(text)
            module.triple, module.data_layout = machine.triple, str(machine.target_data)
        if effort is Effort.QUICK:
            _simplify(module, machine)
        return bytes(machine.emit_object(_with_hidden_masks(module, target)))


def to_assembly(text: str, target: Target | None = None) -> str:
    """Return the assembly of what :func:`to_object` compiles, for readers."""
    target = target or default_target()
    with _lock:
        machine = _machine(target)
        module = _with_hidden_masks(_optimised(text, machine), target)
        return str(machine.emit_assembly(module))


def _with_hidden_masks(module: binding.ModuleRef, target: Target) -> binding.ModuleRef:
    """Return a module in which LLVM sees no mask that it would compile wrongly."""
    if not host_is_x86() or "+avx512f" in target.features.split(","):
        return module
    text = constant_masks.hide(str(module))
    return module if text is None else binding.parse_assembly(text)


def _optimised(text: str, machine: binding.TargetMachine) -> binding.ModuleRef:
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    # The compiler above chose the vectors; loops that it left scalar are meant to be.
    options.loop_vectorization = options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    before, after = (binding.create_new_module_pass_manager() for _ in range(2))
    # The pipeline of a function, in between, is what takes the time. That of a module would run most of it three
    # times, which gains nothing where loops are written as they should run.
    before.add_always_inliner_pass()
    before.add_global_dead_code_eliminate_pass()
    before.add_post_order_function_attributes_pass()
    each = builder.getFunctionPassManager()
    after.add_loop_unroll_pass()
    after.add_instruction_combine_pass()  # what the copies of a loop's body have in common
    before.run(module, builder)
    for function in module.functions:
        if not function.is_declaration and not _is_left(function):
            each.run(function, builder)
    after.run(module, builder)
    return module


def _is_left(function: binding.ValueRef) -> bool:
    """Return whether a function is to stay as it is; of ``optnone`` the manager of passes would print that it skips it."""
    left = (b"optnone", AS_WRITTEN.encode())
    return any(name in attributes for attributes in function.attributes for name in left)


def _simplify(module: binding.ModuleRef, machine: binding.TargetMachine) -> None:
    """Keep variables in registers, and compute equal values once."""
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.run(
        module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options())
    )


def load(code: bytes, symbol: str) -> int:
    """Load an object file and return the address of one of its functions.

    Code stays loaded for the rest of the process. A symbol that was loaded before keeps its meaning: two
    object files of one process must not define the same (:func:`new_name`), or be the same file.
    """
    with _lock:
        engine = _engine()
        engine.add_object_file(binding.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = int(engine.get_function_address(symbol))
    if not address:
        raise LookupError(f"the object file must define {symbol!r}, but does not")
    return address


_loaded: dict[str, int] = {}
_loading = threading.Lock()


def load_once(code: bytes, symbol: str) -> int:
    """Load as :func:`load` does, unless code was loaded under the symbol before.

    Args:
        code: The object file.
        symbol: A name that identifies the code: equal names mean equal code.
    """
    with _loading:
        address = _loaded.get(symbol)
        if address is None:
            address = _loaded[symbol] = load(code, symbol)
    return address

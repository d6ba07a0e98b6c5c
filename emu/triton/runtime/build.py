"""Building a kernel for one combination of argument types and constants.

The nouns, in the order in which one becomes the next: a :class:`Request` names a function, the types of
its arguments and its constants; its ``module()`` is the tile IR; a backend makes an *executable* of that;
a :class:`Build` is the executable with what a launch must know of it; a
:class:`~emu.triton.runtime.compiled.CompiledKernel` is a build as programs see it, with the options of
one launch. None of them is called a program: ``program_id`` numbers the instances of a kernel in its grid.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emu.comm.world.current import spans_hosts
from emu.tile.ir import Module
from emu.triton import knobs
from emu.triton.knob_values import CompileTimes
from emu.triton.language import target_info
from emu.triton.language.constants import base_type
from emu.triton.language.types import TypeSpelling
from emu.triton.runtime import backends, cache
from emu.triton.runtime.arguments import CONSTANT, Key, constant_key
from emu.triton.runtime.backends import Executable
from emu.triton.runtime.check_modes import COUNT, has_race
from emu.triton.runtime.extensions import (
    _build,
    compile_module_from_file,
    compile_module_from_src,
    compile_so_from_file,
    compile_so_from_src,
    platform_key,
)
from emu.triton.runtime.options import DEFAULT_WARPS
from emu.triton.runtime.stores import exchanges_lanes, stored_arguments
from emu.triton.source import JITCallable

if TYPE_CHECKING:
    from emu.triton.runtime.instrumented import Sites

__all__ = [
    "Build",
    "Request",
    "Texts",
    "_build",
    "build",
    "compile_module_from_file",
    "compile_module_from_src",
    "compile_so_from_file",
    "compile_so_from_src",
    "platform_key",
]


def _bf16_native() -> bool:
    return knobs.language.allow_bf16_native


def _device_target() -> str | None:
    """Return the kind and architecture of the driver's device, by which kernels may choose their code."""
    target = target_info.current_target()
    if target is None or target.backend == "cpu":
        return None
    return f"{target.backend}:{target.arch}"


@dataclass(frozen=True)
class Request:
    """Description of a kernel to build: function, argument types and constants.

    Attributes:
        fn: The kernel.
        signature: The spelling of each parameter's type, in order: ``*fp32``, ``constexpr``, tuples.
        constants: The values of the constants; a tuple's at their places in a tuple.
        debug: Whether assertions are checked.
        backend: Name of the backend, ``"cpu"`` or ``"reference"`` unless others are registered.
        contract: Whether ``a * b + c`` may be rounded once.
        sanitize: Whether, with ``debug``, integers that wrap around are errors.
        check: What the kernel checks as it runs: None, or one of ``check_modes.MODES``.
        input_precision: Default of ``dot`` where operands of fp32 are rounded as a kernel says; None where they
            are not.
        bf16_native: Whether ``dot`` of bf16 takes the CPU's own instruction.
        num_warps: The launch's number of warps.
        target: What ``target_info`` says of a device that is not the CPU: its kind and architecture; None for the CPU.
        over_hosts: Whether PEs are on several hosts: elements of another one's memory are reached by calls then.
    """

    fn: JITCallable
    signature: dict[str, TypeSpelling]
    constants: dict[str, object]
    debug: bool
    backend: str
    contract: bool = False
    check: str | None = None
    input_precision: str | None = None
    sanitize: bool = True
    bf16_native: bool = field(default_factory=_bf16_native)
    num_warps: int = DEFAULT_WARPS
    target: str | None = field(default_factory=_device_target)
    over_hosts: bool = field(default_factory=spans_hosts)

    def key(self) -> Key:
        """Return a key of the request among those of one function, in this process."""
        constants = tuple((n, constant_key(v)) for n, v in self.constants.items())
        how = (
            self.debug,
            self.backend,
            self.contract,
            self.check,
            self.input_precision,
            self.sanitize,
            self.bf16_native,
            self.asked_warps,
            self.target,
            self.over_hosts,
        )
        return tuple(self.signature.items()), constants, *how

    @functools.cached_property
    def asked_warps(self) -> int | None:
        """The number of warps if the kernel asks for it; else None, as it is no part of the kernel."""
        functions = [self.fn, *(v for v in self.constants.values() if isinstance(v, JITCallable))]
        for function in functions:
            _ = function.cache_key  # finds out
        if not any(f.asks_num_warps for f in functions):
            return None
        # As in Triton, what a launch gives for a parameter of this name is the option, too.
        own = self.constants.get("num_warps")
        return own if type(own) is int else self.num_warps

    def digest(self) -> str | None:
        """Return the key of the request on disk; None if a constant has no lasting spelling."""
        spelled = []
        for name, value in self.constants.items():
            text = _spelling(value)
            if text is None:
                return None
            spelled.append(f"{name}={text}")
        fn = (self.fn.cache_key, self.fn.__name__)
        made_by = self.backend, backends.find(self.backend).target()
        parts: tuple[object, ...] = (
            *made_by,
            *fn,
            self.signature,
            spelled,
            self.debug,
            self.contract,
            self.input_precision,
        )
        if self.check is not None:
            parts = (*parts, self.check)
        if not self.sanitize:
            parts = (*parts, "wraps")
        if self.bf16_native:
            parts = (*parts, "bf16_native")
        if self.asked_warps is not None:
            parts = (*parts, f"num_warps={self.asked_warps}")
        if self.target is not None:
            parts = (*parts, self.target)
        if self.over_hosts:
            parts = (*parts, "over_hosts")
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]

    def module(self) -> Module:
        """Translate the kernel.

        Raises:
            CompilationError: The source breaks a rule of the language.
            ValueError: The kernel came from another process without its function.
        """
        if getattr(self.fn, "fn", self) is None:
            name = self.fn.__name__
            raise ValueError(
                f"kernel {name} must have its function where it is translated, as it is for check='race' and for texts, but it "
                "came from another process without it"
            )
        from emu.triton.codegen.code_generator import build_module
        from emu.triton.codegen.errors import CompilationError

        types = {
            name: type_of(type_, self.constants.get(name))
            for name, type_ in self.signature.items()
            if type_ != CONSTANT
        }
        constants = {n: v for n, v in self.constants.items() if self.signature[n] == CONSTANT}
        options = {
            "debug": self.debug,
            "input_precision": self.input_precision,
            "sanitize_overflow": self.sanitize,
            "bf16_native": self.bf16_native,
            "num_warps": self.asked_warps,
            "keeps_fences": has_race(self.check),
            "over_hosts": self.over_hosts,
        }
        try:
            return build_module(self.fn, types, constants, options)
        except CompilationError as error:
            raise error.with_traceback(None) from error.__cause__


def type_of(spelled: TypeSpelling, constant: Any) -> base_type:
    """Return the language's type for its spelling; in tuples constants have types, too."""
    from emu.triton.language.constants import constexpr_type
    from emu.triton.language.types import str_to_ty, tuple_type

    if isinstance(spelled, tuple):
        items = [type_of(s, c) for s, c in zip(spelled, constant, strict=True)]
        return tuple_type(items, getattr(spelled, "_fields", None))
    return constexpr_type(constant) if spelled == CONSTANT else str_to_ty(spelled)


def _spelling(value: object) -> str | None:
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, tuple):
        parts = [_spelling(item) for item in value]
        return None if None in parts else f"{type(value).__name__}({', '.join(map(str, parts))})"
    if isinstance(value, JITCallable):
        return value.cache_key
    if hasattr(value, "primitive_bitwidth") or type(value).__module__.partition(".")[0] == "torch":
        return f"{type(value).__name__}:{value}"
    return None


class Build:
    """Executable of a request.

    Attributes:
        request: The request.
        executable: Runs the kernel.
        stores: For each argument of the executable, whether it may be written through.
        from_disk: Whether another process had compiled it, which kept it on disk or sent it.
        exchanges: Whether lanes of a tile get values from other lanes, for which a GPU needs shared memory.
        times: How long that took; of one from disk, the first is the time of loading.
        sites: What a kernel with checks may report, by number; None without checks.
    """

    def __init__(
        self,
        request: Request,
        executable: Executable,
        stores: list[bool],
        from_disk: bool,
        sites: Sites | None = None,
        exchanges: bool = True,
    ) -> None:
        self.exchanges = exchanges
        self.times = CompileTimes(0, [], 0)
        self.request = request
        self.executable = executable
        self.stores = stores
        self.from_disk = from_disk
        self.sites = sites

    def __getstate__(self) -> dict[str, Any]:
        # The code itself goes to the other process: the folder of compiled kernels may be another one there.
        code = backends.find(self.request.backend).to_bytes(self.executable)
        return {n: v for n, v in vars(self).items() if n != "texts"} | {"executable": code}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.executable = backends.find(self.request.backend).from_bytes(state["executable"])
        self.from_disk = True

    @functools.cached_property
    def texts(self) -> Mapping[str, str]:
        """Readable forms of the kernel, each made on first use."""
        return Texts(self)


def build(request: Request) -> Build:
    """Build a kernel, or load one that another process built.

    Raises:
        CompilationError: The source breaks a rule of the language.
    """
    if request.check == COUNT:  # the code is that of the kernel without
        plain = build(dataclasses.replace(request, check=None))
        facts = plain.executable, plain.stores, plain.from_disk, None, plain.exchanges
        counted = Build(request, *facts)
        counted.times = plain.times
        return counted
    backend = backends.find(request.backend)
    begin = time.perf_counter_ns()
    digest = request.digest() if backend.is_stored else None
    if digest is None:
        return _compile(request)
    found = None if knobs.compilation.always_compile else _load(request, digest)
    if found is not None:
        found.times = CompileTimes(_microseconds(begin), [], 0)
        return found
    with cache.alone(digest):
        found = None if knobs.compilation.always_compile else _load(request, digest)
        if found is not None:
            found.times = CompileTimes(_microseconds(begin), [], 0)
            return found
        made = _compile(request)
        begin = time.perf_counter_ns()
        kept: dict[str, object] = {"stores": made.stores, "exchanges": made.exchanges}
        if request.check is not None:
            assert made.sites is not None
            kept["sites"] = made.sites.to_json()
        cache.save(digest, kept, backend.to_bytes(made.executable))
        made.times = dataclasses.replace(made.times, store_results=_microseconds(begin))
        return made


def _microseconds(begin: int) -> int:
    """Return the time since a reading of the clock; at least 1."""
    return max(1, (time.perf_counter_ns() - begin) // 1000)


def _load(request: Request, digest: str) -> Build | None:
    entry = cache.load(digest)
    if entry is None:
        return None
    facts, code = entry
    executable = backends.find(request.backend).from_bytes(code)
    sites = None
    if request.check is not None:
        from emu.triton.runtime.instrumented import Sites

        sites = Sites.from_json(facts["sites"])
    facts_of_code = facts["stores"], True, sites, facts["exchanges"]
    return Build(request, executable, *facts_of_code)


def _compile(request: Request) -> Build:
    begin = time.perf_counter_ns()
    module = request.module()
    stores = stored_arguments(module)  # the compiler may rewrite the module
    exchanges = exchanges_lanes(module)
    sites = None
    if request.check is not None:
        from emu.triton.runtime.instrumented import instrument

        module, sites = instrument(module, request.check)
    front_end = _microseconds(begin)
    begin = time.perf_counter_ns()
    executable = backends.find(request.backend).compile(module, request.contract)
    made = Build(request, executable, stores, False, sites, exchanges)
    made.times = CompileTimes(front_end, [(request.backend, _microseconds(begin))], 0)
    return made


class Texts(dict[str, str]):
    """``asm`` of a compiled kernel: its readable forms by name, each made on first use.

    ``ttir`` is the tile IR; ``llir`` the LLVM IR and ``s`` the assembly, where the backend has them.
    """

    def __init__(self, build: Build) -> None:
        super().__init__()
        self._build = build

    def __missing__(self, name: str) -> str:
        request = self._build.request
        if name in ("ttir", "ttgir", "source"):
            from emu.tile.text import print_module

            found: str | None = print_module(request.module())
        else:
            backend = backends.find(request.backend)
            found = backend.text(name, request.module(), request.contract)
        if found is None:
            raise KeyError(
                f"asm has no {name!r}: there are 'ttir' and, of a kernel for the CPU, 'llir' and 's'"
            )
        self[name] = found
        return found

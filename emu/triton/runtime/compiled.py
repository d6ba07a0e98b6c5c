"""Compiled kernels, as a launch returns them: figures, texts, and a way to launch again."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from emu.kernels.core.launch_count import Launches, launch_named
from emu.kernels.core.messages import shown
from emu.triton import knobs
from emu.triton.formats import BY_SPELLING
from emu.triton.language.types import TypeSpelling
from emu.triton.runtime import check_modes, options, runner
from emu.triton.runtime.arguments import (
    CONSTANT,
    Packed,
    check_annotated,
    check_on_host,
    describe,
    pointer_spelling,
    torch_guard,
    width,
)
from emu.triton.runtime.backends import (
    DeviceExecutable,
    DeviceLaunch,
    Executable,
    Launch,
    PassedTensor,
)
from emu.triton.runtime.build import Build, Request
from emu.triton.runtime.build import build as make_build
from emu.triton.runtime.driver import WARP_SIZE, driver
from emu.triton.runtime.launcher import extents
from emu.triton.runtime.recorded import recorded

if TYPE_CHECKING:
    from emu.triton.runtime.grid_race import ObservedBuild

REGISTERS = 32
SHARED_BYTES = 1024


class CompiledKernel:
    """A kernel compiled for certain types of arguments, constants and options.

    Attributes:
        name: The function's name.
        metadata: ``name``, ``shared``, ``num_warps``, ``num_stages``, ``num_ctas``, ``target``, and
            the options as given or by default.
        asm: Readable forms: ``"ttir"`` (the tile IR), ``"llir"``, ``"s"``; each made on first use.
        n_regs: 32. This and the next are for programs that choose a grid by them: a host's core has
            neither the registers nor the memory that they are about.
        n_spills: 0.
        n_max_threads: 1024.
        hash: Digest of all that the code depends on.
        src: The function, its signature and constants.
        launch: ``launch(x, y, z, packed values[, arguments by name])``; the kernel is loaded by the first look at it.
        run: The same as Triton's compiled kernels have it, for programs that generate their own launchers: see
            :mod:`emu.triton.runtime.runner`. None until the kernel is loaded.
        threads: How many threads a launch may use; another number holds if it is set before the kernel is loaded.
        takes_arguments: Whether ``launch`` must be given the arguments by name, as it needs to know their memory.
        module: The executable, once the kernel was launched or ``_init_handles()`` called; else None.
        function: The same.
        metadata_group: Paths of the kernel's files by name: none.
    """

    # Inductor sends kernels from process to process as the content of their ``__dict__``. What belongs to a process
    # is in a slot of its own, which is empty after that.
    __slots__ = ("__dict__", "__weakref__", "launch")

    n_regs = REGISTERS
    n_spills = 0
    n_max_threads = 1024

    launch: Callable[..., None]

    def __init__(self, build: Build, given: dict[str, object]) -> None:
        request = build.request
        threads = options.threads_of(given)
        self._build = build
        self.name = _name(request)
        self.module: Executable | None = None
        self.function: Executable | None = None
        self.metadata_group: dict[str, str] = {}
        self.src = Source(request.fn, self.name, request.signature, request.constants)
        self.metadata = SimpleNamespace(
            **options.IGNORED
            | {n: v for n, v in given.items() if v is not None}
            | {
                "name": self.name,
                "shared": SHARED_BYTES if build.exchanges else 0,
                "tmem_size": 0,
                "global_scratch_size": 0,
                "target": driver.active.get_current_target(),
                "warp_size": WARP_SIZE,
                "debug": request.debug,
                "num_threads": threads,
                "backend": request.backend,
                "hash": request.fn.cache_key,
            }
        )
        self.packed_metadata = (
            self.metadata.num_warps,
            self.metadata.num_ctas,
            self.metadata.shared,
        )
        self.takes_arguments = isinstance(build.executable, DeviceExecutable)
        self.threads = threads
        self._owner = os.getpid()
        self.run: Callable[..., None] | None = None

    @property
    def asm(self) -> Mapping[str, str]:
        """Readable forms of the kernel by name."""
        return self._build.texts

    @functools.cached_property
    def hash(self) -> str:
        """Digest of all that the code depends on."""
        return self._build.request.digest() or self._build.request.fn.cache_key

    @property
    def from_disk(self) -> bool:
        """Whether the code was compiled by another process."""
        return self._build.from_disk

    def _init_handles(self) -> None:
        """Make the kernel ready to run, unless it is; call the hooks around that."""
        if self.module is not None:
            return
        started, ended = knobs.runtime.kernel_load_start_hook, knobs.runtime.kernel_load_end_hook
        if started:
            started(None, None, self.name, self.metadata_group, self.hash)
        launch = _make_launch(self._build, self, self.threads)
        said = {name: getattr(self.metadata, name) for name in ("num_warps", "num_stages")}
        self.launch = recorded(self.name, _counted(launch), said)
        self.run = runner.make(self)
        self.module = self.function = self._build.executable
        self._owner = os.getpid()
        if ended:
            ended(self.module, self.function, self.name, self.metadata_group, self.hash)

    def __getattr__(self, name: str) -> Any:  # only where there is none
        if name != "launch" or "_build" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._init_handles()
        return self.launch

    def launch_metadata(self, grid: object, stream: object, *args: object) -> LaunchMetadata:
        """Return the argument of launch hooks.

        Args:
            grid: The three extents.
            stream: The stream.
            *args: All arguments in the order of the parameters; none if they are not known.
        """
        facts = LaunchMetadata({"name": self.name, "function": self, "stream": stream})
        made_by = getattr(self.src.fn, "launch_metadata", None)
        if made_by is not None and args:
            named = dict(zip(self.src.fn.arg_names, args, strict=True))
            facts.add(made_by, (grid, self.metadata, named))
        return facts

    def __getitem__(self, grid: object) -> Callable[..., None]:
        """Return a function that launches the kernel, given all arguments or those that are not constant."""

        def launch(*args: object, stream: object = None) -> None:
            signature = self.src.signature
            values = args
            if len(args) == len(signature):
                values = tuple(
                    a for a, p in zip(args, self.src.fn.params, strict=True) if not p.is_constexpr
                )
            wanted = [p.name for p in self.src.fn.params if not p.is_constexpr]
            if len(values) != len(wanted):
                raise TypeError(
                    f"{self.name} must be given {len(signature)} arguments, or the {len(wanted)} that "
                    f"are not constexpr, but got {len(args)}"
                )
            with torch_guard():
                packed = tuple(map(self.pack, wanted, values))
            x, y, z = extents(grid)
            if x:
                given = dict.fromkeys(signature) | self.src.constants
                given |= dict(zip(wanted, values, strict=True))
                self.launch(x, y, z, packed, given)

        return launch

    @property
    def has_checks(self) -> bool:
        """Whether it checks its addresses as it runs, for which ``launch`` must be given the arguments by name."""
        return self._build.request.check is not None

    def pack(self, parameter: str, value: object) -> Packed:
        """Return the value of a parameter as a launch packs it.

        Raises:
            TypeError: A pointer is wanted and the value is none, or the other way round.
            OverflowError: A number does not fit into its type.
            ValueError: A tensor is in the memory of a GPU.
        """
        key, packed = describe(value)
        if not self.takes_arguments:
            check_on_host(key, value)
        spelled = self.src.signature[parameter]
        if spelled == "constexpr":  # None, or 1: the compiled code does not take it
            return packed
        is_pointer = isinstance(spelled, str) and spelled.startswith("*")
        if key is None or is_pointer != (pointer_spelling(key) is not None):
            raise TypeError(
                f"{parameter} of kernel {self.name} must be {spelled}, as it was compiled for, but got "
                f"{shown(value, with_type=True)}"
            )
        if isinstance(spelled, str) and spelled in BY_SPELLING:
            check_annotated(f"{parameter} of kernel {self.name}", spelled, value)
        return packed

    def __del__(self) -> None:
        # What a fork copied was not loaded here.
        module = self.__dict__.get("module")
        if module is None or self._owner != os.getpid():
            return
        self.module = None
        if knobs.runtime.kernel_unload_hook:
            facts = (module, self.function, self.name, self.metadata_group, self.hash)
            knobs.runtime.kernel_unload_hook(*facts)

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name}: {self.src.signature})"


@dataclass(frozen=True)
class Source:
    """What a compiled kernel was made of.

    Attributes:
        fn: The function.
        name: Its name.
        signature: The spelling of each parameter's type.
        constants: The values of the constants.
    """

    fn: Any
    name: str
    signature: dict[str, TypeSpelling]
    constants: dict[str, object]


def _name(request: Request) -> str:
    """Return the name of a kernel, which ``jit(repr=…)`` may make of types and constants."""
    fn = request.fn
    if getattr(fn, "_repr", None) is None:
        return fn.__name__
    described = Source(fn, fn.__name__, request.signature, request.constants)
    return str(fn.repr(described))  # type: ignore[attr-defined]  # such a function is a JITFunction


class LaunchMetadata:
    """Argument of a launch hook; ``get()`` returns the facts of the launch."""

    def __init__(self, data: dict[str, object]) -> None:
        self.data = data
        self.extras: list[tuple[Callable[..., Mapping[str, object]], Sequence[object]]] = []

    def add(self, func: Callable[..., Mapping[str, object]], args: Sequence[object]) -> None:
        """Add a function that returns further facts; it is called when they are asked for."""
        self.extras.append((func, args))

    def get(self) -> dict[str, object]:
        """Return the facts of the launch by name."""
        while self.extras:
            function, args = self.extras.pop(0)
            self.data = self.data | dict(function(*args))
        return self.data


def _paths(type_: TypeSpelling, at: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the paths to the kernel's arguments in the packed values."""
    if isinstance(type_, tuple):
        return [path for i, t in enumerate(type_) for path in _paths(t, (*at, i))]
    if type_ == CONSTANT:
        return []
    count = width(type_)
    # A tensor descriptor is packed as a tuple of what it consists of.
    return [at] if count == 1 else [(*at, i) for i in range(count)]


def _selection(build: Build) -> Callable[[Sequence[Packed]], list[Packed]] | None:
    """Return a function that picks the kernel's arguments out of the packed values; None: all of them."""
    request = build.request
    passed = [p.name for p in request.fn.params if not p.is_constexpr]
    types = [request.signature[name] for name in passed]
    paths = [path for i, type_ in enumerate(types) for path in _paths(type_, (i,))]
    if paths == [(i,) for i in range(len(passed))]:
        return None

    def select(values: Sequence[Packed]) -> list[Packed]:
        found = []
        for path in paths:
            value: Any = values
            for index in path:
                value = value[index]
            found.append(value)
        return found

    return select


def _make_launch(build: Build, kernel: CompiledKernel, threads: int) -> Callable[..., None]:
    """Return the function that launches a kernel on a grid with packed values."""
    select = _selection(build)
    if isinstance(build.executable, DeviceExecutable):
        device = build.executable.bind_device(kernel.metadata.num_warps)
        return _launch_on_device(build, kernel, device, select)
    bound = build.executable.bind(threads)
    check = None if build.request.check is None else _checker(build, threads)

    def launch(
        x: int,
        y: int,
        z: int,
        values: Sequence[Packed],
        given: Mapping[str, object] | None = None,
    ) -> None:
        if select is not None:
            values = select(values)
        hooks = knobs.runtime  # read at each launch: programs set hooks between launches
        if hooks.launch_enter_hook or hooks.launch_exit_hook or Launches.around:
            unhooked = bound
            if check is not None:
                unhooked = functools.partial(_launch_checked, check, bound, given)
            _launch_with_hooks(kernel, unhooked, (x, y, z, values), given)
        elif check is None:
            bound(x, y, z, values)
        else:
            check(bound, (x, y, z, values), given)

    return launch


def _counted(launch: Callable[..., None]) -> Callable[..., None]:
    """Return a function that counts its calls, if launches are counted."""
    if not Launches.are_counted:
        return launch

    def counted(*call: Any) -> None:
        Launches.count += 1
        launch(*call)

    return counted


def _launch_on_device(
    build: Build,
    kernel: CompiledKernel,
    device: DeviceLaunch,
    select: Callable[[Sequence[Packed]], list[Packed]] | None,
) -> Callable[..., None]:
    """Return the function that runs a kernel on a device, which is told the memory of its arguments."""
    arguments = list(zip(_arguments_of(build), build.stores, strict=True))

    def run(
        x: int,
        y: int,
        z: int,
        values: Sequence[Packed],
        given: Mapping[str, object] | None = None,
    ) -> None:
        if select is not None:
            values = select(values)
        tensors = [
            PassedTensor(name, _at(given, path), is_written) if is_pointer and given else None
            for (name, is_pointer, path), is_written in arguments
        ]

        def launch(x: int, y: int, z: int, values: Sequence[Packed]) -> None:
            device((x, y, z), values, tensors)

        hooks = knobs.runtime
        if hooks.launch_enter_hook or hooks.launch_exit_hook or Launches.around:
            _launch_with_hooks(kernel, launch, (x, y, z, values), given)
        else:
            launch(x, y, z, values)

    return run


def _at(given: Mapping[str, object], path: tuple[int | str, ...]) -> Any:
    """Return what an argument of the executable was made of."""
    name, *steps = path
    value: Any = given[str(name)]
    for step in steps:
        value = getattr(value, step) if isinstance(step, str) else value[step]
    return value


def _checker(build: Build, threads: int) -> Callable[..., None]:
    """Return what launches a kernel with checks."""
    request = build.request
    assert request.check is not None
    if request.check == check_modes.COUNT:
        from emu.triton.runtime.counted import counted_launch

        return counted_launch(build, _arguments_of(build), threads)
    run, arguments = _run_of(build), _arguments_of(build)
    if not check_modes.has_race(request.check):
        return run
    from emu.triton.runtime.grid_race import GridRaceChecker

    return GridRaceChecker(
        request.fn.__name__,
        arguments,
        run,
        request.module,
        functools.partial(_observed, request),
        check_modes.has_benign_races(request.check),
    ).launch


def _run_of(build: Build) -> Callable[..., None]:
    """Return what launches a kernel with the checks that it does itself."""
    from emu.triton.runtime.instrumented import CheckedLauncher

    request = build.request
    assert request.check is not None
    assert build.sites is not None
    arguments = _arguments_of(build)
    return CheckedLauncher(request.fn.__name__, request.check, build.sites, arguments).function


def _observed(request: Request) -> ObservedBuild:
    """Return the build of a kernel that tells of its accesses."""
    from emu.triton.runtime.grid_race import ObservedBuild

    made = make_build(dataclasses.replace(request, check=f"{request.check}{check_modes.OBSERVED}"))
    assert made.sites is not None
    return ObservedBuild(made.executable.bind(1), _run_of(made), made.sites.observed)


def _arguments_of(build: Build) -> list[tuple[str, bool, tuple[int | str, ...]]]:
    """Return name, whether it is a pointer, and path in the arguments by name of each of the executable's."""
    request, arguments = build.request, list[tuple[str, bool, tuple[int | str, ...]]]()
    for parameter in request.fn.params:
        if parameter.is_constexpr:
            continue
        for _, *path in _paths(request.signature[parameter.name], (0,)):
            spelled: Any = request.signature[parameter.name]
            steps: list[int | str] = []
            for step in path:
                if isinstance(
                    spelled, str
                ):  # a part of a tensor descriptor; the first is its tensor
                    spelled = "*" if step == 0 else CONSTANT
                    steps.append("base")
                else:
                    spelled = spelled[step]
                    steps.append(step)
            name = parameter.name + "".join(f"[{step}]" for step in steps if step != "base")
            is_pointer = isinstance(spelled, str) and spelled.startswith("*")
            arguments.append((name, is_pointer, (parameter.name, *steps)))
    return arguments


def _launch_checked(
    check: Callable[..., None],
    launch: Launch,
    given: Mapping[str, object] | None,
    *call: object,
) -> None:
    check(launch, call, given)


def _launch_with_hooks(
    kernel: CompiledKernel,
    launch: Launch,
    call: tuple[int, int, int, Sequence[Packed]],
    given: Mapping[str, object] | None,
) -> None:
    facts = kernel.launch_metadata(call[:3], 0, *(given or {}).values())
    if knobs.runtime.launch_enter_hook:
        knobs.runtime.launch_enter_hook(facts)
    launch_named(kernel.name, functools.partial(launch, *call))
    if knobs.runtime.launch_exit_hook:
        knobs.runtime.launch_exit_hook(facts)

"""``triton.jit``: functions that are compiled for their arguments when they are launched."""

from __future__ import annotations

import functools
import inspect
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, overload

from emu.kernels.core.messages import shown
from emu.triton import knobs
from emu.triton._utils import find_paths_if, get_iterable_path, type_canonicalisation_dict
from emu.triton.language.aggregates import aggregate
from emu.triton.runtime import arguments, checks, hooks, interpreting, launcher, options
from emu.triton.runtime._async_compile import FutureKernel, active_mode
from emu.triton.runtime.arguments import Key
from emu.triton.runtime.backends import find as find_backend
from emu.triton.runtime.build import Build, Request, build
from emu.triton.runtime.compiled import CompiledKernel
from emu.triton.runtime.driver import driver
from emu.triton.runtime.hooks import JitFunctionInfo
from emu.triton.runtime.interface import KernelInterface
from emu.triton.runtime.specialization import mangle_type, native_specialize_impl
from emu.triton.runtime.tensors import MockTensor, TensorWrapper, reinterpret
from emu.triton.source import (
    ConstexprFunction,
    JITCallable,
    KernelParam,
    constexpr_function,
    must_use_result,
)

T = TypeVar("T")


def _check_parameters(fn: Callable[..., object]) -> None:
    """Check that a function takes no keywords that it does not name."""
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            raise TypeError(f"JIT functions do not support **{parameter.name} parameters")


class JITFunction(JITCallable, KernelInterface[T]):
    """A kernel, or a function that kernels call.

    Args:
        fn: Written with ``def`` in a file.
        version: Kept for programs that ask.
        do_not_specialize: Names or positions of parameters whose value 1 stays an argument.
        do_not_specialize_on_alignment: Kept: alignment never makes another kernel here.
        debug: Whether assertions are checked. Default: ``knobs.runtime.debug`` says when it is compiled.
        noinline: Kept; a call means the same either way.
        repr: Kept for programs that ask.
        launch_metadata: ``launch_metadata(grid, metadata, arguments by name)`` returns facts of a launch that
            hooks get from ``get()``; called only where they ask.
        interpret: Whether launches run the kernel as Python, statement by statement. Default: where
            ``knobs.runtime.interpret`` says so.
        check: What the kernel checks as it runs: ``"bounds"``, ``"bounds:all"``, or False for nothing. Default:
            ``knobs.runtime.check`` says when it is launched.

    Raises:
        ValueError: The source of the function cannot be read.
        TypeError: It takes ``*args`` or ``**kwargs``.
    """

    ASTSource: ClassVar[Any]  # what programs use that compile by themselves; from ahead.py
    compile: ClassVar[Any]

    def __init__(
        self,
        fn: Callable[..., object],
        version: object = None,
        do_not_specialize: Sequence[int | str] | None = None,
        do_not_specialize_on_alignment: Sequence[int | str] | None = None,
        debug: bool | None = None,
        noinline: bool | None = None,
        repr: Callable[..., str] | None = None,
        launch_metadata: Callable[..., object] | None = None,
        interpret: bool | None = None,
        check: str | bool | None = None,
    ) -> None:
        _check_parameters(fn)
        plain = checks.as_parameters("do_not_specialize", do_not_specialize)
        unaligned = checks.as_parameters(
            "do_not_specialize_on_alignment", do_not_specialize_on_alignment
        )
        interpret = interpret is not None and checks.as_flag("interpret", interpret)
        super().__init__(
            fn,
            do_not_specialize=plain,
            do_not_specialize_on_alignment=unaligned,
            noinline=noinline is not None and checks.as_flag("noinline", noinline),
            needs_source=not (interpret or knobs.runtime.interpret),
        )
        self.module = fn.__module__
        self.version = version
        self.do_not_specialize = plain
        self.do_not_specialize_on_alignment = unaligned
        self.debug = debug if debug is None else checks.as_flag("debug", debug)
        self.interpret = interpret
        options.check_of(check, None)  # refuses what there is not
        self.check = check
        self.kernel = None
        self.launch_metadata = launch_metadata
        self.constexprs = [p.num for p in self.params if p.is_constexpr]
        self.pre_run_hooks: list[Callable[..., object]] = []
        self._repr = repr
        self._table = hooks.KernelTable(self._forget)
        self._preloaded: set[Key] = set()
        self._keys: dict[str, Key] = {}  # of compiled kernels, by their text
        self._is_warmup = False
        self._checked_tables: dict[str, dict[Key, CompiledKernel]] = {}  # by their checks
        self._checked_launchers: dict[str, Callable[..., CompiledKernel]] = {}
        self._builds: dict[Key, Build] = {}
        self._watched: list[launcher.Watched] = []
        self._lock = threading.RLock()
        _functions[f"{self.module}:{self.__qualname__}"] = self

    # ---- launch

    @functools.cached_property
    def _launch(self) -> Callable[..., CompiledKernel]:
        return self._make_launcher(self._launch_checked)

    def _launcher_of(self, check: str) -> Callable[..., CompiledKernel]:
        """Return the launcher of kernels with these checks, which need not be among the options then."""
        found = self._checked_launchers.get(check)
        if found is None:
            found = self._checked_launchers[check] = self._make_launcher(None, check)
        return found

    def _table_of(self, check: str | None) -> dict[Key, CompiledKernel]:
        return self._table if check is None else self._checked_tables.setdefault(check, {})

    def _make_launcher(
        self, checked: Any, check: str | None = None
    ) -> Callable[..., CompiledKernel]:
        if any(p.parameter.kind is p.parameter.VAR_POSITIONAL for p in self.params):
            raise TypeError(f"kernel {self.__name__} must not have a parameter with a star")
        table = self._table_of(check)
        interpret = launcher.Interpret(
            self.interpret, interpreting.is_wanted, functools.partial(interpreting.launch, self)
        )
        miss: Callable[..., Any] = self._miss  # a FutureKernel has all that a kernel has
        if check is not None:
            miss = functools.partial(self._miss_with_check, check)
        return launcher.make(
            self.__name__,
            self.params,
            table,
            miss,
            self._watched,
            checked,
            with_arguments=self.launch_metadata is not None,
            interpret=interpret,
        )

    def _launch_checked(
        self, grid: object, bound: dict[str, object], given: dict[str, object]
    ) -> CompiledKernel:
        """Launch with the option ``check``."""
        check = options.check_of_launch(given["check"], self.check)
        plain = given.copy()
        del plain["check"]
        launch = self._launch if check is None else self._launcher_of(check)
        return launch(grid, **bound, **plain)

    def _find_launcher(self) -> Callable[..., CompiledKernel]:
        """Return the launcher of kernels with checks if they are wanted, else that of kernels without."""
        if self.check is None and knobs.runtime.check is None:
            return self._launch
        wanted = knobs.runtime.check if self.check is None else self.check
        found = self._checked_launchers.get(wanted) if isinstance(wanted, str) else None
        if found is not None:  # as in all launches but the first
            return found
        check = options.check_of_launch(None, self.check)
        return self._launch if check is None else self._launcher_of(check)

    def __getitem__(self, grid: object) -> Callable[..., CompiledKernel]:
        """Return a function that launches the kernel on a grid.

        Args:
            grid: One to three integers, or a function of the arguments by name that gives them.
        """
        if self.pre_run_hooks or grid is None:
            return functools.partial(self.run, grid=grid, warmup=False)
        if self.check is None and knobs.runtime.check is None:
            return functools.partial(self._launch, grid)
        return functools.partial(self._find_launcher(), grid)

    def run(
        self, *args: object, grid: object, warmup: bool = False, **kwargs: object
    ) -> CompiledKernel:
        """Launch the kernel, or with ``warmup`` only compile it.

        Args:
            *args: The kernel's arguments.
            grid: As in ``kernel[grid]``.
            warmup: Whether not to run it.
            **kwargs: Arguments by name, and options.

        Returns:
            The :class:`CompiledKernel`.

        Raises:
            CompilationError: The source breaks a rule of the language.
            TypeError: An argument or an option is missing, unknown or of a type that cannot be passed.
            ValueError: A value is out of bounds.
        """
        if warmup:
            self._is_warmup = True
            try:
                return self._find_launcher()(None, *args, **kwargs)
            finally:
                self._is_warmup = False
        if grid is None:
            raise TypeError("grid must be one to three integers, or a function, but got None")
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        return self._find_launcher()(grid, *args, **kwargs)

    def add_pre_run_hook(self, hook: Callable[..., object]) -> None:
        """Add a function that is called with the arguments before every launch."""
        if not callable(hook):
            raise TypeError(f"hook must be a function, but got {shown(hook, with_type=True)}")
        self.pre_run_hooks.append(hook)

    # ---- compilation

    def _miss(
        self, key: Key, bound: dict[str, object], given: dict[str, object]
    ) -> CompiledKernel | FutureKernel | None:
        """Compile and store the kernel for a new combination of arguments; None if a hook stops that."""
        options.check(self.__name__, given, self.arg_names)
        backend = options.backend_of(given)
        specialised = self._specialise(bound, find_backend(backend).takes_device_tensors)
        debug = given.get("debug")
        debug = (self.debug if debug is None else debug) or knobs.runtime.debug
        constants = {
            name: one.value
            for name, one in specialised.items()
            if one.type == arguments.CONSTANT or isinstance(one.type, tuple)
        }
        request = Request(
            self,
            {name: one.type for name, one in specialised.items()},
            constants,
            bool(debug),
            backend,
            given.get("enable_fp_fusion") is True,
            options.checked_by(backend, given.get("check")),
            options.input_precision_of(given),
            given.get("sanitize_overflow") is not False,
            num_warps=options.warps_of(given),
        )
        table = self._table_of(request.check)

        def finish(kernel: CompiledKernel, made: Build) -> CompiledKernel:
            self._check_read_only(made, specialised)
            table[key] = kernel
            return kernel

        with self._lock:
            known = request.key()
            if known in self._preloaded:
                made = self._builds[known]
                return finish(CompiledKernel(made, given), made)
            return self._compile(key, request, given, finish)

    def _miss_with_check(
        self, check: str, key: Key, bound: dict[str, object], given: dict[str, object]
    ) -> CompiledKernel | FutureKernel | None:
        return self._miss(key, bound, {**given, "check": check})

    def _specialise(
        self, bound: dict[str, object], on_device: bool
    ) -> dict[str, arguments.Specialised]:
        """Return the meaning of each argument; ``on_device``: whether tensors may be a GPU's."""
        specialised = {}
        with self._lock, arguments.torch_guard():
            for param in self.params:
                try:
                    specialised[param.name] = arguments.specialise(
                        param, bound[param.name], on_device
                    )
                except launcher.REFUSALS as error:
                    launcher.raise_named(self.__name__, param.name, error)
        return specialised

    def _compile(
        self,
        key: Key,
        request: Request,
        given: dict[str, object],
        finish: Callable[[CompiledKernel, Build], CompiledKernel],
    ) -> CompiledKernel | FutureKernel | None:
        """Compile a kernel unless one with options that make the same code was compiled; call the hooks.

        Args:
            key: Of the kernel in its table.
            request: What to compile.
            given: Options of the launch.
            finish: Stores the kernel and returns it.

        Returns:
            The kernel; inside an ``AsyncCompileMode`` one that may still be compiled; None if ``jit_cache_hook``
            says that it must not be.
        """
        before, after = knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook
        facts: dict[str, Any] = {}
        if before is not None or after is not None:
            self._keys[repr(key)] = key
            facts = hooks.facts_of(self, key, request, given, self._is_warmup)
        if before is not None and before(**facts, already_compiled=False):
            return None
        known = request.key()
        is_new = known not in self._builds

        def finalize(made: Build) -> CompiledKernel:
            with self._lock:
                self._builds[known] = made
                self._watch_globals()
                kernel = finish(CompiledKernel(made, given), made)
            if is_new:
                hooks.tell_listener(made, kernel, kernel.src)
            if after is not None:
                after(**facts, already_compiled=made.from_disk or not is_new)
            return kernel

        mode = active_mode.get()
        if mode is None or not is_new:
            return finalize(build(request) if is_new else self._builds[known])
        future = mode.submit((self, key), functools.partial(build, request), finalize)
        table: Any = self._table_of(request.check)
        table[key] = future
        return future

    def _watch_globals(self) -> None:
        """Let launches check that the globals stay that became part of the kernel."""
        _ = self.cache_key  # finds them
        self._watched[:] = [
            _watched(name, value, space)
            for (name, _), (value, space) in self.used_global_vals.items()
        ]

    def preload(self, specialization_data: str) -> CompiledKernel | FutureKernel | None:
        """Compile a kernel before its first launch.

        Args:
            specialization_data: Text that a hook got when the same kernel was compiled, perhaps by another
                process.

        Raises:
            RuntimeError: The text is of another kernel or device.
        """
        told = json.loads(specialization_data)
        if told["name"] != self._fn_name:
            raise RuntimeError(
                f"Specialization data is for {told['name']} but trying to preload for {self._fn_name}"
            )
        target = driver.active.get_current_target()
        if told["target"] != vars(target):
            raise RuntimeError(
                f"Specialization data is for {told['target']} but trying to preload for {target}"
            )
        given: dict[str, object] = told["options"]
        options.check(self.__name__, given)
        request = Request(
            self,
            {n: _as_tuple(t) for n, t in told["signature"].items()},
            {n: hooks.from_json(v, _functions) for n, v in told["constants"].items()},
            bool(given.get("debug") or self.debug or knobs.runtime.debug),
            options.backend_of(given),
            given.get("enable_fp_fusion") is True,
            input_precision=options.input_precision_of(given),
            sanitize=given.get("sanitize_overflow") is not False,
            num_warps=options.warps_of(given),
        )
        with self._lock:
            key = self._keys.get(told["key"], told["key"])

            def finish(kernel: CompiledKernel, _: Build) -> CompiledKernel:
                self._preloaded.add(request.key())
                self._table[key] = kernel
                return kernel

            return self._compile(key, request, given, finish)

    @functools.cached_property
    def device_caches(self) -> hooks.DeviceCaches:
        """The compiled kernels by device."""
        return hooks.DeviceCaches(self, self._table)

    def _forget(self) -> None:
        """Forget what compiled kernels were made of."""
        for table in self._checked_tables.values():
            table.clear()
        self._builds.clear()
        self._watched.clear()
        self._preloaded.clear()

    def _check_read_only(self, build: Build, specialised: dict[str, arguments.Specialised]) -> None:
        """Check that the kernel does not store to read-only memory."""
        position = 0
        for name, one in specialised.items():
            count = arguments.width(one.type)
            stored = any(build.stores[position : position + count])
            if one.read_only and stored:
                raise ValueError(
                    f"{name} of kernel {self.__name__} must be writable, as the kernel stores to it, "
                    "but got a read-only array"
                )
            position += count

    def _unsafe_update_src(self, new_src: str) -> None:
        """Replace the source, and forget what was compiled from it."""
        super()._unsafe_update_src(new_src)
        self._table.clear()

    def __reduce__(self) -> str | tuple[object, ...]:
        function: object = self.fn
        if function is not None:
            return self.__qualname__  # pickled as functions are: by name
        # Inductor's workers take the function away before they send a kernel, as the process that gets it
        # launches what was compiled and needs no source.
        described = {n: v for n, v in vars(self).items() if n in _SENT}
        return _described, (described,)

    def is_gluon(self) -> bool:
        """Return False: kernels of Gluon are not run."""
        return False

    def repr(self, specialization: object) -> str:
        """Return the name of the kernel, as the program gives it or as it is."""
        return self._fn_name if self._repr is None else self._repr(specialization)

    @functools.cached_property  # programs set it
    def _fn_name(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the function inside a kernel that runs as Python.

        Raises:
            RuntimeError: No such kernel runs: one is launched on a grid, other functions are called by it.
        """
        if interpreting.is_running():
            return interpreting.call(self, args, kwargs)
        raise RuntimeError(
            f"{self.__name__} must be launched as {self.__name__}[grid](...), or called from a function "
            "that is decorated with @triton.jit"
        )


_SENT = frozenset(
    (
        *(
            "__doc__",
            "__module__",
            "__name__",
            "__qualname__",
            "_fn_name",
            "_key",
            "_src",
            "arg_names",
            "asks_num_warps",
        ),
        *("check", "constexprs", "debug", "do_not_specialize", "do_not_specialize_on_alignment"),
        *(
            "file_name",
            "fn",
            "interpret",
            "module",
            "noinline",
            "params",
            "repr",
            "signature",
            "version",
        ),
    )
)
"""What is left of a kernel without its function, when it is sent to another process."""


def _described(attributes: dict[str, Any]) -> JITFunction[Any]:
    """Return a kernel that can tell its parameters, but has no source."""
    kernel: JITFunction[Any] = JITFunction.__new__(JITFunction)
    vars(kernel).update(attributes, __globals__=None, used_global_vals=None, launch_metadata=None)
    kernel.pre_run_hooks = []
    return kernel


_functions: dict[str, JITFunction[Any]] = {}
"""Kernels by module and name, for constants that a text names."""


def _watched(name: str, value: object, space: Mapping[str, object]) -> launcher.Watched:
    is_constexpr = type(value).__name__ == "constexpr"
    return launcher.Watched(
        name, value, getattr(value, "value", None) if is_constexpr else None, space
    )


def _as_tuple(spelled: Any) -> Any:
    """Return a type's spelling with tuples in the place of JSON's lists."""
    return tuple(map(_as_tuple, spelled)) if isinstance(spelled, list) else spelled


@overload
def jit(fn: Callable[..., T]) -> JITFunction[T]: ...


@overload
def jit(
    fn: None = None,
    *,
    version: object = None,
    do_not_specialize: Sequence[int | str] | None = None,
    do_not_specialize_on_alignment: Sequence[int | str] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
    repr: Callable[..., str] | None = None,
    launch_metadata: Callable[..., object] | None = None,
    interpret: bool | None = None,
    check: str | bool | None = None,
) -> Callable[[Callable[..., T]], JITFunction[T]]: ...


def jit(
    fn: Any = None,
    *,
    version: Any = None,
    do_not_specialize: Any = None,
    do_not_specialize_on_alignment: Any = None,
    debug: Any = None,
    noinline: Any = None,
    repr: Any = None,
    launch_metadata: Any = None,
    interpret: Any = None,
    check: Any = None,
) -> Any:
    """Make a function a kernel, or one that kernels call; see :class:`JITFunction`.

    Args:
        fn: The function; None to get a decorator.
        version, do_not_specialize, do_not_specialize_on_alignment, debug, noinline, repr, launch_metadata, interpret, check:
            As of :class:`JITFunction`. Programs look in this signature for what there is.
    """
    settings = {
        "version": version,
        "do_not_specialize": do_not_specialize,
        "do_not_specialize_on_alignment": do_not_specialize_on_alignment,
        "debug": debug,
        "noinline": noinline,
        "repr": repr,
        "launch_metadata": launch_metadata,
        "interpret": interpret,
        "check": check,
    }
    if fn is None:
        return functools.partial(jit, **settings)
    if isinstance(fn, JITCallable):
        fn = fn.fn
    if not callable(fn) or not hasattr(fn, "__code__"):
        raise TypeError(f"fn must be a function written with def, but got {type(fn).__name__}")
    return JITFunction(fn, **settings)


__all__ = [
    "ConstexprFunction",
    "JITCallable",
    "JITFunction",
    "JitFunctionInfo",
    "KernelInterface",
    "KernelParam",
    "MockTensor",
    "TensorWrapper",
    "aggregate",
    "constexpr_function",
    "find_paths_if",
    "get_iterable_path",
    "jit",
    "mangle_type",
    "must_use_result",
    "native_specialize_impl",
    "reinterpret",
    "type_canonicalisation_dict",
]

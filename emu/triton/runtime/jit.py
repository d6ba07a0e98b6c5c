"""``triton.jit``: functions that are compiled for their arguments when they are launched."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Generic, NoReturn, TypeVar, overload

from emu.triton import knobs
from emu.triton.language.types import TypeSpelling
from emu.triton.runtime import arguments, launcher, options
from emu.triton.runtime.arguments import Key
from emu.triton.runtime.build import Build, Request, build
from emu.triton.runtime.compiled import CompiledKernel
from emu.triton.runtime.tensors import MockTensor, TensorWrapper, reinterpret
from emu.triton.source import (
    ConstexprFunction,
    JITCallable,
    KernelParam,
    aggregate,
    constexpr_function,
    must_use_result,
)

T = TypeVar("T")


class KernelInterface(Generic[T]):
    """Base of what is launched as ``kernel[grid](...)``."""

    __name__: str
    __qualname__: str
    arg_names: list[str]
    fn: Any  # a function of Python's, or what is launched with more or other arguments

    def run(self, *args: object, grid: object, warmup: bool, **kwargs: object) -> Any:
        """Launch the kernel, or only compile it."""
        raise NotImplementedError

    def warmup(self, *args: object, grid: object, **kwargs: object) -> Any:
        """Compile for these arguments, without running; dtypes of torch stand for tensors of them."""
        return self.run(
            *map(MockTensor.wrap_dtype, args),
            grid=grid,
            warmup=True,
            **kwargs,
        )

    def __getitem__(self, grid: object) -> Callable[..., Any]:
        """Return a function that launches the kernel on a grid."""
        return functools.partial(self.run, grid=grid, warmup=False)

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled as functions are: by name


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
        launch_metadata: Kept for programs that ask.

    Raises:
        ValueError: The source of the function cannot be read.
        TypeError: It takes ``*args`` or ``**kwargs``.
    """

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
    ) -> None:
        for parameter in inspect.signature(fn).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                raise TypeError(f"JIT functions do not support **{parameter.name} parameters")
        super().__init__(
            fn,
            do_not_specialize=do_not_specialize or (),
            do_not_specialize_on_alignment=do_not_specialize_on_alignment or (),
            noinline=bool(noinline),
        )
        self.module = fn.__module__
        self.version = version
        self.do_not_specialize = list(do_not_specialize or ())
        self.do_not_specialize_on_alignment = list(do_not_specialize_on_alignment or ())
        self.debug = debug
        self.kernel = None
        self.launch_metadata = launch_metadata
        self.constexprs = [p.num for p in self.params if p.is_constexpr]
        self.pre_run_hooks: list[Callable[..., object]] = []
        self._repr = repr
        self._table: dict[Key, CompiledKernel] = {}
        self._builds: dict[Key, Build] = {}
        self._watched: list[tuple[str, object, dict[str, object]]] = []
        self._lock = threading.RLock()

    # ---- launch

    @functools.cached_property
    def _launch(self) -> Callable[..., CompiledKernel]:
        if any(p.parameter.kind is p.parameter.VAR_POSITIONAL for p in self.params):
            raise TypeError(f"kernel {self.__name__} must not have a parameter with a star")
        return launcher.make(self.__name__, self.params, self._table, self._miss, self._watched)

    def __getitem__(self, grid: object) -> Callable[..., CompiledKernel]:
        """Return a function that launches the kernel on a grid.

        Args:
            grid: One to three integers, or a function of the arguments by name that gives them.
        """
        if self.pre_run_hooks or grid is None:
            return functools.partial(self.run, grid=grid, warmup=False)
        return functools.partial(self._launch, grid)

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
            return self._launch(None, *args, **kwargs)
        if grid is None:
            raise TypeError("grid must be one to three integers, or a function, but got None")
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        return self._launch(grid, *args, **kwargs)

    def add_pre_run_hook(self, hook: Callable[..., object]) -> None:
        """Add a function that is called with the arguments before every launch."""
        self.pre_run_hooks.append(hook)

    # ---- compilation

    def _miss(self, key: Key, bound: dict[str, object], given: dict[str, object]) -> CompiledKernel:
        """Compile and store the kernel for a new combination of arguments."""
        options.check(self.__name__, given)
        with self._lock, arguments.torch_guard():
            specialised = {}
            for param in self.params:
                try:
                    specialised[param.name] = arguments.specialise(param, bound[param.name])
                except launcher.REFUSALS as error:
                    launcher.raise_named(self.__name__, param.name, error)
        debug = given.get("debug")
        if debug is None:
            debug = self.debug or knobs.runtime.debug
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
            options.backend_of(given),
            given.get("enable_fp_fusion") is True,
            options.input_precision_of(given),
        )
        with self._lock:
            known = request.key()
            made = self._builds.get(known)
            if made is None:
                made = self._builds[known] = self._build(known, request, given)
            self._check_read_only(made, specialised)
            kernel = self._table[key] = CompiledKernel(made, given)
        return kernel

    def _build(self, key: Key, request: Request, given: dict[str, object]) -> Build:
        names = ", ".join(f"{n}: {t}" for n, t in request.signature.items())
        facts = {
            "key": str(key),
            "repr": f"{self.__name__}({names})",
            "fn": SimpleNamespace(
                module=self.__module__, name=self.__qualname__, jit_function=self
            ),
            "compile": {
                "key": key,
                "signature": request.signature,
                "constants": request.constants,
                **given,
            },
            "is_manual_warmup": False,
        }
        if knobs.runtime.jit_cache_hook is not None:
            knobs.runtime.jit_cache_hook(**facts, already_compiled=False)
        made = build(request)
        _ = self.cache_key  # finds the globals that it depends on
        self._watched[:] = [
            (name, value, space) for (name, _), (value, space) in self.used_global_vals.items()
        ]
        if knobs.runtime.jit_post_compile_hook is not None:
            knobs.runtime.jit_post_compile_hook(**facts, already_compiled=made.from_disk)
        return made

    def _check_read_only(self, build: Build, specialised: dict[str, arguments.Specialised]) -> None:
        """Check that the kernel does not store to read-only memory."""
        position = 0
        for name, one in specialised.items():
            count = _width(one.type)
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
        self._builds.clear()
        self._watched.clear()

    def repr(self, specialization: object) -> str:
        """Return the name of the kernel, as the program gives it or as it is."""
        return self._fn_name if self._repr is None else self._repr(specialization)

    @property
    def _fn_name(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Refuse: a kernel is launched on a grid, other functions are called by kernels.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            f"{self.__name__} must be launched as {self.__name__}[grid](...), or called from a function "
            "that is decorated with @triton.jit"
        )


def _width(type_: TypeSpelling) -> int:
    """Return the number of arguments of the executable that a type stands for."""
    if isinstance(type_, tuple):
        return sum(map(_width, type_))
    return int(type_ != arguments.CONSTANT)


@overload
def jit(fn: Callable[..., T]) -> JITFunction[T]: ...


@overload
def jit(fn: None = None, **settings: object) -> Callable[[Callable[..., T]], JITFunction[T]]: ...


def jit(fn: Any = None, **settings: Any) -> Any:
    """Make a function a kernel, or one that kernels call; see :class:`JITFunction`.

    Args:
        fn: The function; None to get a decorator.
        **settings: Further arguments of :class:`JITFunction`.
    """
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
    "KernelInterface",
    "KernelParam",
    "MockTensor",
    "TensorWrapper",
    "aggregate",
    "constexpr_function",
    "jit",
    "must_use_result",
    "reinterpret",
]

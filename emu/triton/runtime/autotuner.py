"""Choice of settings by measurement, and computation of settings from arguments."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from emu.kernels.core.messages import shown
from emu.triton import knobs
from emu.triton.codegen.errors import CompileTimeAssertionFailure
from emu.triton.runtime import cache, checks, interpreting, timing
from emu.triton.runtime.arguments import Tensor, torch_guard
from emu.triton.runtime.config import Arguments, Config
from emu.triton.runtime.driver import driver
from emu.triton.runtime.errors import (
    AutotunerError,
    OutOfResources,
    PTXASError,  # noqa: F401 - programs import it from here
)
from emu.triton.runtime.interface import KernelInterface
from emu.triton.runtime.jit import JITFunction
from emu.triton.runtime.recorded import Measurement

_QUANTILES = (0.5, 0.2, 0.8)
_FAILED = [float("inf")] * 3
_IMPOSSIBLE = (OutOfResources, CompileTimeAssertionFailure)
_text = functools.cache(str)


class Autotuner(KernelInterface[Any]):
    """A kernel whose settings are chosen by measuring; :func:`autotune` makes it.

    Attributes:
        cache: The chosen settings by the values of ``keys`` and the arguments' dtypes.
        best_config: Those of the last launch.
        configs_timings: Milliseconds (median, 0.2 and 0.8 quantiles) of each, where it was measured last.
        bench_time: Seconds that the last measurement took.
    """

    def __init__(
        self,
        fn: KernelInterface[Any],
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Callable[..., object] | None = None,
        post_hook: Callable[..., object] | None = None,
        prune_configs_by: Mapping[str, object] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ) -> None:
        self.fn = checks.check_kernel("fn", fn, has_names=False)
        self.arg_names = checks.as_names("arg_names", arg_names)
        self.configs = _checked_configs(configs)
        self.keys = self._key_names(key)
        self.reset_to_zero = self._parameters("reset_to_zero", reset_to_zero)
        self.restore_value = self._parameters("restore_value", restore_value)
        self.cache: dict[tuple[object, ...], Config] = {}
        self.cache_results = checks.as_flag("cache_results", cache_results)
        for name, hook in (
            ("pre_hook", pre_hook),
            ("post_hook", post_hook),
            ("do_bench", do_bench),
        ):
            checks.check_function(name, hook)
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.pre_hook: Callable[..., object] = pre_hook or self._reset
        self.post_hook: Callable[..., object] = post_hook or self._restore
        self.restore_copies: dict[str, object] = {}
        self._set_pruning(prune_configs_by)
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        self._do_bench = do_bench or _bench_of(warmup, rep, use_cuda_graph)
        self.base_fn = _python_function(fn)
        self.__name__, self.__qualname__ = self.base_fn.__name__, self.base_fn.__qualname__
        self.__module__ = self.base_fn.__module__
        self.nargs: Arguments | None = None
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, list[float]] = {}
        self.bench_time = 0.0

    def _set_pruning(self, prune_configs_by: Mapping[str, object] | None) -> None:
        """Read the functions that choose the configurations to measure."""
        pruning = checks.as_mapping("prune_configs_by", prune_configs_by)
        self.perf_model = checks.check_function(
            "perf_model of prune_configs_by", pruning.get("perf_model")
        )
        self.configs_top_k = pruning.get("top_k", 1.0)
        self.early_config_prune = checks.check_function(
            "early_config_prune of prune_configs_by", pruning.get("early_config_prune")
        )

    def _key_names(self, given: Sequence[str]) -> list[str]:
        """Return the names of ``key``; one that is no parameter has no effect, as in Triton, but is told."""
        found = checks.as_names("key", given)
        unknown = [n for n in found if n not in self.arg_names]
        if unknown:
            name = getattr(_python_function(self.fn), "__name__", "the kernel")
            warnings.warn(
                f"key of autotune names {', '.join(map(repr, unknown))}, but {name} has no such parameter "
                f"({', '.join(self.arg_names)}); it has no effect",
                stacklevel=4,
            )
        return found

    def _parameters(self, what: str, given: Sequence[str] | None) -> list[str]:
        """Return names of parameters as a list.

        Raises:
            TypeError: ``given`` is not a list of names.
            ValueError: The kernel has no such parameter.
        """
        found = checks.as_names(what, given)
        unknown = [n for n in found if n not in self.arg_names]
        if unknown:
            raise ValueError(
                f"{what} must be names of parameters of the kernel "
                f"({', '.join(self.arg_names)}), but got {', '.join(map(repr, unknown))}"
            )
        return found

    @functools.cached_property
    def do_bench(self) -> Callable[..., Any]:
        """Function that measures a launch: ``do_bench(launch, quantiles=...)``."""
        return self._do_bench or driver.active.get_benchmarker()

    # ---- memory between measurements

    def _reset(self, kwargs: Arguments, reset_only: bool = False) -> None:
        for name in self.reset_to_zero:
            if kwargs[name] is not None:
                _fill_zero(kwargs[name])
        if not reset_only:
            self.restore_copies = {
                name: _copy(kwargs[name]) for name in self.restore_value if kwargs[name] is not None
            }

    def _restore(self, kwargs: Arguments, exception: Exception | None = None) -> None:
        for name, value in self.restore_copies.items():
            _copy_into(kwargs[name], value)
        self.restore_copies = {}

    # ---- choice

    def run(self, *args: object, **kwargs: object) -> Any:
        """Launch with the best settings for these arguments, which are measured the first time.

        Args:
            *args: The kernel's arguments.
            **kwargs: Arguments by name, options, and ``grid``.

        Raises:
            ValueError: An argument is also set by the configurations.
            AutotunerError: Pruning left no configuration.
        """
        # Kept in an attribute, as programs' hooks and pruning functions read it while this runs.
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            config = self.configs[0] if len(self.configs) == 1 else self._choose(args, kwargs)
            self.best_config = config
            settings = config.all_kwargs()
            _check_once(settings, kwargs)
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **settings})
            return self.fn.run(*args, **kwargs, **settings)
        finally:
            self.nargs = None

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled as functions are: by name

    def _choose(self, args: tuple[object, ...], kwargs: Arguments) -> Config:
        assert self.nargs is not None
        given = {n: v for n, v in {**self.nargs, **kwargs}.items() if n in self.arg_names}
        key = tuple(given[n] for n in self.keys if n in given)
        with torch_guard():
            dtypes = [getattr(value, "dtype", None) for value in given.values()]
        key += tuple(_text(dtype) for dtype in dtypes if dtype is not None)
        known = self.cache.get(key)
        if known is not None:
            return known
        configs = self.prune_configs(kwargs)
        if len(configs) == 1:
            self.cache[key] = configs[0]
            return configs[0]
        kernel = self._jit_function()
        if kernel is not None and interpreting.is_wanted(kernel.interpret, kwargs):
            # Times of Python say nothing, and a breakpoint should be met once. Not kept for compiled launches.
            return configs[0]
        if knobs.autotuning.mode == "first":
            best = self.cache[key] = self._first_that_compiles(configs, args, kwargs)
            self.configs_timings, hit = {}, False
        else:
            hit = self._measure_or_load(key, configs, args, kwargs)
            best = self.cache[key] = min(self.configs_timings, key=self.configs_timings.__getitem__)
        if not hit:
            # The measured runs have written to the tensors; the launch must find them as they were.
            self.pre_hook({**self.nargs, **kwargs, **best.all_kwargs()}, reset_only=True)
        if not self.configs_timings:
            return best  # nothing was measured that could be told
        if knobs.autotuning.listener is not None:
            knobs.autotuning.listener(
                fn=self._jit_function(),
                key=key,
                best_config=best,
                configs_timings=self.configs_timings,
                duration=None if hit else self.bench_time,
                cache_hit=hit,
            )
        if knobs.autotuning.print and not hit:
            sys.stdout.write(
                f"Triton autotuning for function {self.__name__},\nwith key as {key},\n"
                f"finished after {self.bench_time:.2f}s,\nbest config selected: {best};\n"
            )
        return best

    def _first_that_compiles(
        self, configs: list[Config], args: tuple[object, ...], kwargs: Arguments
    ) -> Config:
        """Return the first configuration that is possible; the first of all, for its error, where none is."""
        if self._jit_function() is None:  # what is launched is of the program's own
            return configs[0]
        for config in configs:
            settings = config.all_kwargs()
            _check_once(settings, kwargs)
            given = {**kwargs, **settings}
            # It may change what the code depends on, such as shapes of blocks.
            if config.pre_hook is not None:
                config.pre_hook({**(self.nargs or {}), **given})
            try:
                self.fn.run(*args, **{**given, "warmup": True})
            except _IMPOSSIBLE:
                continue
            return config
        return configs[0]

    def _jit_function(self) -> JITFunction[Any] | None:
        """Return the kernel under the decorators; None if what is launched is of the program's own."""
        fn = self.fn
        while fn is not None and not isinstance(fn, JITFunction):
            fn = getattr(fn, "fn", None)
        return fn

    def _measure_or_load(
        self,
        key: tuple[object, ...],
        configs: list[Config],
        args: tuple[object, ...],
        kwargs: Arguments,
    ) -> bool:
        """Fill ``configs_timings``; return whether they came from disk."""
        name, kernel = None, self._jit_function()
        kept = self.cache_results or knobs.autotuning.cache or knobs.autotuning.mode == "cached"
        if kept and kernel is not None and not any(c.pre_hook for c in configs):
            parts = [kernel.cache_key, repr(key), *map(str, configs)]
            digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:40]
            name = f"{digest}.autotune"
            times = _read_times(name, len(configs))
            if times is not None:
                self.configs_timings = dict(zip(configs, times, strict=True))
                return True
        start = time.perf_counter()
        self.configs_timings = self._measure(configs, args, kwargs)
        self.bench_time = time.perf_counter() - start
        if name is not None:
            times = [self.configs_timings[c] for c in configs]
            cache.write(name, json.dumps(times).encode())
        return False

    def _measure(
        self, configs: list[Config], args: tuple[object, ...], kwargs: Arguments
    ) -> dict[Config, list[float]]:
        """Measure each configuration; those that compile to the same code are measured once."""
        found: dict[object, tuple[list[float], Measurement]] = {}
        timings = {}
        for config in configs:
            same = self._code_of(config)
            # Most settings differ in num_warps and its like alone, which change nothing on a CPU.
            if same is None or same not in found:
                measured = Measurement(self.__name__, config.all_kwargs())
                with measured:
                    times = self._bench(*args, config=config, **kwargs)
                if times != _FAILED:
                    measured.write(times)
                found[same if same is not None else object()] = times, measured
            else:
                times, measured = found[same]
                measured.write_again(config.all_kwargs(), {"num_warps": config.num_warps})
            timings[config] = times
        return timings

    def _code_of(self, config: Config) -> Any:
        """Return a key of the code that a configuration compiles to; None if it has effects besides the code."""
        if config.pre_hook is not None or self._do_bench is not None:
            return None
        kernel = self._jit_function()
        _ = kernel.cache_key if kernel is not None else None  # finds out what the kernel asks for
        counts = ("num_warps",) if kernel is None or kernel.asks_num_warps else ()
        given = {n: v for n, v in config.all_kwargs().items() if n in (*self.arg_names, *counts)}
        return repr(sorted(given.items()))

    def _bench(self, *args: object, config: Config, **meta: object) -> list[float]:
        _check_once(config.all_kwargs(), meta)
        if knobs.autotuning.print:
            sys.stdout.write(f"Autotuning kernel {self.__name__} with config {config}\n")
        current = {**meta, **config.all_kwargs()}
        arguments = {**(self.nargs or {}), **current}

        def launch() -> None:
            if config.pre_hook is not None:
                config.pre_hook(arguments)
            self.pre_hook(arguments)
            try:
                self.fn.run(*args, **current)
            except Exception as error:
                self.post_hook(arguments, exception=error)
                raise
            self.post_hook(arguments, exception=None)

        try:
            times = self.do_bench(launch, quantiles=_QUANTILES)
        except _IMPOSSIBLE as error:
            if knobs.autotuning.print:
                sys.stdout.write(f"Autotuning failed with {error}\n")
            return list(_FAILED)
        return list(times) if isinstance(times, (list, tuple)) else [times]

    def prune_configs(self, kwargs: Arguments) -> list[Config]:
        """Return the settings that ``prune_configs_by`` leaves for these arguments.

        Raises:
            AutotunerError: No configuration is left.
            TypeError: ``top_k`` is neither a fraction up to 1.0 nor an int.
        """
        nargs = self.nargs or {}
        configs = list(self.configs)
        if self.early_config_prune is not None:
            configs = list(self.early_config_prune(self.configs, nargs, **kwargs))
            if not configs:
                raise AutotunerError(
                    "No valid autotuner configs after pruning. `early_config_prune` should return at "
                    "least one config."
                )
        if self.perf_model is None:
            return configs
        top_k = self.configs_top_k
        if isinstance(top_k, float) and top_k <= 1.0:
            top_k = max(1, int(len(configs) * top_k))
        elif not isinstance(top_k, int):
            raise TypeError(f"top_k must be a float of at most 1.0 or an int, but got {top_k!r}")
        if len(configs) <= top_k:
            return configs
        model = self.perf_model
        return sorted(configs, key=lambda c: model(**{**nargs, **kwargs, **c.all_kwargs()}))[:top_k]

    def warmup(self, *args: object, **kwargs: object) -> list[object]:
        """Compile for these arguments with all settings; returns the compiled kernels."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            return [
                self.fn.warmup(*args, **kwargs, **config.all_kwargs())
                for config in self.prune_configs(kwargs)
            ]
        finally:
            self.nargs = None


def _checked_configs(configs: Sequence[Config]) -> list[Config]:
    found = checks.as_list("configs", configs) or [Config({})]
    for config in found:
        if not isinstance(config, Config):
            raise TypeError(f"configs must be Configs, but one is {shown(config, with_type=True)}")
    return found


def _python_function(fn: Any) -> FunctionType:
    """Return the Python function under the decorators."""
    while not inspect.isfunction(fn):
        fn = fn.fn
    return fn


def _bench_of(
    warmup: float | None, rep: float | None, use_cuda_graph: bool
) -> Callable[..., Any] | None:
    """Return the measuring function that the deprecated parameters describe; None without them."""
    if warmup is None and rep is None and not use_cuda_graph:
        return None
    warnings.warn(
        "warmup, rep and use_cuda_graph of autotune are deprecated: pass do_bench",
        DeprecationWarning,
        stacklevel=4,
    )
    return functools.partial(
        timing.do_bench,
        warmup=25 if warmup is None else warmup,
        rep=100 if rep is None else rep,
    )


def _read_times(name: str, count: int) -> list[list[float]] | None:
    try:
        times = json.loads(cache.read(name) or b"")
    except ValueError:
        return None
    whole = isinstance(times, list) and len(times) == count
    return times if whole else None


def _check_once(settings: Arguments, given: Arguments) -> None:
    """Check that a launch does not give what a configuration gives."""
    if settings.keys().isdisjoint(given):
        return
    twice = ", ".join(sorted(settings.keys() & given.keys()))
    raise ValueError(f"arguments must not be given that the configurations give, but got {twice}")


def _fill_zero(value: Tensor) -> None:
    value.zero_() if hasattr(value, "zero_") else value.fill(0)


def _copy(value: Tensor) -> Tensor:
    return value.clone() if hasattr(value, "clone") else value.copy()


def _copy_into(target: Tensor, source: Tensor) -> None:
    target.copy_(source) if hasattr(target, "copy_") else np.copyto(target, source)


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, object] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., object] | None = None,
    post_hook: Callable[..., object] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
) -> Callable[[KernelInterface[Any]], Autotuner]:
    """Return a decorator that chooses a kernel's settings by measuring.

    Times are measured at the first launch with each combination of the values of ``key`` and the arguments'
    dtypes. Settings that differ only in what has no effect on a CPU (``num_warps`` and its like, unless the
    kernel asks for it) are measured once. ``knobs.autotuning.mode`` (``EMU_AUTOTUNE``) says whether to measure at all.

    Args:
        configs: The settings to choose from.
        key: Parameters whose values may call for other settings; other names have no effect.
        prune_configs_by: ``early_config_prune(configs, named_args, **kwargs)`` returns those to measure;
            ``perf_model(**arguments)`` estimates times, of which the ``top_k`` least are measured (a share
            as a float, or a number).
        reset_to_zero: Tensors set to zero before each run that is measured, and before the launch.
        restore_value: Tensors that are given their contents back after each run that is measured.
        pre_hook: ``pre_hook(arguments, reset_only=False)`` in place of the resetting.
        post_hook: ``post_hook(arguments, exception=None)`` in place of the restoring.
        warmup: Deprecated: milliseconds.
        rep: Deprecated: milliseconds.
        use_cuda_graph: Deprecated, and the same as without.
        do_bench: ``do_bench(launch, quantiles=...)`` measures. Default: ``triton.testing.do_bench``.
        cache_results: Keep the measured times on disk.

    Raises:
        ValueError: A name of ``reset_to_zero`` or ``restore_value`` is not one of the kernel's parameters.

    Warns:
        UserWarning: A name of ``key`` is not one of them.
    """

    settings = (
        *(reset_to_zero, restore_value, pre_hook, post_hook, prune_configs_by),
        *(warmup, rep, use_cuda_graph, do_bench, cache_results),
    )

    def decorate(fn: KernelInterface[Any]) -> Autotuner:
        names = checks.check_kernel("fn", fn).arg_names
        return Autotuner(fn, names, configs, key, *settings)

    return decorate


class Heuristics(KernelInterface[Any]):
    """A kernel some of whose arguments are computed from the others; :func:`heuristics` makes it."""

    def __init__(
        self,
        fn: KernelInterface[Any],
        arg_names: Sequence[str],
        values: Mapping[str, Callable[[Arguments], object]],
    ) -> None:
        self.fn = checks.check_kernel("fn", fn, has_names=False)
        self.arg_names = checks.as_names("arg_names", arg_names)
        self.values = checks.as_mapping("values", values)
        for name, compute in self.values.items():
            if not callable(compute):
                raise TypeError(
                    f"values must be functions of the arguments, but that of {name} is "
                    f"{shown(compute, with_type=True)}"
                )
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__module__ = fn.__module__

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled as functions are: by name

    def run(self, *args: object, **kwargs: object) -> Any:
        """Launch with the computed arguments besides those given."""
        for name, compute in self.values.items():
            kwargs[name] = compute({**dict(zip(self.arg_names, args, strict=False)), **kwargs})
        return self.fn.run(*args, **kwargs)

    def warmup(self, *args: object, **kwargs: object) -> Any:
        """Compile for these arguments and the computed ones."""
        for name, compute in self.values.items():
            kwargs[name] = compute({**dict(zip(self.arg_names, args, strict=False)), **kwargs})
        return self.fn.warmup(*args, **kwargs)


def heuristics(
    values: Mapping[str, Callable[[Arguments], object]],
) -> Callable[[KernelInterface[Any]], Heuristics]:
    """Return a decorator that computes some of a kernel's arguments.

    Args:
        values: By parameter: a function of all arguments by name, which gives the value.
    """

    def decorate(fn: KernelInterface[Any]) -> Heuristics:
        return Heuristics(checks.check_kernel("fn", fn), fn.arg_names, values)

    return decorate

"""Settings of the runtime, which programs reach as ``triton.knobs``.

*Kept* settings hold what is assigned to them and change nothing: they are about devices and compilers that
are not here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self, TypeVar

__all__ = [
    "HookChain",
    "Knobs",
    "amd",
    "autotuning",
    "build",
    "cache",
    "compilation",
    "language",
    "nvidia",
    "proton",
    "runtime",
]

F = TypeVar("F", bound=Callable[..., Any])


class HookChain(list[F]):
    """Functions that are called one after the other; a list, so that a launch tests it at no cost.

    Args:
        reversed: Call the last that was added first.
    """

    def __init__(self, reversed: bool = False) -> None:
        super().__init__()
        self.reversed = reversed

    @property
    def calls(self) -> list[F]:
        """The functions."""
        return self

    def add(self, func: F) -> None:
        """Add a function; one that is there already is not added again."""
        if func not in self:
            self.append(func)

    def remove(self, func: F) -> None:
        """Remove a function, if it is there."""
        if func in self:
            super().remove(func)

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Call each function with the arguments."""
        for call in reversed(self) if self.reversed else tuple(self):
            call(*args, **kwargs)


def _truth(name: str, default: bool = False) -> bool:
    return os.environ.get(name, "1" if default else "").lower() in ("1", "true", "on", "yes", "y")


@dataclass(eq=False, repr=False)
class Knobs:
    """A group of settings.

    The fields of a subclass are the settings, with factories for defaults that are read from the
    environment. As in Triton a program may assign other names as well; they are kept, and change nothing.
    """

    def __getattr__(self, name: str) -> Any:  # only for names that are not set
        raise AttributeError(f"there is no setting {name!r}; there are {sorted(self.knobs)}")

    @property
    def knobs(self) -> dict[str, object]:
        """All settings of the group by name."""
        return dict(vars(self))

    def reset(self) -> Self:
        """Set everything to its default, reading the environment again; return the group."""
        for setting in fields(self):
            factory = setting.default_factory
            setattr(self, setting.name, setting.default if factory is MISSING else factory())
        return self

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Undo what is assigned inside, at its end."""
        before = self.knobs
        try:
            yield
        finally:
            for name in self.knobs:
                if name not in before:
                    delattr(self, name)
            vars(self).update(before)


def _flag(name: str, default: bool = False) -> Any:
    """Return a field with the truth of an environment variable."""
    return field(default_factory=lambda: _truth(name, default))


def _text(name: str) -> Any:
    """Return a field with the text of an environment variable, or None."""
    return field(default_factory=lambda: os.environ.get(name))


def _reversed_hooks() -> HookChain[Callable[..., object]]:
    return HookChain(reversed=True)


@dataclass(eq=False, repr=False)
class RuntimeKnobs(Knobs):
    """Settings of launches.

    Attributes:
        interpret: Run kernels on the reference backend. Default: ``TRITON_INTERPRET``.
        debug: Check ``device_assert`` in every kernel. Default: ``TRITON_DEBUG``.
        launch_enter_hook: Called before every launch.
        launch_exit_hook: Called after every launch, the last added first.
        kernel_load_start_hook: Kept.
        kernel_load_end_hook: Kept.
        jit_cache_hook: Called before a kernel is compiled; or None.
        jit_post_compile_hook: Called after a kernel was compiled; or None.
        override_arch: Kept. Default: ``TRITON_OVERRIDE_ARCH``.
        sanitize_overflow: Kept.
        add_stages_inspection_hook: Kept.
    """

    interpret: bool = _flag("TRITON_INTERPRET")
    debug: bool = _flag("TRITON_DEBUG")
    launch_enter_hook: HookChain[Callable[..., object]] = field(default_factory=HookChain)
    launch_exit_hook: HookChain[Callable[..., object]] = field(default_factory=_reversed_hooks)
    kernel_load_start_hook: HookChain[Callable[..., object]] = field(default_factory=HookChain)
    kernel_load_end_hook: HookChain[Callable[..., object]] = field(default_factory=_reversed_hooks)
    jit_cache_hook: Callable[..., object] | None = None
    jit_post_compile_hook: Callable[..., object] | None = None
    override_arch: str | None = _text("TRITON_OVERRIDE_ARCH")
    sanitize_overflow: bool = True
    add_stages_inspection_hook: Callable[..., object] | None = None


@dataclass(eq=False, repr=False)
class AutotuningKnobs(Knobs):
    """Settings of the autotuner.

    Attributes:
        print: Print the chosen configuration. Default: ``TRITON_PRINT_AUTOTUNING``.
        cache: Keep measurements on disk. Default: ``TRITON_CACHE_AUTOTUNING``.
        listener: Called with every choice; or None.
    """

    print: bool = _flag("TRITON_PRINT_AUTOTUNING")
    cache: bool = _flag("TRITON_CACHE_AUTOTUNING")
    listener: Callable[..., object] | None = None


@dataclass(eq=False, repr=False)
class CompilationKnobs(Knobs):
    """Settings of compilation; all are kept and change nothing.

    Attributes:
        override: Default: ``TRITON_KERNEL_OVERRIDE``.
        dump_ir: Default: ``TRITON_KERNEL_DUMP``.
        always_compile: Default: ``TRITON_ALWAYS_COMPILE``.
        disable_line_info: Default: ``TRITON_DISABLE_LINE_INFO``.
        front_end_debugging: Default: ``TRITON_FRONT_END_DEBUGGING``.
        listener: None.
    """

    override: bool = _flag("TRITON_KERNEL_OVERRIDE")
    dump_ir: bool = _flag("TRITON_KERNEL_DUMP")
    always_compile: bool = _flag("TRITON_ALWAYS_COMPILE")
    disable_line_info: bool = _flag("TRITON_DISABLE_LINE_INFO")
    front_end_debugging: bool = _flag("TRITON_FRONT_END_DEBUGGING")
    listener: Callable[..., object] | None = None


@dataclass(eq=False, repr=False)
class LanguageKnobs(Knobs):
    """Settings of the language; those that change something are read when a kernel is compiled.

    Attributes:
        apply_input_precision: Round operands of fp32 products as ``tl.dot(input_precision=)`` says. Default:
            ``TRITON_APPLY_INPUT_PRECISION``.
        fp32_default: With it the precision of products that name none; None: ``"tf32"``. Default:
            ``TRITON_F32_DEFAULT``.
        default_fp_fusion: Kept. Default: ``TRITON_DEFAULT_FP_FUSION``, else True.
        strict_reduction_ordering: Kept. False.
    """

    apply_input_precision: bool = _flag("TRITON_APPLY_INPUT_PRECISION")
    fp32_default: str | None = _text("TRITON_F32_DEFAULT")
    default_fp_fusion: bool = _flag("TRITON_DEFAULT_FP_FUSION", True)
    strict_reduction_ordering: bool = False


@dataclass(eq=False, repr=False)
class CacheKnobs(Knobs):
    """Folders of Triton's cache; kept, as kernels are cached where ``EMU_CACHE_DIR`` says.

    Attributes:
        home_dir: Default: ``TRITON_HOME``, else the user's home.
        dir: Default: ``TRITON_CACHE_DIR``.
    """

    home_dir: str = field(
        default_factory=lambda: os.environ.get("TRITON_HOME", os.path.expanduser("~"))
    )
    dir: str | None = _text("TRITON_CACHE_DIR")


runtime = RuntimeKnobs()
autotuning = AutotuningKnobs()
compilation = CompilationKnobs()
language = LanguageKnobs()
cache = CacheKnobs()
nvidia = Knobs()
amd = Knobs()
proton = Knobs()
build = Knobs()


def allows_plain_globals() -> bool:
    """Return whether ``TRITON_ALLOW_NON_CONSTEXPR_GLOBALS`` lets kernels use globals that are no constexprs."""
    return os.environ.get("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS") == "1"

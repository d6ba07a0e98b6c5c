"""Launches as Triton's own launchers make them: the function behind ``CompiledKernel.run``.

Programs that keep compiled kernels themselves, Inductor before all, write Python that calls ``kernel.run``
with Triton's arguments: the grid, the stream, what the kernel said of itself, the hooks, and then the
kernel's arguments in the order of its parameters, constants included. A function of that signature is
generated for each kernel, since such a program makes thousands of these calls: what is known of the
parameters when the kernel is loaded is not looked at again when it is launched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from emu.triton import knobs
from emu.triton.formats import BY_SPELLING
from emu.triton.runtime import arguments
from emu.triton.runtime.arguments import CONSTANT
from emu.triton.runtime.launcher import MAX_EXTENT, extents

# Names of parameters share the scope of the generated text, hence the prefix ``_emu_``. The first try packs what
# nearly every launch passes; whatever it cannot pack is described with care, or refused with its name.
_TEXT = """\
def run(
    _emu_x, _emu_y, _emu_z, _emu_stream, _emu_function, _emu_facts, _emu_metadata, _emu_enter, _emu_exit{parameters}, /
):
    try:
        if _emu_modes():
            with _emu_guard():
                _emu_values = ({values})
        else:
            _emu_values = ({values})
    except _emu_misfits:
        _emu_values = _emu_pack(({names}))
    if not (0 < _emu_x <= {most} and 0 < _emu_y <= {most} and 0 < _emu_z <= {most}):
        _emu_x, _emu_y, _emu_z = _emu_extents((_emu_x, _emu_y, _emu_z))
        if not _emu_x:
            return
    if _emu_enter is not None and _emu_enter is not _emu_knobs.runtime.launch_enter_hook:
        _emu_enter(_emu_metadata)
    _emu_launch(_emu_x, _emu_y, _emu_z, _emu_values{given})
    if _emu_exit is not None and _emu_exit is not _emu_knobs.runtime.launch_exit_hook:
        _emu_exit(_emu_metadata)
"""


class Kernel(Protocol):
    """What is asked of a compiled kernel."""

    name: str
    src: Any
    launch: Callable[..., None]
    takes_arguments: bool

    @property
    def has_checks(self) -> bool:
        """Whether it checks its addresses as it runs."""

    def pack(self, parameter: str, value: object) -> arguments.Packed:
        """Return the value of a parameter as a launch packs it."""


def make(kernel: Kernel) -> Callable[..., None]:
    """Return the function that launches a kernel as Triton's own launchers do.

    Args:
        kernel: The kernel, loaded.

    Returns:
        ``run(x, y, z, stream, function, packed_metadata, launch_metadata, launch_enter_hook, launch_exit_hook,
        *arguments)``, with an argument for each parameter, constants included. Hooks that are not
        those of ``knobs.runtime``, which every launch calls, are called with ``launch_metadata``.
    """
    runner = _Runner(kernel)
    params = kernel.src.fn.params
    passed = [p.name for p in params if not p.is_constexpr]
    bound = ", ".join(f"{p.name!r}: {p.name}" for p in params)
    text = _TEXT.format(
        parameters="".join(f", {p.name}" for p in params),
        names="".join(f"{p.name}, " for p in params),
        values="".join(f"{runner.expression(name)}, " for name in passed),
        given=f", {{{bound}}}" if runner.needs_arguments else "",
        most=MAX_EXTENT,
    )
    scope: dict[str, Any] = {
        "_emu_modes": arguments.torch_modes(),
        "_emu_guard": arguments.torch_guard,
        "_emu_misfits": (AttributeError, TypeError, _NotPlain),
        "_emu_pack": runner.pack,
        "_emu_extents": extents,
        "_emu_knobs": knobs,
        "_emu_launch": kernel.launch,
        "_emu_careful": _raise_not_plain,
        "_emu_host": _host_address,
    }
    exec(compile(text, f"<run of {kernel.name}>", "exec"), scope)  # noqa: S102 - from names of parameters
    run: Callable[..., None] = scope["run"]
    run.__qualname__ = f"{kernel.name}.run"
    return run


class _NotPlain(Exception):
    """An argument is packed with care."""


def _raise_not_plain() -> NoReturn:
    raise _NotPlain


def _host_address(tensor: Any) -> int:
    """Return the address of a tensor in host memory."""
    if not tensor.is_cpu:
        raise _NotPlain
    address: int = tensor.data_ptr()
    return address


class _Runner:
    """What the generated function of a kernel calls in rare cases.

    Attributes:
        needs_arguments: Whether the kernel must be given the arguments by name.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        checks = kernel.has_checks
        hooks_want_them = kernel.src.fn.launch_metadata is not None
        self.needs_arguments = checks or hooks_want_them or kernel.takes_arguments

    def expression(self, parameter: str) -> str:
        """Return the text that packs the argument of a parameter."""
        spelled = self._kernel.src.signature[parameter]
        if spelled == CONSTANT:  # of this kernel, though not by its annotation
            return "0"
        if self._kernel.takes_arguments or not isinstance(spelled, str):
            return "_emu_careful()"
        if spelled.startswith("*"):
            torch = arguments.load_torch()
            if torch is None or torch.version.cuda is not None or torch.version.hip is not None:
                return f"_emu_host({parameter})"
            return f"{parameter}.data_ptr()"
        if spelled not in BY_SPELLING:
            return "_emu_careful()"
        if BY_SPELLING[spelled].is_float:
            return f"{parameter} if {parameter}.__class__ is float else _emu_careful()"
        low, high = arguments.bounds(spelled)
        fits = f"{parameter}.__class__ is int and {low} <= {parameter} <= {high}"
        return f"{parameter} if {fits} else _emu_careful()"

    def pack(self, values: Sequence[object]) -> tuple[arguments.Packed, ...]:
        """Return all arguments as a launch packs them.

        Args:
            values: The arguments, constants included.

        Raises:
            TypeError: One is of another type than its parameter.
            OverflowError: A number does not fit into its type.
            ValueError: One is in the memory of a GPU.
        """
        named = zip(self._kernel.src.fn.params, values, strict=True)
        with arguments.torch_guard():
            return tuple(self._kernel.pack(p.name, v) for p, v in named if not p.is_constexpr)

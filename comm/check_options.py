"""``Checks``: what is looked for while a program runs."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace

from emu.comm.errors import ArgumentError
from emu.kernels.core import environment
from emu.kernels.core.messages import shown

WEAK, STRONG = "weak", "strong"

_VALUE_OF = {"bounds:all": ("bounds", "all"), "race:all": ("race", "all")}
"""Names in a list of checks that are not names of fields."""


@dataclass(frozen=True, kw_only=True)
class Checks:
    """What is looked for while a program runs; docs/checking.md has a program for each.

    ``race`` is for PEs of :func:`emu.launch` and, in Triton's kernels, for the programs of a grid. ``bounds``, ``uninit``
    and ``streams`` are for kernels and operators on devices. The PEs' environment has these as ``EMU_CHECK``.

    Raises:
        ArgumentError: A value breaks a rule.
    """

    race: bool | str = False
    """Two accesses of the same symmetric memory, or of the same memory by two programs of a grid, at least one of
    them a write, that nothing orders; ``"all"`` reports programs of a grid that store the same value, too."""

    deadlock: bool = False
    """Why nothing moves any more. The report of a deadlock always says so; this one has no further cost."""

    bounds: bool | str = False
    """An address of a kernel outside of its tensor; ``"all"`` reports all of them."""

    uninit: bool = False
    """A kernel's use of device memory that was never written."""

    streams: bool = False
    """Two uses of a tensor on two streams that nothing orders."""

    leak: bool = False
    """Symmetric arrays that nobody freed, and stores that nobody waited for, when a PE's function returns."""

    memory_model: str = WEAK
    """``"weak"``: a program may count on no more than OpenSHMEM 1.5 promises: puts are complete at their target after
    ``quiet``, a barrier or the ``put_signal`` they belong to, and in order after ``fence``. ``"strong"``: what emu promises,
    where a put is complete when it returns."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "memory_model":
                if value not in (WEAK, STRONG):
                    raise ArgumentError(
                        f"memory_model must be 'weak' or 'strong', but got {shown(value)}"
                    )
            elif field.name in ("bounds", "race") and isinstance(value, str):
                if value != "all":
                    raise ArgumentError(
                        f"{field.name} must be True, False or 'all', but got {shown(value)}"
                    )
            elif not isinstance(value, bool):
                raise ArgumentError(f"{field.name} must be True or False, but got {shown(value)}")

    @classmethod
    def parse(cls, text: str, *, memory_model: str = WEAK) -> Checks:
        """Return what a list of checks means, as ``--check`` and ``EMU_CHECK`` have it.

        Args:
            text: Names with commas between them: ``race``, ``race:all``, ``deadlock``, ``bounds``, ``bounds:all``,
                ``uninit``, ``streams``, ``leak``; or ``all``. Empty: none.
            memory_model: As the field.

        Raises:
            ArgumentError: There is no such check, or two exclude each other.
        """
        if not isinstance(text, str):
            raise ArgumentError(f"check must be a string, but got {shown(text)}")
        chosen: dict[str, bool | str] = {}
        listed = [part.strip() for part in text.split(",")]
        for name in filter(None, listed):
            if name == "all":
                continue
            field, value = _VALUE_OF.get(name, (name, True))
            if field not in NAMES:
                near = difflib.get_close_matches(name, (*NAMES, *_VALUE_OF, "all"), 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ArgumentError(
                    f"check must be made of {', '.join((*NAMES, *_VALUE_OF, 'all'))}, with commas between them, "
                    f"but got {shown(name)}{hint}"
                )
            if chosen.get(field, value) != value:
                raise ArgumentError(
                    f"check must have one of {field} and {field}:all, but got {shown(text)}"
                )
            chosen[field] = value
        if "all" in listed:
            chosen = {**dict.fromkeys(NAMES, True), **chosen}
        return replace(cls(memory_model=memory_model), **chosen)  # type: ignore[arg-type]  # names of fields

    @classmethod
    def from_environment(cls) -> Checks:
        """Return the checks that ``EMU_CHECK`` and ``EMU_MEMORY_MODEL`` name.

        Raises:
            ArgumentError: They name something else.
        """
        return cls.parse(environment.check() or "", memory_model=environment.memory_model() or WEAK)

    @property
    def watches_pes(self) -> bool:
        """Whether PEs must be listened to."""
        return bool(self.race or self.leak)

    @property
    def of_kernels(self) -> str:
        """Those that kernels and operators have, by name."""
        return replace(self, deadlock=False, leak=False).names

    @property
    def names(self) -> str:
        """The checks by name, with commas between them, as ``EMU_CHECK`` has them."""
        chosen = ((name, getattr(self, name)) for name in NAMES)
        return ",".join(
            name if value is True else f"{name}:{value}" for name, value in chosen if value
        )


NAMES = tuple(field.name for field in fields(Checks) if field.name != "memory_model")
"""Names of the checks."""

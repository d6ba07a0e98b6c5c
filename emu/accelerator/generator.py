"""``torch.Generator(device="cuda")``: the host's generator under the name of another device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, overload

import torch

from emu.accelerator.annotations import DeviceLike
from emu.accelerator.device_tags import TAG, device_count, resolve
from emu.accelerator.patches import replace
from emu.accelerator.state import TYPES

_Real = torch._C.Generator


class _Meta(type(_Real)):  # type: ignore[misc] # its metaclass has no type
    """Instance check that accepts the generators which torch itself makes, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Real)


class Generator(_Real, metaclass=_Meta):  # type: ignore[misc, valid-type, unused-ignore] # Any without torch
    """``torch.Generator`` for emulated devices as well; its random bits are those of the CPU's."""

    def __new__(cls, device: DeviceLike = "cpu") -> Self:
        """Make a generator for ``device``."""
        where = resolve(device)
        if where.type not in TYPES:
            made: Self = super().__new__(cls, where)  # type: ignore[call-arg, unused-ignore] # the stub has no __new__
            return made
        made = super().__new__(cls, "cpu")  # type: ignore[call-arg, unused-ignore] # the stub has no __new__
        setattr(made, TAG, where)
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override, unused-ignore] # an attribute in the stub
        """Device that the generator was made for."""
        tag: torch.device | None = getattr(self, TAG, None)
        return torch.device("cpu") if tag is None else tag


class DefaultGenerator(Generator):
    """Generator that an emulated device uses where none is given: the host's default one.

    The host's generator has no offset; ``get_offset`` and ``set_offset`` keep a number for kernels that
    take their random numbers from a seed and an offset, as ``tl.rand`` does.
    """

    def __new__(cls, device: DeviceLike) -> Self:
        """Make the default generator of an emulated device."""
        made = super().__new__(cls, device)
        made._offset = 0
        return made

    _offset: int

    def manual_seed(self, seed: int) -> Self:
        """Seed the generator of all devices, and begin at offset 0."""
        torch.default_generator.manual_seed(int(seed))
        self._offset = 0
        super().manual_seed(int(seed))  # for calls that get this object as their generator
        return self

    def seed(self) -> int:
        """Seed with a number that nobody knows, and return it."""
        number: int = torch.default_generator.seed()
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """Return the number that the generator was seeded with."""
        return int(torch.default_generator.initial_seed())

    def get_state(self) -> torch.Tensor:
        """Return the state of the generator of all devices."""
        return torch.default_generator.get_state()

    def set_state(self, new_state: torch.Tensor) -> Self:
        """Set the state of the generator of all devices."""
        torch.default_generator.set_state(new_state)
        return self

    def get_offset(self) -> int:
        """Return the number that ``set_offset`` was given; 0 after seeding."""
        return self._offset

    def set_offset(self, offset: int) -> Self:
        """Keep an offset.

        Raises:
            ValueError: It is negative or no multiple of 4, which is what CUDA's generator wants.
        """
        if not isinstance(offset, int) or offset < 0 or offset % 4:
            raise ValueError(f"offset must be a multiple of 4 and at least 0, but got {offset!r}")
        self._offset = offset
        return self


class DefaultGenerators(Sequence[DefaultGenerator]):
    """``torch.cuda.default_generators``: one for each device of a type, made when it is asked for.

    Args:
        kind: The type of the devices.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._made: dict[int, DefaultGenerator] = {}

    def __len__(self) -> int:
        return device_count()

    @overload
    def __getitem__(self, index: int) -> DefaultGenerator: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[DefaultGenerator, ...]: ...

    def __getitem__(self, index: int | slice) -> DefaultGenerator | tuple[DefaultGenerator, ...]:
        numbers = range(len(self))[index]
        if not isinstance(numbers, int):
            return tuple(self[number] for number in numbers)
        if numbers not in self._made:
            device = torch.device(self._kind, numbers)
            self._made[numbers] = DefaultGenerator(device)
            _Real.manual_seed(self._made[numbers], torch.default_generator.initial_seed())
        return self._made[numbers]

    def manual_seed(self, seed: int) -> None:
        """Seed the generator of all devices; every offset is 0 then."""
        torch.default_generator.manual_seed(seed)
        for made in self._made.values():
            made.manual_seed(seed)


def install() -> None:
    """Replace ``torch.Generator``, which has no extension point."""
    replace(torch, "Generator", Generator, "the class has no extension point")

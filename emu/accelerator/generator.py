"""Generators of random numbers: one for each emulated device, beside the host's.

The state of a device's generator is that of CUDA's: a seed, and an offset that each draw moves on. A draw is a function
of these two numbers alone, so 16 bytes restore it, in another process as well, and kernels that make their own
random numbers, as with ``tl.rand``, can take them and move the offset on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Self, overload
from weakref import WeakValueDictionary

import torch

from emu.accelerator.annotations import Args, DeviceLike
from emu.accelerator.device_tags import (
    check_index,
    current_device,
    device_count,
    resolve,
    usable_devices,
)
from emu.accelerator.patches import replace
from emu.accelerator.state import TYPES

_Real = torch._C.Generator

OFFSET_STEP = 4
"""What one draw adds to the offset, which is a multiple of it, as CUDA's is."""
_STATE_BYTES = 16
_WORD = 1 << 64


class _Meta(type(_Real)):  # type: ignore[misc] # its metaclass has no type
    """Instance check that accepts the generators which torch itself makes, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is Generator:
            return isinstance(instance, _Real)
        return bool(super().__instancecheck__(instance))


class Generator(_Real, metaclass=_Meta):  # type: ignore[misc, valid-type, unused-ignore] # Any without torch
    """``torch.Generator``, for emulated devices as well."""

    def __new__(cls, device: DeviceLike = "cpu") -> Any:
        """Make a generator for ``device``."""
        where = resolve(device)
        if where.type in TYPES:
            made = _Real.__new__(DeviceGenerator, "cpu")  # type: ignore[call-arg, unused-ignore] # the stub has no __new__
            made._device = where
            made._seed, made._offset = host_seed(), 0
            _by_address[_address(made)] = made
            return made
        return super().__new__(cls, where)  # type: ignore[call-arg, unused-ignore] # the stub has no __new__


_by_address: WeakValueDictionary[int, DeviceGenerator] = WeakValueDictionary()


def as_device_generator(generator: torch.Generator) -> DeviceGenerator | None:
    """Return the generator of an emulated device that is meant; None for one of the host.

    Torch's C++ code hands on what is inside of a generator, and Python gets another object for it.
    """
    if isinstance(generator, DeviceGenerator):
        return generator
    return _by_address.get(_address(generator))


def _address(generator: Any) -> int:
    """Return the address of what is inside of a generator."""
    return int(generator._cdata)


class DeviceGenerator(Generator):
    """Generator of an emulated device."""

    _device: torch.device
    _seed: int
    _offset: int

    @property
    def device(self) -> torch.device:  # type: ignore[override, unused-ignore] # an attribute in the stub
        """Device that the generator was made for."""
        return self._device

    def next_draw(self) -> torch.Generator:
        """Return a generator of the host for one draw, and move the offset on.

        It is the thread's own: what another thread draws meanwhile does not change this draw.
        """
        seed, offset = self._seed, self._offset
        self._offset = offset + OFFSET_STEP
        engine = _engines.of_thread
        engine.manual_seed(_mixed(seed, offset))
        return engine

    def manual_seed(self, seed: int) -> Self:
        """Seed the generator, and begin at offset 0."""
        self._seed, self._offset = int(seed) % _WORD, 0
        return self

    def seed(self) -> int:
        """Seed with a number that nobody knows, and return it."""
        number: int = _Real().seed()
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """Return the number that the generator was seeded with."""
        return self._seed

    def get_state(self) -> torch.Tensor:
        """Return seed and offset, as 16 bytes."""
        with torch._C.DisableTorchFunction():
            words = torch.tensor([_signed(self._seed), self._offset], device="cpu")
            return words.view(torch.uint8)

    def set_state(self, new_state: torch.Tensor) -> Self:
        """Set seed and offset.

        Raises:
            TypeError: The state is no tensor of bytes.
            RuntimeError: It has not 16 of them.
            ValueError: The offset in it is negative or no multiple of 4.
        """
        if not isinstance(new_state, torch.Tensor) or new_state.dtype != torch.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor, but got {new_state!r}")
        if new_state.numel() != _STATE_BYTES:
            raise RuntimeError(
                f"RNG state is wrong size: that of {self._device} has {_STATE_BYTES} bytes, but got "
                f"{new_state.numel()}"
            )
        with torch._C.DisableTorchFunction():
            seed, offset = new_state.contiguous().clone().view(torch.int64).tolist()
        self.set_offset(offset)
        self._seed = seed % _WORD
        return self

    def get_offset(self) -> int:
        """Return the offset: 0 after seeding, and 4 more after each draw."""
        return self._offset

    def set_offset(self, offset: int) -> Self:
        """Set the offset.

        Raises:
            ValueError: It is negative or no multiple of 4, which is what CUDA's generator wants.
        """
        if not isinstance(offset, int) or offset < 0 or offset % OFFSET_STEP:
            raise ValueError(f"offset must be a multiple of 4 and at least 0, but got {offset!r}")
        self._offset = offset
        return self

    def clone_state(self) -> DeviceGenerator:
        """Return another generator of the device in the same state."""
        made: DeviceGenerator = Generator(self._device)
        return made.graphsafe_set_state(self)

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, state: torch.Generator) -> Self:
        """Take the state of another generator.

        Raises:
            TypeError: It is not that of an emulated device.
        """
        if not isinstance(state, DeviceGenerator):
            raise TypeError(f"state must be a generator of an emulated device, but got {state!r}")
        self._seed, self._offset = state._seed, state._offset
        return self

    def __reduce__(self) -> tuple[type[Generator], Args, tuple[int, int]]:  # type: ignore[override, unused-ignore] # a state of its own
        return Generator, (str(self._device),), (self._seed, self._offset)

    def __setstate__(self, state: tuple[int, int]) -> None:  # type: ignore[override, unused-ignore] # a state of its own
        self._seed, self._offset = state


class _Engines(threading.local):
    """The generator of the host with which a thread makes the draws of devices."""

    def __init__(self) -> None:
        self.of_thread: torch.Generator = _Real()


_engines = _Engines()


def is_engine(generator: torch.Generator) -> bool:
    """Return whether this is what :meth:`DeviceGenerator.next_draw` returns in this thread."""
    return _address(generator) == _address(_engines.of_thread)


def _signed(seed: int) -> int:
    """Return the int64 with the bits of a seed of 64 bits."""
    return (seed + (1 << 63)) % _WORD - (1 << 63)


def _mixed(seed: int, offset: int) -> int:
    """Return a seed for one draw, all bits of which depend on all bits of both numbers.

    The finaliser of splitmix64, once for each number: the host's generator looks at the lower half only.
    """
    word = seed
    for number in (0x9E3779B97F4A7C15, offset):
        word = (word + number * 0x9E3779B97F4A7C15) % _WORD
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % _WORD
        word ^= word >> 31
    return word


def host_seed() -> int:
    """Return the number that the host's generator was seeded with."""
    return int(torch.default_generator.initial_seed())


class DefaultGenerators(Sequence[DeviceGenerator]):
    """``torch.cuda.default_generators``: one for each device of a type, made when it is asked for.

    Args:
        kind: The type of the devices.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._made: dict[int, DeviceGenerator] = {}
        self._seed = host_seed()

    def __len__(self) -> int:
        return device_count()

    @overload
    def __getitem__(self, index: int) -> DeviceGenerator: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[DeviceGenerator, ...]: ...

    def __getitem__(self, index: int | slice) -> DeviceGenerator | tuple[DeviceGenerator, ...]:
        is_one = isinstance(index, int) and index >= 0
        numbers = range(usable_devices() if is_one else len(self))[index]
        if not isinstance(numbers, int):
            return tuple(self[number] for number in numbers)
        return self.of(numbers)

    def of(self, index: int) -> DeviceGenerator:
        """Return the generator of a device whose index is known to be in range."""
        made = self._made.get(index)
        if made is None:
            made = Generator(torch.device(self._kind, index)).manual_seed(self._seed)
            made = self._made.setdefault(index, made)
        return made

    def manual_seed_all(self, seed: int) -> None:
        """Seed the generators of all devices; every offset is 0 then."""
        self._seed = int(seed) % _WORD
        for made in tuple(self._made.values()):
            made.manual_seed(self._seed)

    @property
    def current(self) -> DeviceGenerator:
        """The generator of the current device."""
        return self.of(check_index(self._kind, current_device(self._kind)))


DEFAULT: dict[str, DefaultGenerators] = {}
"""The default generators of each device type, while devices are emulated."""


def default_generator(device: torch.device) -> DeviceGenerator:
    """Return the generator that an emulated device uses where none is given."""
    return DEFAULT[device.type].of(device.index)


def begin() -> None:
    """Begin with new default generators, seeded as the host's is."""
    DEFAULT.update({kind: DefaultGenerators(kind) for kind in TYPES})


def install() -> None:
    """Replace ``torch.Generator``, which has no extension point."""
    replace(torch, "Generator", Generator, "the class has no extension point")

"""Back ends as Triton describes them: the description of a device, and the options of compilation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from emu.triton.runtime import options as launch_options
from emu.triton.runtime.cache import triton_key
from emu.triton.runtime.driver import GPUTarget


class Language:
    """Languages of kernels."""

    TRITON = 0
    GLUON = 1


class Options(SimpleNamespace):
    """Options of a compilation, by attribute."""

    def hash(self) -> str:
        """Return a digest of the options."""
        return hashlib.sha256(repr(sorted(vars(self).items())).encode()).hexdigest()


class BaseBackend:
    """Base of back ends.

    Attributes:
        target: The device that it compiles for.
    """

    supports_native_tensor_specialization = True

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Return whether it can compile for a device."""
        raise NotImplementedError

    def hash(self) -> str:
        """Return a text of what compiled kernels depend on besides their source."""
        raise NotImplementedError

    def parse_options(self, options: Mapping[str, Any]) -> Any:
        """Return options of a launch with defaults for those that are missing."""
        raise NotImplementedError

    @staticmethod
    def parse_attr(desc: str) -> list[list[object]]:
        """Return what a compiler is told of an argument of which :meth:`get_int_specialization` says this."""
        return [["tt.divisibility", 16]] if "D" in desc else []

    @staticmethod
    def get_int_specialization(arg: int, **kwargs: Any) -> str:
        """Return ``"D"`` for an integer that 16 divides, else ``""``; emu's kernels do not depend on it."""
        return "D" if kwargs.get("align") and arg % 16 == 0 else ""

    @staticmethod
    def get_tensor_specialization(arg: Any, **kwargs: Any) -> str:
        """Return ``"D"`` for an address that 16 divides, else ``""``; emu's kernels do not depend on it."""
        return "D" if kwargs.get("align") and arg.data_ptr() % 16 == 0 else ""


class HostBackend(BaseBackend):
    """emu's compiler, which makes kernels for the CPU whatever device the program believes to have."""

    binary_ext = "o"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Return True: an emulated device runs on the CPU."""
        del target
        return True

    def hash(self) -> str:
        """Return a text that identifies the compiler and the device."""
        return f"{triton_key()}-{self.target}"

    def parse_options(self, options: Mapping[str, Any]) -> Options:
        """Return options of a launch with defaults for those that are missing.

        Raises:
            TypeError: There is no such option.
            ValueError: A value is out of bounds.
        """
        launch_options.check("a kernel", dict(options))
        return Options(**{**launch_options.IGNORED, "debug": False, **options})


def make_backend(target: GPUTarget) -> HostBackend:
    """Return the back end for a device.

    Raises:
        TypeError: ``target`` is not a description of a device.
    """
    if not isinstance(target, GPUTarget):
        raise TypeError(f"target must be a GPUTarget, but got {type(target).__name__}")
    return HostBackend(target)

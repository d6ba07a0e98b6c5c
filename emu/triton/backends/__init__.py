"""Backends of launches; importing the package registers those that come with it.

Internal: names may change in any release.
"""

from dataclasses import dataclass

from emu.triton.backends import cpu, cuda, reference
from emu.triton.backends.compiler import BaseBackend, HostBackend
from emu.triton.backends.driver import DriverBase
from emu.triton.runtime.driver import Driver

__all__ = ["Backend", "BaseBackend", "DriverBase", "backends", "cpu", "cuda", "reference"]


@dataclass(frozen=True)
class Backend:
    """A compiler and its driver, as programs find them in :data:`backends`.

    Attributes:
        compiler: Class of the compiler.
        driver: Class of the driver; ``driver.is_active()`` is always true.
    """

    compiler: type[BaseBackend]
    driver: type[Driver]


_host = Backend(HostBackend, Driver)

backends = {"emu": _host, "cpu": _host}
"""The one back end, by name; Inductor asks for ``"cpu"`` before it writes kernels for tensors of the host."""

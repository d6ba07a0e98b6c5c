"""Back ends as Triton describes them, where programs look for them."""

from emu.triton.runtime.described_backends import (
    BaseBackend,
    HostBackend,
    Language,
    Options,
    make_backend,
)
from emu.triton.runtime.driver import GPUTarget

__all__ = ["BaseBackend", "GPUTarget", "HostBackend", "Language", "Options", "make_backend"]

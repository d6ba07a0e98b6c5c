"""Run programs written for many accelerators on one ordinary machine.

Every PE (processing element) is an operating-system process, memory between PEs is real shared
memory, and the arithmetic is compiled by Numba to native code. Importing this package is cheap:
NumPy and Numba load when a public name that needs them is first used.
"""

import lazy_loader

_find, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __getattr__(name: str) -> object:
    # Not looked up at import: reading the metadata of installed distributions takes milliseconds.
    if name == "__version__":
        from importlib.metadata import version

        return version("tile-emu")
    return _find(name)


def __dir__() -> list[str]:
    return sorted(__all__)

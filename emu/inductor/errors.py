"""Errors of :mod:`emu.inductor`."""


class InductorError(RuntimeError):
    """Inductor cannot be led to emu's Triton any more."""

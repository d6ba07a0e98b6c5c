"""Errors of the front end, one class per phase, and its warnings."""

from __future__ import annotations


class PyptoError(Exception):
    """Base of every error of the front end."""


class ArgumentError(PyptoError, ValueError):
    """An argument breaks a rule; nothing was changed."""


class DTypeError(ArgumentError):
    """Data types do not fit together, or an op does not take them."""


class TileShapeError(PyptoError):
    """The tile shape was not set, or does not fit the op."""


class GroupError(ArgumentError):
    """A group of PEs is not known, or this PE is not in it."""


class KernelError(PyptoError):
    """A kernel was called with arguments that its annotations forbid."""


class GraphError(PyptoError):
    """The dataflow graph is used where it cannot be."""


class PyptoWarning(UserWarning):
    """Something is accepted that has no meaning on the emulator."""

"""What goes wrong with predictions."""

from __future__ import annotations

from emu.trace.errors import TraceError


class DeviceFileError(TraceError):
    """The file of a device is not there, cannot be read, or says what cannot be; the message names file, key, value and bound."""


class PredictionError(TraceError):
    """An argument of a prediction is wrong, or a trace cannot be replayed."""

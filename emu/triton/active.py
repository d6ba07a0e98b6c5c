"""Holder of the driver in use: ``triton.runtime.driver``."""

from __future__ import annotations

from typing import Any


class DriverConfig:
    """Holder of the driver; programs may put their own in its place.

    It knows no driver itself, so that what a driver offers, such as measuring, can use the holder;
    :mod:`emu.triton.runtime.driver` installs the default.

    Attributes:
        default: The driver in use unless a program sets another.
    """

    def __init__(self) -> None:
        self.default: Any = None
        self._active: Any = None

    @property
    def active(self) -> Any:
        """The driver in use."""
        return self.default if self._active is None else self._active

    def set_active(self, driver: Any) -> None:
        """Use another driver."""
        self._active = driver

    def reset_active(self) -> None:
        """Use the default driver again."""
        self._active = None


driver = DriverConfig()
"""The process's driver."""

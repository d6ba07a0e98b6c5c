"""Checks of kernels: what is added to a kernel to find its mistakes, and the reports.

Internal but for the errors: names may change in any release.
"""

from emu.triton.checks.errors import OutOfBoundsError

__all__ = ["OutOfBoundsError"]

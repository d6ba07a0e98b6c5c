"""HIP's codes of errors, and the exception that carries one to the function that returns it."""

from __future__ import annotations

SUCCESS = 0
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
INVALID_DEVICE = 101
MAP_FAILED = 205
INVALID_HANDLE = 400
NOT_SUPPORTED = 801

TEXTS = {
    SUCCESS: "no error",
    INVALID_VALUE: "invalid argument",
    OUT_OF_MEMORY: "out of memory",
    INVALID_DEVICE: "invalid device ordinal",
    MAP_FAILED: "mapping of buffer object failed",
    INVALID_HANDLE: "invalid resource handle",
    NOT_SUPPORTED: "operation not supported",
}
"""What ``hipGetErrorString`` says of a code."""


class HipError(Exception):
    """An error that a function of the library returns as a code.

    Args:
        code: HIP's code.
        why: What was wrong, with the argument's name and value.
    """

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why

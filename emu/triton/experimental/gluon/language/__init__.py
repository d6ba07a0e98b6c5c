"""``triton.experimental.gluon.language``: what annotations of Gluon's kernels name, which Triton has as well.

Internal: names may change in any release.
"""

from __future__ import annotations

from typing import NoReturn

from emu.triton.language import (
    bfloat16,
    constexpr,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_type,
    tensor,
    uint8,
    uint16,
    uint32,
    uint64,
)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"triton.experimental.gluon.language.{name} is not in emu: Gluon describes the warps, layouts and memories of one "
        "GPU, which a CPU does not have"
    )


__all__ = [
    "bfloat16",
    "constexpr",
    "dtype",
    "float16",
    "float32",
    "float64",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "pointer_type",
    "tensor",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

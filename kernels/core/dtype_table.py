"""The dtypes that the package knows: the one place where their formats and names stand.

Every other table of dtypes is a view of this one. It needs NumPy alone, so that what compiles without Numba (the
tile IR) can read it; kernels import it from ``emu.kernels.core.dtypes``, beside the conversions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT8_E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
FLOAT8_E5M2 = np.dtype(ml_dtypes.float8_e5m2)

# Arithmetic kinds: what a kernel must know to add. Signed and unsigned wrap alike.
BOOL, I8, I16, I32, I64, F16, BF16, F32, F64 = range(9)

F8_E4M3FN, F8_E5M2 = range(9, 11)


@dataclass(frozen=True, kw_only=True)
class DType:
    """An element type: its format, and its names elsewhere.

    Attributes:
        numpy: The NumPy dtype; its name is also torch's.
        kind: Arithmetic kind, :data:`BOOL` to :data:`F8_E5M2`.
        mantissa: Stored bits of the mantissa; 0 for integers.
        bias: Bias of the exponent; 0 for integers.
        triton: Triton's name.
        hccl: Name in ``HcclDataType``, or None.
    """

    numpy: np.dtype[np.generic]
    kind: int
    mantissa: int = 0
    bias: int = 0
    triton: str
    hccl: str | None = None

    @property
    def name(self) -> str:
        """Name of NumPy's and torch's dtype."""
        return self.numpy.name

    @property
    def bits(self) -> int:
        """Bits of an element in memory."""
        return 8 * self.numpy.itemsize

    @property
    def short(self) -> str:
        """Short name: ``f32``, ``bf16``, ``i8``, ``u8``, ``f8_e5m2``."""
        return (
            self.name.replace("bfloat", "bf")
            .replace("float", "f")
            .replace("int", "i")
            .replace("ui", "u")
        )

    @property
    def is_float(self) -> bool:
        """True for floating point."""
        return self.mantissa > 0


def _integer(dtype: type[np.generic], kind: int) -> DType:
    name = np.dtype(dtype).name
    return DType(numpy=np.dtype(dtype), kind=kind, triton=name, hccl=name.upper())


def _float(dtype: npt.DTypeLike, kind: int, mantissa: int, bias: int, *names: str) -> DType:
    triton, hccl = names if len(names) == 2 else (names[0], None)
    return DType(
        numpy=np.dtype(dtype), kind=kind, mantissa=mantissa, bias=bias, triton=triton, hccl=hccl
    )


# The position of a dtype in this table is its code in shared memory: add at the end only.
ALL: tuple[DType, ...] = (
    DType(numpy=np.dtype(np.bool_), kind=BOOL, triton="int1"),
    _integer(np.int8, I8),
    _integer(np.uint8, I8),
    _integer(np.int16, I16),
    _integer(np.uint16, I16),
    _integer(np.int32, I32),
    _integer(np.uint32, I32),
    _integer(np.int64, I64),
    _integer(np.uint64, I64),
    _float(np.float16, F16, 10, 15, "fp16", "FP16"),
    _float(BFLOAT16, BF16, 7, 127, "bf16", "BF16"),
    _float(np.float32, F32, 23, 127, "fp32", "FP32"),
    _float(np.float64, F64, 52, 1023, "fp64", "FP64"),
    _float(FLOAT8_E4M3FN, F8_E4M3FN, 3, 7, "fp8e4nv"),
    _float(FLOAT8_E5M2, F8_E5M2, 2, 15, "fp8e5"),
)
"""Every dtype that a kernel knows. The two of 8-bit floating point don't live in the symmetric heap."""

KINDS: dict[np.dtype[np.generic], int] = {d.numpy: d.kind for d in ALL if d.kind <= F64}
"""Every dtype of the symmetric heap, with its arithmetic kind."""

DTYPES: tuple[np.dtype[np.generic], ...] = tuple(KINDS)
"""The same dtypes in a fixed order; the index of one is its code in shared memory."""

FLOATS: dict[np.dtype[np.generic], int] = {d.numpy: d.kind for d in ALL if d.is_float}
"""Every floating-point dtype with its kind."""

BY_NAME: dict[str, DType] = {d.name: d for d in ALL}
"""The dtypes by their name."""


def kinds_of(*names: str) -> dict[np.dtype[np.generic], int]:
    """Return some dtypes with their arithmetic kinds, in the order of the names."""
    return {BY_NAME[name].numpy: BY_NAME[name].kind for name in names}

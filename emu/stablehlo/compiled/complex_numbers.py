"""Complex numbers and Fourier transforms, by functions of NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from emu.stablehlo.attributes import ComparisonDirection, FftType
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.reference.dtypes import is_complex, result_dtype
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.syntax import ints

_UFUNCS: dict[str, np.ufunc] = {
    "abs": np.absolute,
    "add": np.add,
    "divide": np.divide,
    "multiply": np.multiply,
    "negate": np.negative,
    "subtract": np.subtract,
    "EQ": np.equal,
    "NE": np.not_equal,
}


@dataclass(frozen=True)
class Elementwise(Form):
    """A function of NumPy, element by element.

    Attributes:
        function: Its key in the table of functions.
    """

    function: str

    def bind(self, site: Site) -> Action:
        """Return what computes."""
        ufunc = _UFUNCS[self.function]
        return site.all(lambda *arrays: ufunc(*arrays[:-1], out=arrays[-1]))


@plans(
    *("stablehlo.abs", "stablehlo.add", "stablehlo.compare", "stablehlo.divide"),
    *("stablehlo.multiply", "stablehlo.negate", "stablehlo.subtract"),
)
def _elementwise(context: Context) -> Form | None:
    op = context.op
    if not all(is_complex(x.dtype) for x in context.operands):
        return None  # Of other numbers what no kernel computes is the reference's.
    name = op.name.partition(".")[2]
    direction = op.properties.get("comparison_direction")
    if isinstance(direction, ComparisonDirection):
        name = direction.value
    if name not in _UFUNCS:
        return None
    in_place = () if name in ("abs", "EQ", "NE") else tuple((i, 0) for i in range(len(op.operands)))
    return Elementwise(name, in_place=in_place)


@dataclass(frozen=True)
class Join(Form):
    """Complex numbers of their parts."""

    def bind(self, site: Site) -> Action:
        """Return what joins."""

        def run(real: Array, imaginary: Array, result: Array) -> None:
            result.real, result.imag = real, imaginary

        return site.all(run)


@plans("stablehlo.complex")
def _complex(context: Context) -> Form | None:
    return Join()


# Fourier transforms


@dataclass(frozen=True)
class Fourier(Form):
    """A transform of the last dimensions, in the precision of its elements.

    Attributes:
        function: Name of the function.
        lengths: Extents of what is transformed; of a real result, its.
    """

    function: str
    lengths: tuple[int, ...]

    def bind(self, site: Site) -> Action:
        """Return what transforms."""
        transform: Callable[..., Array] = getattr(_library(), self.function)
        lengths, axes = self.lengths, tuple(range(-len(self.lengths), 0))
        return site.all(lambda x, result: np.copyto(result, transform(x, lengths, axes)))


def _library() -> ModuleType:
    """Return SciPy's transforms, which take several rows at once, or NumPy's where there is no SciPy."""
    try:
        import scipy.fft
    except ImportError:
        return np.fft
    found: ModuleType = scipy.fft
    return found


@plans("stablehlo.fft")
def _fft(context: Context) -> Form | None:
    (x,), op = context.operands, context.op
    kind, lengths = op.properties["fft_type"], ints(op.properties["fft_length"])
    if not isinstance(kind, FftType) or not x.size or 0 in (*lengths, *result_shape(op)):
        return None
    if np.result_type(x.dtype, np.complex64) != np.result_type(
        result_dtype(op.result.type), np.complex64
    ):
        return None
    return Fourier(f"{kind.value.lower()}n", tuple(lengths))

"""Names for annotations: classes of libraries without types, and values of compiled code.

llvmlite has no types, and Numba has them for little more than its own types: a type checker takes most of
these names for ``Any``. They tell a reader what a value is. Inside compiled code Numba infers the type of each
value, such as ``uint32``, from the arguments of the call; the annotation says what the value means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from llvmlite import ir
from numba.core.typing.context import BaseContext as BaseTypingContext
from numba.core.typing.templates import Signature as NumbaSignature
from numpy.typing import NDArray

# --- what builds code ----------------------------------------------------------------------------

IrBuilder: TypeAlias = ir.IRBuilder
IrType: TypeAlias = ir.Type
IrValue: TypeAlias = ir.Value
IrValues: TypeAlias = Sequence[ir.Value]

NumbaType: TypeAlias = Any  # a numba.types.Type with the attributes of its kind, such as dtype
TypingContext: TypeAlias = BaseTypingContext
TargetContext: TypeAlias = Any  # a numba.core.base.BaseContext, whose stub lacks most methods
Signature: TypeAlias = NumbaSignature
Codegen: TypeAlias = Callable[[TargetContext, IrBuilder, Signature, IrValues], IrValue]
Typed: TypeAlias = tuple[Signature, Codegen]
"""What types an intrinsic: its signature for these arguments, and the emitter of its code."""


class Intrinsic(Protocol):
    """A function for compiled code that is typed and emitted where it is called."""

    def __call__(self, *arguments: object) -> Any:
        """Only compiled code can call it."""


Dispatcher: TypeAlias = Any  # from numba.njit or cuda.jit; with the JIT disabled, the function
EntryPoint: TypeAlias = Callable[..., Any]  # a compiled kernel, behind Numba's dispatcher

# --- values of compiled code ---------------------------------------------------------------------

Bits: TypeAlias = Any  # a bit pattern, in an unsigned integer as wide as its origin makes it
Real: TypeAlias = Any  # a floating-point number, np.float32 or np.float64
Number: TypeAlias = Any  # a number of the dtype that the function is compiled for
Index: TypeAlias = int | tuple[int, ...]  # of an element of an array
CArray: TypeAlias = Any  # a view of raw memory as an array, made by ``carray``
KernelArray: TypeAlias = Any  # an array in a CUDA kernel; in the simulator what stands in for it

# --- arrays of a caller --------------------------------------------------------------------------

Array: TypeAlias = NDArray[Any]

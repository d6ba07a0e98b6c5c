"""CUDA's device functions.

Each takes tensors (or numbers) of the dtypes that it lists, or several whose common dtype it lists, as in Triton,
and calls the symbol of that overload. The stub beside this file tells static tools the names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.triton.language.conversion import to_tensor
from emu.triton.language.external import call_extern, promote_operands
from emu.triton.language.extra import bodies  # noqa: F401 - registers the symbols
from emu.triton.language.extra.signatures import SIGNATURES, Overload
from emu.triton.language.shapes import broadcast_tensors
from emu.triton.language.types import dtype
from emu.triton.language.values import TensorLike, tensor


def _function(name: str, overloads: Sequence[Overload]) -> Callable[..., tensor]:
    """Make a function that chooses an overload by dtypes and broadcasts its operands to one shape."""
    by_dtypes = {o.dtypes: o for o in overloads}
    count = len(overloads[0].dtypes)

    def function(*arguments: TensorLike, _semantic: object = None) -> tensor:
        del _semantic  # functions that are written for Triton hand on its builder
        if len(arguments) != count:
            raise TypeError(
                f"libdevice.{name} takes {count} operand{'s'[: count > 1]}, but got {len(arguments)}"
            )
        operands = [to_tensor(a) for a in arguments]
        chosen = by_dtypes.get(tuple(o.dtype.name for o in operands))
        if chosen is None and count > 1:
            promoted = promote_operands(operands)
            chosen = by_dtypes.get(tuple(o.dtype.name for o in promoted))
            operands = operands if chosen is None else promoted
        if chosen is None:
            accepted = " or ".join(f"({', '.join(types)})" for types in by_dtypes)
            raise TypeError(
                f"libdevice.{name} takes {accepted}, but got ({', '.join(map(str, operands))})"
            )
        return call_extern(chosen.symbol, broadcast_tensors(*operands), dtype(chosen.result))

    listed = "; ".join(f"{', '.join(o.dtypes)} -> {o.result}" for o in overloads)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Call ``libdevice``'s ``{name}`` for each element.\n\n    Takes {listed}.\n    "
    )
    return function


globals().update({name: _function(name, overloads) for name, overloads in SIGNATURES.items()})
__all__ = sorted(SIGNATURES)  # noqa: PLE0605 - a list of names that only a call can tell

"""Memory as single threads use it: loads and stores with an order, and atomic operations that each thread does."""

from __future__ import annotations

from emu.tile.objects import Attribute
from emu.triton.language import memory
from emu.triton.language.choices import one_of
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import bitcast_to, cast_to, to_tensor
from emu.triton.language.memory import nothing
from emu.triton.language.shapes import broadcast_tensors, wrapped
from emu.triton.language.threads import for_all
from emu.triton.language.types import dtype, pointer_type
from emu.triton.language.values import TensorLike, tensor
from emu.triton.source import asking_num_warps

_SCOPES = ("gpu", "sys")
_ALL = ("relaxed", "acquire", "release", "acq_rel")


def _checked(ptr: object, what: str) -> tuple[tensor, dtype]:
    """Return a pointer, or each thread's, and the dtype that it points to."""
    if not isinstance(ptr, tensor) or not isinstance(ptr.dtype, pointer_type):
        got = ptr if isinstance(ptr, tensor) else repr(unwrap(ptr))
        raise TypeError(f"ptr of {what} must be a pointer, but got {got}")
    return ptr, ptr.dtype.element_ty


def _order(scope: object, semantic: object, allowed: tuple[str, ...]) -> dict[str, Attribute]:
    """Return the attributes of an operation with an order.

    Raises:
        ValueError: One is unknown.
    """
    where = one_of("scope", scope, _SCOPES)
    return {"order": one_of("semantic", semantic, allowed), "scope": where}


def ld(
    ptr: tensor,
    scope: ConstexprLike[str] = "gpu",
    semantic: ConstexprLike[str] = "relaxed",
    _semantic: object = None,
) -> tensor:
    """Read what a pointer points to, or each thread's own.

    Args:
        ptr: The pointer.
        scope: ``"gpu"`` or ``"sys"``.
        semantic: ``"relaxed"`` or ``"acquire"``.

    Raises:
        TypeError: ``ptr`` is no pointer.
        ValueError: ``scope`` or ``semantic`` is unknown.
    """
    at, element = _checked(ptr, "ld")
    order = _order(scope, semantic, ("relaxed", "acquire"))
    return wrapped(builder().load(at.handle, order=order), element)


def st(
    ptr: tensor,
    val: TensorLike,
    scope: ConstexprLike[str] = "gpu",
    semantic: ConstexprLike[str] = "relaxed",
    _semantic: object = None,
) -> tensor:
    """Write where a pointer points to, or each thread's own.

    Args:
        ptr: The pointer.
        val: The value: a tensor of elements as wide, whose bits are written, or a number.
        scope: ``"gpu"`` or ``"sys"``.
        semantic: ``"relaxed"`` or ``"release"``.

    Raises:
        TypeError: ``ptr`` is no pointer.
        ValueError: ``scope`` or ``semantic`` is unknown, or the shapes do not fit.
    """
    at, element = _checked(ptr, "st")
    order = _order(scope, semantic, ("relaxed", "release"))
    value = to_tensor(val)
    if isinstance(val, tensor) and value.dtype.primitive_bitwidth == element.primitive_bitwidth:
        value = bitcast_to(value, element)
    pointers, values = broadcast_tensors(at, cast_to(value, element))
    builder().store(pointers.handle, values.handle, order=order)
    return nothing()


@asking_num_warps
def atomic_add(
    ptr: tensor,
    value: TensorLike,
    scope: ConstexprLike[str] = "gpu",
    semantic: ConstexprLike[str] = "relaxed",
    _semantic: object = None,
) -> tensor:
    """Add to memory atomically, once for each thread; return what each has found there.

    Args:
        ptr: The pointer: the same for all threads, or each thread's own.
        value: What is added.
        scope: ``"gpu"`` or ``"sys"``.
        semantic: ``"relaxed"``, ``"acquire"``, ``"release"`` or ``"acq_rel"``.

    Raises:
        TypeError: ``ptr`` is no pointer.
        ValueError: ``scope`` or ``semantic`` is unknown.
    """
    at, _ = _checked(ptr, "atomic_add")
    order = _order(scope, semantic, _ALL)
    return memory.atomic_add(for_all(at), value, None, str(order["order"]), str(order["scope"]))


@asking_num_warps
def atomic_cas(
    ptr: tensor,
    cmp_val: TensorLike,
    target_val: TensorLike,
    scope: ConstexprLike[str] = "gpu",
    semantic: ConstexprLike[str] = "relaxed",
    _semantic: object = None,
) -> tensor:
    """Write to memory where it holds a value, atomically and once for each thread; return what each has found there.

    Args:
        ptr: As of :func:`atomic_add`.
        cmp_val: The value that must be there.
        target_val: What is written.
        scope: As of :func:`atomic_add`.
        semantic: As of :func:`atomic_add`.

    Raises:
        TypeError: ``ptr`` is no pointer.
        ValueError: ``scope`` or ``semantic`` is unknown.
    """
    at, _ = _checked(ptr, "atomic_cas")
    order = _order(scope, semantic, _ALL)
    how = str(order["order"]), str(order["scope"])
    return memory.atomic_cas(for_all(at), cmp_val, target_val, *how)


@asking_num_warps
def red_release(
    barrier_ptr: tensor,
    value: TensorLike,
    scope: ConstexprLike[str] = "gpu",
    _semantic: object = None,
) -> tensor:
    """Add to memory as :func:`atomic_add` does; what was written before is there when the sum is.

    Args:
        barrier_ptr: The pointer.
        value: What is added.
        scope: As of :func:`atomic_add`.
    """
    atomic_add(barrier_ptr, value, scope, "release")
    return nothing()

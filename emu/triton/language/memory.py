"""Loads, stores and atomic operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from emu.tile.objects import Attribute
from emu.tile.ops import Rmw
from emu.triton.language.arithmetic import operand
from emu.triton.language.choices import one_of_or_none
from emu.triton.language.constants import ConstexprLike, composite, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import bitcast_to, bytes_of_bools, cast_to, to_tensor
from emu.triton.language.shapes import broadcast_handle, broadcast_tensors, wrapped
from emu.triton.language.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    pointer_type,
    void,
)
from emu.triton.language.values import TensorLike, member, tensor
from emu.triton.language.values import tuple as language_tuple

_LOAD_CACHE = ("", ".ca", ".cg", ".cs", ".cv")
_STORE_CACHE = ("", ".wb", ".cg", ".cs", ".wt")
_EVICTION = ("", "evict_first", "evict_last", "no_allocate")
_SEMANTICS = ("acquire", "release", "acq_rel", "relaxed")
_SCOPES = ("gpu", "cta", "sys")


class block_reference(composite):
    """Base of single values that stand for a whole block in memory: ``tl.load`` and ``tl.store`` take them."""

    def load_block(self, boundary_check: object, padding_option: object) -> tensor:
        """Return the block."""
        raise NotImplementedError

    def store_block(self, value: TensorLike, boundary_check: object) -> tensor:
        """Write the block."""
        raise NotImplementedError


def _pointer(x: object, what: str) -> tensor:
    if not isinstance(x, tensor) or not x.dtype.is_ptr():
        got = str(x) if isinstance(x, tensor) else repr(unwrap(x))
        hint = "; an array or a tensor that is passed to a kernel becomes a pointer, pointer + offsets too"
        if hasattr(x, "block_shape"):
            hint = "; a descriptor has methods for this"
        raise TypeError(f"{what} needs a pointer or a tensor of pointers, but got {got}{hint}")
    return x


def _element(pointer: tensor) -> dtype:
    assert isinstance(pointer.dtype, pointer_type)
    return pointer.dtype.element_ty


def _optional(x: TensorLike | None) -> tensor | None:
    if isinstance(x, tensor):
        return x
    value = unwrap(x)
    return None if value is None else to_tensor(value)


def _mask(x: TensorLike | None, what: str) -> tensor | None:
    mask = _optional(x)
    if mask is not None and mask.dtype != int1:
        raise TypeError(f"mask of {what} must be int1, but got {mask}; compare it with 0")
    return mask


def _check_scalars(pointer: tensor, what: str, **others: tensor | None) -> None:
    if pointer.extents:
        return
    for name, other in others.items():
        if other is not None and other.extents:
            raise ValueError(
                f"{name} of {what} must be a scalar where the pointer is one, but got {other}; "
                "pointer + tl.arange(...) is a tensor of pointers"
            )


def _check_no_block(boundary_check: object, padding_option: object) -> None:
    checked = unwrap(boundary_check)
    if isinstance(checked, language_tuple):
        checked = checked.values
    for name, value in (("boundary_check", checked), ("padding_option", unwrap(padding_option))):
        if value is not None and not (isinstance(value, tuple | list | str) and not value):
            raise ValueError(
                f"{name} must only be given for a block pointer, but got {value!r}; use mask and other"
            )


def _check_no_mask(what: str, **given: object) -> None:
    for name, value in given.items():
        if unwrap(value) is not None:
            raise ValueError(
                f"{name} of {what} must not be given for a block pointer; use boundary_check"
            )


def nothing() -> tensor:
    """Return what a store returns: a value of type void."""
    return tensor(None, void)


def load(
    pointer: tensor | block_reference,
    mask: TensorLike | None = None,
    other: TensorLike | None = None,
    boundary_check: object = (),
    padding_option: object = "",
    cache_modifier: ConstexprLike[str | None] = "",
    eviction_policy: ConstexprLike[str | None] = "",
    volatile: ConstexprLike[bool] = False,
) -> tensor:
    """Read the element that a pointer, or each of a tensor of pointers, points to.

    Args:
        pointer: A pointer, a tensor of pointers, or a block pointer.
        mask: Memory is read only where this is true; broadcast with the pointers.
        other: Value of the elements that are not read, converted to the dtype. Default: 0.
        boundary_check: Of a block pointer: the axes along which elements may be out of bounds.
        padding_option: Of a block pointer: ``"zero"`` or ``"nan"``, what these are read as. Default: 0.
        cache_modifier: Checked, without effect.
        eviction_policy: Checked, without effect.
        volatile: Without effect, as every load reads memory; a check of races takes it for relaxed.

    Returns:
        The elements, under the shape of the pointers.

    Raises:
        TypeError: ``pointer`` is not a pointer, or the mask is not int1.
        ValueError: ``other`` is given without ``mask``, or the shapes do not fit.
    """
    one_of_or_none("cache_modifier", cache_modifier, _LOAD_CACHE)
    one_of_or_none("eviction_policy", eviction_policy, _EVICTION)
    if isinstance(pointer, block_reference):
        _check_no_mask("load", mask=mask, other=other)
        return pointer.load_block(boundary_check, padding_option)
    _check_no_block(boundary_check, padding_option)
    is_volatile = bool(unwrap(volatile)) or unwrap(cache_modifier) == ".cv"
    return read(pointer, mask, other, {"order": "volatile"} if is_volatile else {})


Order = dict[str, str]
"""The attributes ``order`` and ``scope`` of a memory operation, those that it has."""


def read(
    pointer: tensor,
    mask: TensorLike | None,
    other: TensorLike | None,
    order: Mapping[str, Attribute],
) -> tensor:
    """Emit the load of a pointer or a tensor of pointers."""
    at = _pointer(pointer, "load")
    where, instead = _mask(mask, "load"), _optional(other)
    if where is None and instead is not None:
        raise ValueError("other must only be given with a mask, but mask is None")
    _check_scalars(at, "load", mask=where, other=instead)
    element = _element(at)
    at = bytes_of_bools(at)
    stored = _element(at)
    if instead is not None:
        # Before the broadcast, while it may still be a scalar.
        instead = cast_to(cast_to(instead, element), stored)
    at, *others = _broadcast_to_load(at, [v for v in (where, instead) if v is not None])
    handle = builder().load(at.handle, *(v.handle for v in others), order=order)
    return cast_to(wrapped(handle, stored), element)


def _broadcast_to_load(at: tensor, given: list[tensor]) -> tuple[tensor, ...]:
    """Return pointers, mask and other value, broadcast to one shape."""
    try:
        return broadcast_tensors(at, *given)
    except ValueError as error:
        said = " and ".join(map(str, given))
        raise ValueError(f"cannot load {at} with {said}: {error}") from None


@member
def store(
    pointer: tensor | block_reference,
    value: TensorLike,
    mask: TensorLike | None = None,
    boundary_check: object = (),
    cache_modifier: ConstexprLike[str | None] = "",
    eviction_policy: ConstexprLike[str | None] = "",
) -> tensor:
    """Write the element that a pointer, or each of a tensor of pointers, points to.

    Args:
        pointer: A pointer, a tensor of pointers, or a block pointer.
        value: Converted to the dtype and broadcast to the shape of the pointers.
        mask: Memory is written only where this is true.
        boundary_check: Of a block pointer: the axes along which elements may be out of bounds.
        cache_modifier: Checked, without effect.
        eviction_policy: Checked, without effect.

    Raises:
        TypeError: ``pointer`` is not a pointer, or const, or the mask is not int1.
        ValueError: The shapes do not fit.
    """
    one_of_or_none("cache_modifier", cache_modifier, _STORE_CACHE)
    one_of_or_none("eviction_policy", eviction_policy, _EVICTION)
    if isinstance(pointer, block_reference):
        _check_no_mask("store", mask=mask)
        return pointer.store_block(value, boundary_check)
    _check_no_block(boundary_check, "")
    return write(pointer, value, mask, {})


def write(
    pointer: tensor, value: TensorLike, mask: TensorLike | None, order: Mapping[str, Attribute]
) -> tensor:
    """Emit the store to a pointer or a tensor of pointers."""
    at, given, where = _prepared("store", pointer, value, mask)
    at_bytes = bytes_of_bools(at)
    given = cast_to(given, _element(at_bytes))
    handle = None if where is None else where.handle
    builder().store(at_bytes.handle, given.handle, handle, order=order)
    return nothing()


def _prepared(
    what: str, pointer: tensor, value: TensorLike, mask: TensorLike | None
) -> tuple[tensor, tensor, tensor | None]:
    """Return pointer, value (of the element's dtype) and mask, broadcast to the pointer's shape."""
    at, where = _pointer(pointer, what), _mask(mask, what)
    if at.dtype.is_const():
        raise TypeError(f"Cannot store to a constant pointer: {what} got {at}")
    given = to_tensor(value if isinstance(value, tensor) else operand(value))
    _check_scalars(at, what, value=given, mask=where)
    given = cast_to(given, _element(at))
    others = [given] if where is None else [given, where]
    shape = at.extents
    for name, other in zip(("value", "mask"), others, strict=False):
        try:
            fits = broadcast_tensors(at, other)[0].extents == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"{name} of {what} must broadcast to the shape of the pointers, but got {other} for {at}"
            )
    others = [wrapped(broadcast_handle(o.handle, shape), o.dtype) for o in others]
    return at, others[0], others[1] if where is not None else None


def _check_order(
    sem: ConstexprLike[str | None],
    scope: ConstexprLike[str | None],
    allowed: tuple[str, ...] = _SEMANTICS,
) -> None:
    one_of_or_none("sem", sem, allowed)
    one_of_or_none("scope", scope, _SCOPES)


def order_of(
    sem: ConstexprLike[str | None], scope: ConstexprLike[str | None], default: str = ""
) -> Order:
    """Return the attributes of an operation with these settings; those of the default are left out.

    Args:
        sem: ``sem``, checked.
        scope: ``scope``, checked.
        default: Value of ``sem`` where there is none; ``""``: an atomic operation's, which is no attribute.
    """
    given, among = unwrap(sem) or default, unwrap(scope)
    found = {"order": str(given)} if given and (default or given != "acq_rel") else {}
    return found if among in (None, "gpu") else {**found, "scope": str(among)}


def _check_atomic(what: str, element: dtype) -> None:
    narrow = element.primitive_bitwidth < 16 or element.name in ("int16", "uint16")
    half = element in (float16, bfloat16) and what != "atomic_add"
    if element.is_ptr() or narrow or half:
        raise TypeError(f"{what} does not support {element}")
    logical = what in ("atomic_and", "atomic_or", "atomic_xor")
    extremal = what in ("atomic_max", "atomic_min")
    unfit = logical and not element.is_int()
    if unfit or (extremal and element.is_floating() and element not in (float32, float64)):
        raise TypeError(f"{what} does not support {element}")


def _rmw(
    kind: Rmw,
    pointer: tensor,
    val: TensorLike,
    mask: TensorLike | None,
    sem: ConstexprLike[str | None],
    scope: ConstexprLike[str | None],
) -> tensor:
    what = f"atomic_{kind.value}"
    _check_order(sem, scope)
    at, value, where = _prepared(what, pointer, val, mask)
    _check_atomic(what, _element(at))
    handle = None if where is None else where.handle
    order = order_of(sem, scope)
    old = builder().atomic_rmw(kind, at.handle, value.handle, handle, order=order)
    return wrapped(old, value.dtype)


@member
def atomic_add(
    pointer: tensor,
    val: TensorLike,
    mask: TensorLike | None = None,
    sem: ConstexprLike[str | None] = None,
    scope: ConstexprLike[str | None] = None,
) -> tensor:
    """Add to memory, each element atomically; return what was there before.

    Args:
        pointer: A pointer, or a tensor of pointers.
        val: The addend, converted to the dtype and broadcast to the shape of the pointers.
        mask: Memory changes only where this is true; elsewhere the result is 0.
        sem: ``"acquire"``, ``"release"``, ``"acq_rel"`` (the default) or ``"relaxed"``.
        scope: ``"gpu"`` (the default), ``"cta"`` or ``"sys"``.

    Raises:
        TypeError: ``pointer`` is not a pointer, or the dtype has no such operation.
        ValueError: The shapes do not fit, or ``sem`` or ``scope`` is unknown.
    """
    return _rmw(Rmw.ADD, pointer, val, mask, sem, scope)


class AtomicFunction(Protocol):
    """Function with the parameters of :func:`atomic_add`."""

    def __call__(
        self,
        pointer: tensor,
        val: TensorLike,
        mask: TensorLike | None = None,
        sem: ConstexprLike[str | None] = None,
        scope: ConstexprLike[str | None] = None,
    ) -> tensor:
        """Change memory, each element atomically; return what was there before."""


def _atomic(kind: Rmw, what: str) -> AtomicFunction:
    """Make the function of the language for a kind of atomic operation."""

    def function(
        pointer: tensor,
        val: TensorLike,
        mask: TensorLike | None = None,
        sem: ConstexprLike[str | None] = None,
        scope: ConstexprLike[str | None] = None,
    ) -> tensor:
        return _rmw(kind, pointer, val, mask, sem, scope)

    function.__name__ = function.__qualname__ = f"atomic_{kind.value}"
    function.__doc__ = f"{what} atomically; otherwise as :func:`atomic_add`."
    return member(function)


atomic_max = _atomic(Rmw.MAX, "Store the larger value")
atomic_min = _atomic(Rmw.MIN, "Store the smaller value")
atomic_and = _atomic(Rmw.AND, "Store the bitwise and")
atomic_or = _atomic(Rmw.OR, "Store the bitwise or")
atomic_xor = _atomic(Rmw.XOR, "Store the bitwise exclusive or")
atomic_xchg = _atomic(Rmw.EXCHANGE, "Store the value")


@member
def atomic_cas(
    pointer: tensor,
    cmp: TensorLike,
    val: TensorLike,
    sem: ConstexprLike[str | None] = None,
    scope: ConstexprLike[str | None] = None,
) -> tensor:
    """Write ``val`` where memory holds ``cmp``, each element atomically; return what was there before.

    Elements are compared as bits: of floats, NaN equals itself and -0 differs from 0.

    Args:
        pointer: A pointer, or a tensor of pointers; elements of 16, 32 or 64 bits.
        cmp: The expected value, converted to the dtype and broadcast to the shape of the pointers.
        val: The value to write, likewise. If it is an integer tensor as wide as the elements, the result has
            its signedness.
        sem: As of :func:`atomic_add`.
        scope: As of :func:`atomic_add`.
    """
    _check_order(sem, scope)
    at, expected, _ = _prepared("atomic_cas", pointer, cmp, None)
    _, new, _ = _prepared("atomic_cas", pointer, val, None)
    element = _element(at)
    if element.is_ptr() or element.primitive_bitwidth not in (16, 32, 64):
        raise TypeError(f"atomic_cas needs elements of 16, 32 or 64 bits, but got {at}")
    order = order_of(sem, scope)
    handle = builder().atomic_cas(at.handle, expected.handle, new.handle, order=order)
    old = wrapped(handle, new.dtype)
    given = val.dtype if isinstance(val, tensor) else old.dtype
    same_width = given.is_int() and given.primitive_bitwidth == old.dtype.primitive_bitwidth
    return bitcast_to(old, given) if same_width and old.dtype.is_int() else old


@member
def atomic_load(
    pointer: tensor,
    mask: TensorLike | None = None,
    sem: ConstexprLike[str | None] = None,
    scope: ConstexprLike[str | None] = None,
) -> tensor:
    """Read, each element atomically; ``sem`` is ``"acquire"`` (the default) or ``"relaxed"``."""
    _check_order(sem, scope, ("acquire", "relaxed"))
    _number(_pointer(pointer, "atomic_load"), "atomic_load")
    return read(pointer, mask, None, order_of(sem, scope, "acquire"))


@member
def atomic_store(
    pointer: tensor,
    val: TensorLike,
    mask: TensorLike | None = None,
    sem: ConstexprLike[str | None] = None,
    scope: ConstexprLike[str | None] = None,
) -> tensor:
    """Write, each element atomically; ``sem`` is ``"release"`` (the default) or ``"relaxed"``."""
    _check_order(sem, scope, ("release", "relaxed"))
    _number(_pointer(pointer, "atomic_store"), "atomic_store")
    return write(pointer, val, mask, order_of(sem, scope, "release"))


def _number(pointer: tensor, what: str) -> None:
    if _element(pointer).is_ptr():
        raise TypeError(f"{what} needs elements that are numbers, but got {pointer}")

"""Writes to indexed parts of a tensor: quantised segments, slices, slots of a KV cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.accelerator.arrays import (
    Array,
    Tensor,
    TensorT,
    as_array,
    as_type_of,
    bump_version,
    check_together,
)
from emu.comm.errors import ArgumentError
from emu.comm.world.checks import check
from emu.kernels.quant import quant_scatter
from emu.kernels.strided.operands import check_target
from emu.torch_npu.checks import caller_names, check_dtype
from emu.torch_npu.dtypes import INT32, INT64

_NAMES = {"target": "self", "scales": "quant_scales", "zero_points": "quant_zero_points"}


def npu_quant_scatter_(
    self: TensorT,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    axis: int = 0,
    quant_axis: int = 1,
    reduce: str = "update",
    *,
    align: int | None = 32,
    overlap: str = "refuse",
) -> TensorT:
    """Quantise ``updates`` and write each row into a segment of ``self``, in place.

    With ``q = clip(rint(updates / quant_scales + quant_zero_points), -128, 127)``, every operation in
    fp32 and rounded separately, halves to even, NaN to 0:
    ``self[i, ..., indices[i] + k, ...] = q[i, ..., k, ...]`` for indices of one axis,
    ``self[indices[i, 0], ..., indices[i, 1] + k, ...] = q[i, ..., k, ...]`` for pairs; k goes along
    ``axis``. Updates without elements change nothing, and their indices are ignored.

    Args:
        self: int8, 3 to 8 axes, any strides.
        indices: int32 or int64 of shape [n] or [n, 2]; n is the first extent of ``updates``.
        updates: bf16 or fp16, as many axes as ``self``. For indices of one axis it has at most as many
            rows; along ``axis`` at most its extent; otherwise its extents.
        quant_scales: As many elements as the last axis of ``updates``, in any shape; bf16 for bf16
            updates, fp32 for fp16.
        quant_zero_points: As many elements; bf16 for bf16 updates, int32 for fp16. Default: none.
        axis: The axis along which a segment begins at its index, neither the first nor the last. The
            default, 0, is therefore refused: give -2 or the like.
        quant_axis: The axis of scales and zero points, which must be the last. The default, 1, is
            therefore refused: give -1.
        reduce: ``"update"``.
        align: Divisor of the last extent of ``updates``; None: no such rule. Default: 32, the number of
            bytes that the hardware writes at once.
        overlap: ``"refuse"`` where two segments overlap, or ``"last"``: the later row wins. Default:
            refuse.

    Returns:
        ``self``.

    Raises:
        ArgumentError: An argument breaks a rule, an index leaves no room for its segment, or segments
            overlap with ``overlap="refuse"``. ``self`` is unchanged.
    """
    scatter = _QuantScatter(
        indices=indices, updates=updates, quant_scales=quant_scales,
        quant_zero_points=quant_zero_points, axis=axis, quant_axis=quant_axis, reduce=reduce,
        align=align, overlap=overlap,
    )  # fmt: skip
    scatter.write(self, as_array("self", self, detach=True))
    return self


def npu_quant_scatter(
    self: TensorT,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    axis: int = 0,
    quant_axis: int = 1,
    reduce: str = "update",
    *,
    align: int | None = 32,
    overlap: str = "refuse",
) -> TensorT:
    """Return a dense copy of ``self`` with quantised updates written into it.

    ``self`` is unchanged; otherwise :func:`npu_quant_scatter_`, whose arguments and errors these are.

    Returns:
        A new array or tensor of the kind and on the device of ``self``.
    """
    scatter = _QuantScatter(
        indices=indices, updates=updates, quant_scales=quant_scales,
        quant_zero_points=quant_zero_points, axis=axis, quant_axis=quant_axis, reduce=reduce,
        align=align, overlap=overlap,
    )  # fmt: skip
    target = as_array("self", self, detach=True).copy()
    scatter.write(self, target)
    return as_type_of(target, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _QuantScatter:
    """Arguments of :func:`npu_quant_scatter_` except ``self``."""

    indices: Tensor
    updates: Tensor
    quant_scales: Tensor
    quant_zero_points: Tensor | None
    axis: int
    quant_axis: int
    reduce: str
    align: int | None
    overlap: str

    def write(self, given: Tensor, target: Array) -> None:
        """Check the arguments and write to ``target``, the memory of ``given`` or a copy of it."""
        operands = {
            "indices": self.indices,
            "updates": self.updates,
            "quant_scales": self.quant_scales,
            "quant_zero_points": self.quant_zero_points,
        }
        check_together(self=given, **operands)
        check.one_of("reduce", self.reduce, ("update",))
        # Quantised values have no gradient, so that operands which require one are read as they are.
        zero = self.quant_zero_points
        if zero is not None:
            zero = as_array("quant_zero_points", zero, detach=True)
        arrays = (
            as_array("indices", self.indices),
            as_array("updates", self.updates, detach=True),
            as_array("quant_scales", self.quant_scales, detach=True),
            zero,
        )
        with caller_names(_NAMES):
            quant_scatter(
                target,
                *arrays,
                axis=check.integer("axis", self.axis),
                quant_axis=check.integer("quant_axis", self.quant_axis),
                align=None if self.align is None else check.integer("align", self.align),
                overlap=self.overlap,
            )


def npu_scatter_nd_update_(
    self: TensorT, indices: Tensor, updates: Tensor, *, overlap: str = "refuse"
) -> TensorT:
    """Write slices of ``updates`` to the places that ``indices`` name: ``self[indices] = updates``.

    The last axis of ``indices`` holds places: ``self[tuple(indices[i])] = updates[i]``, where i may be
    several indices.

    Args:
        self: Integers, bool, or floating point of at most 64 bits; any strides. Changed in place.
        indices: int32 or int64, [..., d], d from 1 to the number of axes of ``self``, each
            in 0..extent-1.
        updates: Of the dtype of ``self``, shape ``indices.shape[:-1] + self.shape[d:]``, any strides.
        overlap: ``"refuse"`` where a place is named twice, or ``"last"``: the later one, in the order of
            ``indices``, wins. Default: refuse, since on the hardware any of them may.

    Returns:
        ``self``.

    Raises:
        ArgumentError: An argument breaks a rule, or requires grad while torch records gradients.
            ``self`` is unchanged.
    """
    check_together(self=self, indices=indices, updates=updates)
    _scatter_nd(as_array("self", self), indices, updates, overlap)
    bump_version(self)
    return self


def npu_scatter_nd_update(
    self: TensorT, indices: Tensor, updates: Tensor, *, overlap: str = "refuse"
) -> TensorT:
    """Return a dense copy of ``self`` with slices written into it; see :func:`npu_scatter_nd_update_`.

    Returns:
        A new array or tensor of the kind and on the device of ``self``, which is unchanged.
    """
    check_together(self=self, indices=indices, updates=updates)
    target = as_array("self", self).copy()
    _scatter_nd(target, indices, updates, overlap)
    return as_type_of(target, self)


def _scatter_nd(target: Array, indices: Tensor, updates: Tensor, overlap: str) -> None:
    check.one_of("overlap", overlap, ("refuse", "last"))
    places = _indices("indices", as_array("indices", indices))
    rows = as_array("updates", updates)
    depth = places.shape[-1] if places.ndim else 0
    if not 1 <= depth <= target.ndim:
        raise ArgumentError(
            f"indices must have a last extent in 1..{target.ndim}, the number of axes of self, "
            f"but got shape {places.shape}"
        )
    check_dtype("updates", rows, target.dtype)
    check.array_shape("updates", rows, places.shape[:-1] + target.shape[depth:])
    _writable("self", target, {"indices": places, "updates": rows})
    flat = places.reshape(-1, depth)
    for axis in range(depth):
        name = "indices" if depth == 1 else f"indices[..., {axis}]"
        _in_range(name, flat[:, axis], target.shape[axis])
    kept = _distinct("indices", flat, target.shape[:depth], overlap)
    _write(target, flat, rows.reshape(len(flat), *target.shape[depth:]), kept)


def npu_scatter_pa_kv_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    overlap: str = "refuse",
) -> None:
    """Write the keys and values of new tokens into a paged cache, in place.

    Token i goes to its slot: ``key_cache[slot // size, slot % size] = key[i]`` with
    ``slot = slot_mapping[i]`` and ``size`` the second extent of the cache; likewise its value.

    Args:
        key: [tokens, heads, width]; any dtype that :func:`npu_scatter_nd_update_` takes, any strides.
        value: [tokens, heads, width], which may have another number of heads, width and dtype.
        key_cache: [blocks, size, heads, width] of the dtype of ``key``, any strides.
        value_cache: [blocks, size, heads, width] of the dtype of ``value``, any strides.
        slot_mapping: [tokens] of int32 or int64, each a slot of both caches.
        overlap: ``"refuse"`` where two tokens have one slot, or ``"last"``: the later token wins.
            Default: refuse.

    Raises:
        ArgumentError: An argument breaks a rule, or requires grad while torch records gradients.
            Neither cache is changed.
    """
    given = {
        "key": key, "value": value, "key_cache": key_cache, "value_cache": value_cache,
        "slot_mapping": slot_mapping,
    }  # fmt: skip
    check_together(**given)
    check.one_of("overlap", overlap, ("refuse", "last"))
    arrays = {name: as_array(name, one) for name, one in given.items()}
    slots = _indices("slot_mapping", arrays["slot_mapping"])
    if slots.ndim != 1:
        raise ArgumentError(f"slot_mapping must have shape [tokens], but got {slots.shape}")
    for name in ("key", "value"):
        rows, cache = arrays[name], arrays[f"{name}_cache"]
        if cache.ndim != 4:
            raise ArgumentError(
                f"{name}_cache must have shape [blocks, size, heads, width], but got {cache.shape}"
            )
        check.array_shape(name, rows, (len(slots), *cache.shape[2:]))
        check_dtype(name, rows, cache.dtype)
        others = {other: array for other, array in arrays.items() if other != f"{name}_cache"}
        _writable(f"{name}_cache", cache, others)
        _in_range("slot_mapping", slots, cache.shape[0] * cache.shape[1])
    # Both caches are checked before either is written.
    kept = _distinct(
        "slot_mapping", slots.reshape(-1, 1), (int(slots.max(initial=0)) + 1,), overlap
    )
    for name in ("key", "value"):
        cache = arrays[f"{name}_cache"]
        if len(slots):
            _write(cache, np.stack(np.divmod(slots, cache.shape[1]), 1), arrays[name], kept)
            bump_version(given[f"{name}_cache"])


def _indices(name: str, array: Array) -> Array:
    return check_dtype(name, array, INT32, INT64)


def _writable(name: str, target: Array, sources: dict[str, Array]) -> None:
    """Check that a target can be written, and that its dtype has integers of the same size."""
    if (
        target.dtype.kind not in "biufV"
        or target.dtype.names
        or target.itemsize not in (1, 2, 4, 8)
    ):
        raise ArgumentError(
            f"{name} must be of integers, bool or floating point of at most 64 bits, "
            f"but got {target.dtype}"
        )
    with caller_names():
        check_target(name, target, sources)


def _in_range(name: str, column: Array, extent: int) -> None:
    wrong = (column < 0) | (column >= extent)
    if wrong.any():
        row = int(wrong.argmax())
        raise ArgumentError(
            f"{name} must be in 0..{extent - 1}, but got {column[row]} in row {row}"
        )


def _distinct(name: str, flat: Array, shape: tuple[int, ...], overlap: str) -> Array | None:
    """Return the rows to write where places are named twice; None: all, since they are distinct."""
    keys = np.zeros(len(flat), np.int64)
    for axis, extent in enumerate(shape):
        keys = keys * extent + flat[:, axis]
    order = keys.argsort(kind="stable")
    again = np.diff(keys[order]) == 0
    if not again.any():
        return None
    if overlap == "refuse":
        at = int(again.argmax())
        first, second = int(order[at]), int(order[at + 1])
        raise ArgumentError(
            f"{name} must name each place once, but got {flat[first].tolist()} in rows {first} "
            f"and {second}"
        )
    kept: Array = order[np.append(~again, True)]
    return kept


def _write(target: Array, flat: Array, rows: Array, kept: Array | None) -> None:
    """Write rows to distinct places, as integers of their size, which NumPy moves faster."""
    if kept is not None:
        flat, rows = flat[kept], rows[kept]
    word = f"u{target.itemsize}"
    target.view(word)[tuple(flat.T)] = rows.view(word)

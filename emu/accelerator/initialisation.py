"""Which memory of emulated devices was written: what calls into torch tell about it.

While :mod:`emu.kernels.core.shadows` keeps shadows, ``torch.empty`` and its siblings give their memory one, and
operations in place mark what they write. Writers that are not known here change the memory's contents, by which they are found.
"""

from __future__ import annotations

import os

import torch

import emu
from emu.accelerator.annotations import Args, Kwargs, TorchFunction
from emu.accelerator.device_tags import tag_of
from emu.kernels.core import shadows

EMPTY = {
    torch.empty,
    torch.empty_like,
    torch.empty_strided,
    torch.empty_permuted,
    torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
}
"""Functions whose results hold nothing yet."""

COPIES = {torch.clone, torch.Tensor.clone, torch.Tensor.contiguous, torch.Tensor.copy_}
"""Functions that take what was not written along."""

_PARTIAL = (
    "masked_",
    "index_",
    "scatter_",
    "put_",
    "fill_diagonal_",
    "resize_",
    "set_",
    "requires_grad_",
)
"""Beginnings of the names of methods in place that write some elements, or none."""

_IN_PLACE = frozenset(
    f"__i{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
)
_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_FOLDERS = tuple(
    os.path.join(os.path.dirname(path), "")
    for module in (torch, emu)
    for path in (str(module.__file__), os.path.realpath(str(module.__file__)))
)


def note_call(func: TorchFunction, args: Args, kwargs: Kwargs | None, result: object) -> None:
    """Note what a call into torch has allocated and written.

    Runs with torch's function modes switched off, as handlers do.
    """
    if func in EMPTY:
        _track(result, None)
        return
    if func in COPIES and args:
        given = args[1:] if func is torch.Tensor.copy_ else args
        source = _find((given or args)[0])
        if source is not None:
            if func is not torch.Tensor.copy_ and result is not args[0]:
                _track(result, source)
            return
    out = None if kwargs is None else kwargs.get("out")
    for tensor in out if isinstance(out, list | tuple) else (out,):
        _mark(tensor)
    name = getattr(func, "__name__", "")
    if name == "__setitem__":
        _mark(args[0], args[1])
        return
    is_in_place = name.endswith("_") and not name.endswith("__") and not name.startswith(_PARTIAL)
    if args and (name in _IN_PLACE or is_in_place):
        for tensor in args[0] if isinstance(args[0], list | tuple) else args[:1]:
            _mark(tensor)


def _track(result: object, source: shadows.Shadow | None) -> None:
    if not isinstance(result, torch.Tensor) or tag_of(result) is None:
        return
    try:
        storage = result.untyped_storage()
        start, nbytes = storage.data_ptr(), storage.nbytes()
    except (NotImplementedError, RuntimeError):  # sparse tensors, wrappers
        return
    if not start or (source is not None and source.start == start):
        return
    site = shadows.caller(_FOLDERS) if source is None else source.site
    shadows.track(start, nbytes, site, owner=storage, is_filled=source is not None)


def _find(tensor: object) -> shadows.Shadow | None:
    if not isinstance(tensor, torch.Tensor):
        return None
    try:
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
    except (NotImplementedError, RuntimeError):
        return None
    return shadows.find(start, start + storage.nbytes())


def _mark(tensor: object, index: object = ...) -> None:
    """Mark the elements of a tensor, or those of ``tensor[index]``, as written."""
    shadow = _find(tensor)
    if shadow is None:
        return
    assert isinstance(tensor, torch.Tensor)
    word = _WORDS.get(tensor.itemsize)
    if word is None:  # complex128: found by its contents
        return
    states = torch.from_numpy(shadow.states).view(word)
    mine = states.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    mine[index] = 0  # type: ignore[index]  # whatever the program has used as an index

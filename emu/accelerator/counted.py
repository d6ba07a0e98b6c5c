"""Operators of torch on emulated devices as counts: what each call into torch did, with all operators that it is made of.

A mode of torch's dispatcher sees the operators of ATen that a call leads to, those of a backward pass included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from emu.accelerator import mode, patches
from emu.accelerator.annotations import Args, Kwargs, Tensor
from emu.accelerator.operator_work import (
    CONVOLUTIONS,
    NOTHING,
    PRODUCTS,
    dtype_name,
    moved,
    plain_name,
    tensors_of,
    work_of,
)
from emu.tile.counting.operators import OperatorCounts
from emu.tile.counting.places import place_of_program
from emu.tile.counting.state import Counting

_TORCH = str(Path(torch.__file__).parent) + "/"
_NO_OPERATORS = frozenset({"__get__", "__set__", "__delete__"})


class _Operators(TorchDispatchMode):  # type: ignore[misc, unused-ignore] # Any without torch
    """Adds up the operators of one call.

    Attributes:
        found: What ran that is no mere view.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore] # torch's has no types
        self.found = OperatorCounts()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operator loads all of Dynamo, for seconds; nothing is compiled in here

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        given = kwargs or {}
        with torch._C.DisableTorchFunction():  # as when torch calls operators itself
            if func._can_decompose():
                with self:  # of what it is made of
                    result = func.decompose(*args, **given)
                if result is not NotImplemented:
                    return result
            result = func(*args, **given)
            self._note(func, args, given, result)
        return result

    def _note(self, func: Any, args: Args, kwargs: Kwargs, result: object) -> None:
        name = plain_name(func)
        names = [a.name for a in func._schema.arguments]
        given = {**_defaults(func), **dict(zip(names, args, strict=False)), **kwargs}
        results = [t for _, t in tensors_of({"result": result})]
        if name in NOTHING or _is_view(func, given, results):
            return
        found = self.found
        found.operators += 1
        products = PRODUCTS[name]({**given, "result": result}) if name in PRODUCTS else []
        for product in products:
            first, second = _operands(given)
            found.multiply(product, _multiplied(name, first), dtype_name(second), _sum_of(first))
        found.work.update(work_of(name, func, given, results))
        for operand, element, loaded, stored in moved(name, func, given, results):
            found.move(operand, element, loaded=loaded, stored=stored)


def _defaults(func: Any) -> dict[str, Any]:
    return {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}


def _operands(given: Any) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtypes of the two operands of a product."""
    dtypes = [t.dtype for _, t in tensors_of(given)]
    return dtypes[0], dtypes[1]


def _multiplied(name: str, dtype: torch.dtype) -> str:
    """Return the dtype in which a device multiplies: TF32 where torch was told that it may."""
    backends = torch.backends
    flags = backends.cudnn if name in CONVOLUTIONS else backends.cuda.matmul
    if dtype is torch.float32 and flags.allow_tf32:
        return "tf32"
    return dtype_name(dtype)


def _sum_of(dtype: torch.dtype) -> str:
    if not dtype.is_floating_point:
        return "i32" if dtype.itemsize == 1 else dtype_name(dtype)
    return "f32" if dtype.itemsize < 4 else dtype_name(dtype)


def _is_view(func: Any, given: Any, results: Sequence[Tensor]) -> bool:
    """Return whether an operator gives nothing but views of its operands, or no tensor at all."""
    arguments = func._schema.arguments
    if any(a.alias_info is not None and a.alias_info.is_write for a in arguments):
        return False
    storages = {_storage_of(t) for _, t in tensors_of(given)} - {0}
    return all(_storage_of(t) in storages for t in results)


def _storage_of(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return 0  # sparse ones have none


def _counting(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return what runs a call into torch, and counts it."""
    depth = 0

    def run_and_count(device: Any, func: Any, args: Args, kwargs: Kwargs | None) -> Any:
        nonlocal depth
        name = str(getattr(func, "__name__", type(func).__name__))
        if Counting.sink is None or depth or name in _NO_OPERATORS:
            return run(device, func, args, kwargs)
        operators = _Operators()
        depth += 1
        try:
            with operators:
                return run(device, func, args, kwargs)
        finally:
            depth -= 1
            if operators.found.operators and Counting.sink is not None:
                counts = operators.found.counts(name, place_of_program(_TORCH))
                Counting.last.counts = counts
                Counting.sink(counts)

    return run_and_count


_ledger = patches.Ledger()


def switch(begins: bool) -> None:
    """Count operators from now on, or no more."""
    if begins and not _ledger.is_open:
        counting, reason = _counting(mode.innermost), "operators are counted"
        if mode._run_on is mode.innermost:  # else what is there calls the innermost
            _ledger.replace(mode, "_run_on", counting, reason)
        _ledger.replace(mode, "innermost", counting, reason)
    elif not begins:
        _ledger.undo_all()

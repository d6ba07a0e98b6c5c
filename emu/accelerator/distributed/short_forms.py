"""Short forms of a process group's methods: one tensor, and the root or the operation, in place of lists and options.

``torch.distributed`` calls the methods with lists and options; programs that hold a group also write
``group.broadcast(tensor, 0)``, as torch's own groups take it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist

from emu.accelerator.annotations import Tensor

if TYPE_CHECKING:
    from datetime import timedelta

C = TypeVar("C", bound=type)

_c10d: Any = sys.modules["torch._C._distributed_c10d"]
_SUM = dist.ReduceOp.SUM


def _options(kind: str, **fields: Any) -> Any:
    made = getattr(_c10d, kind)()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _root(root: object) -> int:
    if isinstance(root, bool) or not isinstance(root, int):
        raise TypeError(f"root must be an int, but got {root!r}")
    return root


def broadcast(tensor: Tensor, root: int, timeout: timedelta | None = None) -> tuple[Any, ...]:
    """Return the arguments of a broadcast of one tensor."""
    return [tensor], _options("BroadcastOptions", rootRank=_root(root))


def allreduce(
    tensors: Tensor | Sequence[Tensor], op: Any = _SUM, timeout: timedelta | None = None
) -> tuple[Any, ...]:
    """Return the arguments of an all-reduce by an operation."""
    given = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    return given, _options("AllreduceOptions", reduceOp=op)


def reduce(
    tensor: Tensor, root: int, op: Any = _SUM, timeout: timedelta | None = None
) -> tuple[Any, ...]:
    """Return the arguments of a reduction of one tensor."""
    return [tensor], _options("ReduceOptions", rootRank=_root(root), reduceOp=op)


def allgather(
    output_tensors: Sequence[Tensor], input_tensor: Tensor, timeout: timedelta | None = None
) -> tuple[Any, ...]:
    """Return the arguments of an all-gather of one tensor."""
    return [output_tensors], [input_tensor]


def gather(
    output_tensors: Sequence[Tensor],
    input_tensor: Tensor,
    root: int,
    timeout: timedelta | None = None,
) -> tuple[Any, ...]:
    """Return the arguments of a gather of one tensor."""
    return [output_tensors], [input_tensor], _options("GatherOptions", rootRank=_root(root))


def scatter(
    output_tensor: Tensor,
    input_tensors: Sequence[Tensor],
    root: int,
    timeout: timedelta | None = None,
) -> tuple[Any, ...]:
    """Return the arguments of a scatter to one tensor."""
    return [output_tensor], [input_tensors], _options("ScatterOptions", rootRank=_root(root))


def reduce_scatter(
    output_tensor: Tensor,
    input_tensors: Sequence[Tensor],
    op: Any = _SUM,
    timeout: timedelta | None = None,
) -> tuple[Any, ...]:
    """Return the arguments of a reduce-scatter to one tensor."""
    return [output_tensor], [input_tensors], _options("ReduceScatterOptions", reduceOp=op)


_FORMS: dict[str, tuple[Callable[..., tuple[Any, ...]], int]] = {
    "broadcast": (broadcast, 0),
    "allreduce": (allreduce, 0),
    "reduce": (reduce, 0),
    "allgather": (allgather, 1),
    "gather": (gather, 1),
    "scatter": (scatter, 0),
    "reduce_scatter": (reduce_scatter, 0),
}
"""The forms by method, and which argument is a tensor in the short form, but a list in the long one."""


def _is_operation(value: object) -> bool:
    return isinstance(value, dist.ReduceOp | _c10d.ReduceOp.RedOpType)


def accepted(cls: C) -> C:
    """Let the methods of a class take the short forms, too."""
    for name, (form, place) in _FORMS.items():
        setattr(cls, name, _with_form(getattr(cls, name), form, place))
    return cls


def _with_form(
    method: Callable[..., Any], form: Callable[..., tuple[Any, ...]], place: int
) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        given = [*args, *keywords.values()]
        is_short = len(given) > place and isinstance(given[place], torch.Tensor)
        if is_short or (form is allreduce and any(map(_is_operation, given))):
            return method(self, *form(*args, **keywords))
        return method(self, *args, **keywords)

    return call


def is_ours(module: str | None) -> bool:
    """Return whether a module's frame is one of a method that takes the short forms."""
    return module == __name__

"""Every operator that torch describes for its own tests, compiled by Inductor and compared with itself run eagerly.

A test is an operator and a dtype, with the first samples of its arguments; of floating-point dtypes with the gradients
of its results, where it has them. Reduced precision is compared with what fp32 gives, as Inductor keeps intermediate
values in fp32 and torch's eager operators do not.
"""

from __future__ import annotations

import itertools
import os
import warnings
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._inductor.config
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

_SAMPLES = int(os.environ.get("CONFORMANCE_SAMPLES", "3"))
_DTYPES = tuple(
    getattr(torch, name)
    for name in os.environ.get("CONFORMANCE_DTYPES", "float32,float16,int64,bool").split(",")
)
_ONLY = os.environ.get("CONFORMANCE_OPERATORS", "")

_WITHOUT_VALUES = (
    *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
    "resize_",
)
"""Operators whose results hold whatever was in memory: shapes and dtypes are compared."""

_TIES = {"sort": 1, "topk": 1, "argsort": 0}
"""Operators that may order equal elements in any way, and how many of their results do not tell that order."""

_HALVES = (torch.float16, torch.bfloat16)


class WrongResult(AssertionError):
    """A compiled operator gives something else than the operator."""


def _cases() -> list[Any]:
    found = []
    for op in op_db:
        if _ONLY not in op.full_name:
            continue
        dtypes = op.supported_dtypes("cpu")
        for dtype in _DTYPES:
            if dtype in dtypes:
                name = f"{op.full_name}-{str(dtype).removeprefix('torch.')}"
                found.append(pytest.param(op, dtype, id=name))
    return found


@pytest.mark.parametrize(("op", "dtype"), _cases())
def test_operator(op: OpInfo, dtype: torch.dtype) -> None:
    with_gradients = dtype.is_floating_point and op.supports_autograd and dtype not in _HALVES
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", dtype, requires_grad=with_gradients)
    for sample in itertools.islice(samples, _SAMPLES):
        torch._dynamo.reset()
        with warnings.catch_warnings(), torch._inductor.config.patch(fallback_random=True):
            warnings.simplefilter("ignore")
            _compare(op, sample, dtype, with_gradients)


def _compare(op: OpInfo, sample: SampleInput, dtype: torch.dtype, with_gradients: bool) -> None:
    def call(*args: Any, **kwargs: Any) -> Any:
        return op.op(*args, **kwargs)

    arguments = ((sample.input, *sample.args), sample.kwargs)
    expected = _run(call, _copied(arguments), with_gradients)
    widened = _run(call, _widened(arguments), False) if dtype in _HALVES else None
    found = _run(torch.compile(call), _copied(arguments), with_gradients)
    has_values = op.name not in _WITHOUT_VALUES
    if op.name in _TIES and not sample.kwargs.get("stable"):
        found, expected = (results[: _TIES[op.name]] for results in (found, expected))
    try:
        torch.testing.assert_close(
            found if has_values else _described(found),
            expected if has_values else _described(expected),
            equal_nan=True,
            check_stride=False,
            **_tolerance(dtype),
        )
    except AssertionError as error:
        if widened is not None and _is_close_to_wider(found, widened, dtype):
            return
        raise WrongResult(f"{sample.summary()[:200]}: {_one_line(error)}") from None


def _run(call: Any, arguments: Any, with_gradients: bool) -> Any:
    """Return the results, and the gradients of the sum of all that can be differentiated."""
    args, kwargs = arguments
    torch.manual_seed(1)
    result = call(*args, **kwargs)
    flat = [r for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]
    if not with_gradients:
        return flat
    leaves = [
        a
        for a in pytree.tree_leaves((args, kwargs))
        if isinstance(a, torch.Tensor) and a.requires_grad
    ]
    roots = [r for r in flat if r.requires_grad and r.dtype.is_floating_point]
    if not leaves or not roots:
        return [r.detach() for r in flat]
    total = sum((r.sum() for r in roots[1:]), roots[0].sum())
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    return [*(r.detach() for r in flat), *(g for g in gradients if g is not None)]


def _copied(arguments: Any) -> Any:
    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return pytree.tree_map(copy, arguments)


def _widened(arguments: Any) -> Any:
    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in _HALVES:
            return value.detach().float()
        return torch.float32 if value in _HALVES else value

    return pytree.tree_map(widen, arguments)


def _described(results: list[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.tensor([*r.shape, len(str(r.dtype))]) for r in results]


def _is_close_to_wider(
    found: list[torch.Tensor], wide: list[torch.Tensor], dtype: torch.dtype
) -> bool:
    try:
        for one, other in zip(found, wide, strict=True):
            wanted = other.to(one.dtype)
            torch.testing.assert_close(
                one, wanted, equal_nan=True, check_stride=False, **_tolerance(dtype)
            )
    except (AssertionError, ValueError):
        return False
    return True


def _tolerance(dtype: torch.dtype) -> dict[str, float]:
    if dtype is torch.float16:
        return {"atol": 2e-3, "rtol": 2e-3}
    if dtype is torch.bfloat16:
        return {"atol": 1.6e-2, "rtol": 1.6e-2}
    return {"atol": 1e-4, "rtol": 1e-4} if dtype is torch.float32 else {"atol": 1e-6, "rtol": 1e-6}


def _one_line(error: AssertionError) -> str:
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:200]

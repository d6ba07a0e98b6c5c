"""triton: flash attention beside torch's scaled_dot_product_attention, one thread each."""

from __future__ import annotations

import functools
from typing import Any

from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.single import torch_or_none
from rows.triton import NO_TORCH, Call, torch_threads

BATCH, HEADS, LENGTH, DEPTH = 4, 8, 1024, 64
_BLOCK = 64


def _operands(dtype: str) -> tuple[Any, Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    shape = (BATCH, HEADS, LENGTH, DEPTH)
    made = [torch.randn(shape, generator=generator).to(getattr(torch, dtype)) for _ in range(3)]
    return made[0], made[1], made[2]


def _statistics() -> Any:
    import torch

    return torch.empty(BATCH, HEADS, LENGTH)


def forward(dtype: str, causal: bool) -> tuple[Call, Call]:
    """Return what launches attention, and what calls torch's."""
    import kernels_attention as kernels
    import torch

    q, k, v = _operands(dtype)
    return (
        _forward(kernels, (q, k, v), torch.empty_like(q), _statistics(), causal),
        functools.partial(
            torch.nn.functional.scaled_dot_product_attention, q, k, v, is_causal=causal
        ),
    )


def _forward(
    kernels: Any, operands: tuple[Any, Any, Any], out: Any, lse: Any, causal: bool
) -> Call:
    grid = (LENGTH // _BLOCK, BATCH * HEADS)
    blocks = {"BLOCK_M": _BLOCK, "BLOCK_N": _BLOCK, "D": DEPTH, "CAUSAL": causal}
    return lambda: kernels.attention_forward[grid](
        *operands, out, lse, DEPTH**-0.5, LENGTH, **blocks, num_threads=1
    )


def backward(dtype: str, causal: bool) -> tuple[Call, Call]:
    """Return what launches the backward pass, and what lets torch's autograd do it; both give new gradients of q."""
    import kernels_attention as kernels
    import torch

    given = [x.requires_grad_() for x in _operands(dtype)]
    result = torch.nn.functional.scaled_dot_product_attention(
        given[0], given[1], given[2], is_causal=causal
    )
    slope = torch.randn_like(result)
    q, k, v = (x.detach() for x in given)
    out, lse, delta = torch.empty_like(q), _statistics(), _statistics()
    with torch.no_grad():
        _forward(kernels, (q, k, v), out, lse, causal)()
    dk, dv = torch.empty_like(q), torch.empty_like(q)
    blocks = {"BLOCK_M": _BLOCK, "BLOCK_N": _BLOCK, "D": DEPTH, "CAUSAL": causal}
    heads = BATCH * HEADS

    def ours() -> object:
        dq = torch.zeros(q.shape)
        kernels.attention_delta[(heads * LENGTH // _BLOCK,)](
            out, slope, delta, D=DEPTH, BLOCK_M=_BLOCK, num_threads=1
        )
        kernels.attention_backward[(heads,)](
            q, k, v, slope, lse, delta, dq, dk, dv, DEPTH**-0.5, LENGTH, **blocks, num_threads=1
        )
        return dq.to(q.dtype)

    return ours, lambda: torch.autograd.grad(result, given, slope, retain_graph=True)


def _pair(settings: Settings, dtype: str, causal: bool, back: bool) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    with torch_threads(1):
        ours, theirs = (backward if back else forward)(dtype, causal)
        return duel(settings, clock(ours), clock(theirs))


_SHAPE = f"{BATCH}x{HEADS}x{LENGTH}x{DEPTH}"
ROWS = [
    Bench(
        f"triton/attention {'backward' if back else 'forward'} {_SHAPE} {short}{', causal' * causal}",
        "torch's SDPA",
        "ms",
        Goal(goal),
        functools.partial(_pair, dtype=dtype, causal=causal, back=back),
    )
    for back, short, dtype, causal, goal in (
        (False, "fp32", "float32", False, 1.3),
        (False, "fp16", "float16", False, 2.0),
        (False, "fp32", "float32", True, 1.3),
        (False, "fp16", "float16", True, 1.3),
        (True, "fp32", "float32", False, 1.0),
        (True, "fp16", "float16", False, 1.0),
        (True, "fp32", "float32", True, 1.0),
    )
]

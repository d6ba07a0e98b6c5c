"""Flash attention's operator, which torch has for GPUs alone, and the way of attention to a script's kernel for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.library import Library

from emu.accelerator.annotations import Args, Kwargs, Tensor, TorchFunction
from emu.accelerator.custom_operators import has_kernel
from emu.accelerator.device_tags import emulated_device
from emu.accelerator.mode import HANDLERS, follow
from emu.accelerator.patches import record

_NAME = "aten::_flash_attention_forward"
_LARGEST_HEAD = 256


def install() -> None:
    """Give the operator a kernel, and have attention ask for a script's."""
    library = Library("aten", "IMPL")
    library.impl("_flash_attention_forward", _forward, "CPU")
    record(_NAME, "torch has no kernel of it for the CPU", library._destroy)
    attention = torch.nn.functional.scaled_dot_product_attention
    HANDLERS[attention] = _attention
    record(
        "torch.nn.functional.scaled_dot_product_attention",
        "on a GPU it calls that operator, for which scripts register kernels",
        lambda: HANDLERS.pop(attention),
    )


def _attention(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    device = emulated_device(args[0]) if args and isinstance(args[0], torch.Tensor) else None
    if device is None or not has_kernel(_NAME, device.type):
        return follow(func, args, kwargs)
    result = _with_scripts_kernel(*args, **kwargs)
    return follow(func, args, kwargs) if result is None else result


def _with_scripts_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor | None:
    """Return what the operator does; None where a GPU would not call it."""
    operands = (query, key, value)
    widths = {t.shape[-1] for t in operands}
    heads = {t.shape[1] for t in operands if t.dim() == 4}
    if (
        attn_mask is not None
        or not all(t.dim() == 4 and t.shape[0] == query.shape[0] for t in operands)
        or {t.dtype for t in operands} not in ({torch.float16}, {torch.bfloat16})
        or (torch.is_grad_enabled() and any(t.requires_grad for t in operands))
        or len(widths) > 1
        or max(widths) > _LARGEST_HEAD
        or max(widths) % 8
        or (len(heads) > 1 and not enable_gqa)
        or (is_causal and query.shape[2] != key.shape[2])
    ):
        return None
    q, k, v = (t.transpose(1, 2) for t in operands)
    given = (q, k, v, None, None, q.shape[1], k.shape[1], dropout_p, is_causal, False)
    found: Any = follow(torch.ops.aten._flash_attention_forward, given, {"scale": scale})
    result: Tensor = found[0].transpose(1, 2)
    return result


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqused_k: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Compute attention of ``(batch, row, head, element)``, or of sequences behind one another.

    Returns:
        The result, the logarithm of each row's sum ``(batch, head, row)``, and what is unused without dropout.

    Raises:
        NotImplementedError: Dropout, the mask of it, or tables of blocks are asked for.
    """
    del max_q, max_k, num_splits
    if dropout_p or return_debug_mask or block_table is not None:
        raise NotImplementedError(
            "_flash_attention_forward on an emulated device has no dropout, and no tables of blocks; got "
            f"dropout_p={dropout_p}, return_debug_mask={return_debug_mask}"
        )
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    left = -1 if window_size_left is None else window_size_left
    right = -1 if window_size_right is None else window_size_right
    window = (left, 0 if is_causal else right)
    output = torch.empty_like(query)
    sequences = _sequences((query, key, value, output), cum_seq_q, cum_seq_k, seqused_k)
    sums = []
    for place, (q, k, v, out) in enumerate(sequences):
        slopes = alibi_slopes
        if slopes is not None and slopes.dim() == 2:
            slopes = slopes[place]
        result, logarithms = _of_one(q, k, v, factor, window, slopes)
        out.copy_(result)
        sums.append(logarithms)
    lse = torch.stack(sums) if cum_seq_q is None else torch.cat(sums, dim=1)
    nothing = torch.empty(0, dtype=query.dtype)
    state = torch.zeros(2, dtype=torch.uint64)
    return output, lse, state, torch.zeros((), dtype=torch.uint64), nothing


def _sequences(
    tensors: Sequence[Tensor], cum_q: Tensor | None, cum_k: Tensor | None, used_k: Tensor | None
) -> Sequence[tuple[Tensor, ...]]:
    """Return each sequence's query, key, value and result."""
    if cum_q is None or cum_k is None:
        return list(zip(*tensors, strict=True))
    rows, columns = cum_q.tolist(), cum_k.tolist()
    lengths = [end - start for start, end in itertools.pairwise(columns)]
    if used_k is not None:
        lengths = used_k.tolist()
    query, key, value, output = tensors
    found = []
    for place, (start, end) in enumerate(itertools.pairwise(rows)):
        seen = slice(columns[place], columns[place] + lengths[place])
        found.append((query[start:end], key[seen], value[seen], output[start:end]))
    return found


def _of_one(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    window: tuple[int, int],
    slopes: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return attention of one sequence ``(row, head, element)``, and the logarithms ``(head, row)``."""
    q, k, v = (t.transpose(0, 1).float() for t in (query, key, value))
    repeats = q.shape[0] // k.shape[0]
    k, v = (t.repeat_interleave(repeats, dim=0) for t in (k, v))
    scores = torch.matmul(q, k.transpose(1, 2)) * scale
    # The last row sees the last column: both count from their ends.
    apart = torch.arange(k.shape[1]) - (torch.arange(q.shape[1]) + k.shape[1] - q.shape[1])[:, None]
    if slopes is not None:
        scores = scores - slopes.float()[:, None, None] * apart.abs()
    left, right = window
    hidden = torch.zeros_like(apart, dtype=torch.bool)
    if left >= 0:
        hidden |= apart < -left
    if right >= 0:
        hidden |= apart > right
    scores = scores.masked_fill(hidden, -math.inf)
    sums = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - sums[..., None]).nan_to_num(0.0)  # a row that sees nothing is 0
    result = torch.matmul(weights, v).transpose(0, 1)
    return result.to(query.dtype), torch.where(sums == -math.inf, math.inf, sums)

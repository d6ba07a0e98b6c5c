"""Flash attention's operator on emulated devices, against attention written out."""

from __future__ import annotations

import math
import warnings

import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")


def written_out(q, k, v, causal=False, left=-1, right=-1, slopes=None):
    """Return attention of ``(row, head, element)``, row by row; the last row sees the last column."""
    out = torch.zeros_like(q, dtype=torch.float64)
    lse = torch.full((q.shape[1], q.shape[0]), math.inf, dtype=torch.float64)
    for head in range(q.shape[1]):
        other = head * k.shape[1] // q.shape[1]
        for row in range(q.shape[0]):
            at = row + k.shape[0] - q.shape[0]
            low = at - left if left >= 0 else 0
            high = at if causal else (at + right if right >= 0 else k.shape[0])
            columns = [c for c in range(k.shape[0]) if low <= c <= high]
            if not columns:
                continue
            scores = k[columns, other].double() @ q[row, head].double() / math.sqrt(q.shape[2])
            if slopes is not None:
                scores -= slopes[head].double() * torch.tensor([abs(c - at) for c in columns])
            lse[head, row] = torch.logsumexp(scores, 0)
            out[row, head] = torch.softmax(scores, 0) @ v[columns, other].double()
    return out, lse


def dense_and_packed_sequences():
    operator = torch.ops.aten._flash_attention_forward
    torch.manual_seed(0)
    slopes = torch.tensor([0.5, 0.25, 0.1, 0.0])
    for rows, columns, heads, settings in (
        (5, 9, 4, {}),
        (9, 5, 4, {"causal": True}),  # some rows see nothing
        (7, 7, 2, {"left": 2, "right": 1}),
        (4, 6, 1, {"slopes": slopes}),
    ):
        q = torch.randn(2, rows, 4, 16).half()
        k, v = torch.randn(2, 2, columns, heads, 16).half()
        options = {
            "window_size_left": settings.get("left"),
            "window_size_right": settings.get("right"),
            "alibi_slopes": None if "slopes" not in settings else slopes.cuda(),
        }
        given = (q.cuda(), k.cuda(), v.cuda(), None, None, rows, columns, 0.0)
        out, lse, *_ = operator(*given, settings.get("causal", False), False, **options)
        assert out.is_cuda
        assert out.dtype is torch.float16
        for i in range(2):
            wanted, sums = written_out(q[i], k[i], v[i], **settings)
            torch.testing.assert_close(out[i].cpu().double(), wanted, rtol=2e-3, atol=1e-3)
            torch.testing.assert_close(lse[i].cpu().double(), sums, rtol=1e-4, atol=1e-4)
    packed = [torch.randn(7, 2, 16).bfloat16() for _ in range(3)]
    ends = torch.tensor([0, 3, 7], dtype=torch.int32)
    given = (*(t.cuda() for t in packed), ends.cuda(), ends.cuda(), 4, 4, 0.0, True, False)
    out, lse, *_ = operator(*given)
    assert lse.shape == (2, 7)
    for part in (slice(0, 3), slice(3, 7)):
        wanted, _ = written_out(*(t[part] for t in packed), causal=True)
        torch.testing.assert_close(out[part].cpu().double(), wanted, rtol=2e-2, atol=1e-2)
    given = (*(t[None].cuda() for t in packed), None, None, 7, 7, 0.5, True, False)
    refused(lambda: operator(*given), NotImplementedError, "no dropout")


def attention_asks_for_the_kernel():
    warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
    attention = torch.nn.functional.scaled_dot_product_attention
    q = torch.randn(1, 2, 8, 16, device="cuda", dtype=torch.float16)
    seen = []

    def forward(query, key, value, *rest, scale=None, **options):
        seen.append((tuple(query.shape), query.device.type, rest[5], scale))
        return torch.full_like(query, 3.0), *(query.new_zeros(1) for _ in range(4))

    before = attention(q, q, q)
    library = torch.library.Library("aten", "IMPL")
    library.impl("_flash_attention_forward", forward, "CUDA")
    out = attention(q, q, q, is_causal=True, scale=0.5)
    assert out.shape == q.shape
    assert out.is_cuda
    assert (out == 3).all()
    assert seen == [((1, 8, 2, 16), "cuda", True, 0.5)]
    for other in (q.float(), q.clone().requires_grad_(), q.cpu()):
        attention(other, other, other)
    attention(q, q, q, attn_mask=torch.ones(8, 8, device="cuda", dtype=torch.bool))
    assert len(seen) == 1  # none of these is flash attention's on a GPU with this kernel
    library._destroy()
    assert torch.equal(attention(q, q, q), before)


def test_sequences_beside_and_behind_one_another() -> None:
    check_on_devices(dense_and_packed_sequences)


def test_attention_calls_the_kernel_of_a_script() -> None:
    check_on_devices(attention_asks_for_the_kernel)

"""Kernels of unsloth, beside torch; its package itself wants a GPU's whole training stack when it is imported."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional


def kernels(name):
    """Import a module of ``unsloth.kernels`` without the ``__init__`` of its packages."""
    root = Path(os.environ["CONFORMANCE_SOURCE"])
    for package in ("unsloth", "unsloth.kernels"):
        if package not in sys.modules:
            module = types.ModuleType(package)
            module.__spec__ = importlib.machinery.ModuleSpec(package, None, is_package=True)
            module.__path__ = [str(root.joinpath(*package.split(".")))]
            module.DEVICE_TYPE = "cuda"
            sys.modules[package] = module
    return importlib.import_module(f"unsloth.kernels.{name}")


@pytest.mark.parametrize("gemma", [False, True])
def test_rms_norm(gemma):
    rms = kernels("rms_layernorm")
    layer = torch.nn.RMSNorm(96, eps=1e-6, device="cuda")
    layer.variance_epsilon = 1e-6
    torch.nn.init.normal_(layer.weight)
    x = torch.randn(2, 5, 96, device="cuda", requires_grad=True)
    found = rms.fast_rms_layernorm(layer, x, gemma=gemma)
    y = x.detach().clone().requires_grad_()
    expected = F.rms_norm(y, (96,), layer.weight + gemma, 1e-6)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    up = torch.randn_like(found)
    expected.backward(up)
    found.backward(up.clone())
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)


def test_layer_norm():
    module = kernels("layernorm")
    layer = torch.nn.LayerNorm(80, device="cuda")
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    x = torch.randn(3, 4, 80, device="cuda", requires_grad=True)
    y = x.detach().clone().requires_grad_()
    found, expected = module.fast_layernorm(layer, x), layer(y)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    up = torch.randn_like(found)
    expected.backward(up)
    found.backward(up.clone())
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["swiglu", "geglu_exact", "geglu_approx"])
def test_gated_units(name, dtype):
    act = {
        "swiglu": F.silu,
        "geglu_exact": F.gelu,
        "geglu_approx": lambda e: F.gelu(e, approximate="tanh"),
    }[name]
    module = kernels(name.split("_")[0])
    forward, backward = {
        "swiglu": ("swiglu_fg_kernel", "swiglu_DWf_DW_dfg_kernel"),
        "geglu_exact": ("geglu_exact_forward_kernel", "geglu_exact_backward_kernel"),
        "geglu_approx": ("geglu_approx_forward_kernel", "geglu_approx_backward_kernel"),
    }[name]
    e, g, up = (torch.randn(2, 7, 130, device="cuda", dtype=dtype) for _ in range(3))
    x, y = (t.float().detach().clone().requires_grad_() for t in (e, g))
    expected = act(x) * y
    tolerance = {"rtol": 2e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {}
    found = getattr(module, forward)(e, g)
    torch.testing.assert_close(found, expected.to(dtype), **tolerance)
    expected.backward(up.float())
    flat = [t.reshape(-1, 130).clone() for t in (up, e, g)]
    h, of_gate, of_input = getattr(module, backward)(*flat)
    torch.testing.assert_close(h.view_as(expected), expected.to(dtype), **tolerance)
    torch.testing.assert_close(of_gate.view_as(e), (up.float() * act(x)).to(dtype), **tolerance)
    torch.testing.assert_close(of_input.view_as(e), x.grad.to(dtype), **tolerance)


def test_rotary_embedding():
    module = kernels("rope_embedding")
    length, width = 6, 32
    angles = torch.outer(torch.arange(length), 10000 ** (-torch.arange(0, width, 2) / width))
    cos, sin = (f(torch.cat([angles, angles], 1)).cuda() for f in (torch.cos, torch.sin))
    q, k = (torch.randn(2, 4, length, width, device="cuda") for _ in range(2))

    def rotate(x):
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat([-high, low], -1) * sin

    found = module.fast_rope_embedding(q.clone(), k.clone(), cos, sin)
    torch.testing.assert_close(found[0], rotate(q))
    torch.testing.assert_close(found[1], rotate(k))


@pytest.mark.parametrize("words", [1000, 70000])
@pytest.mark.parametrize("cap", [0, 30.0])
def test_cross_entropy(words, cap):
    module = kernels("cross_entropy_loss")
    logits = torch.randn(1, 6, words, device="cuda", requires_grad=True)
    labels = torch.randint(0, words, (1, 6), device="cuda")
    labels[0, 2] = -100
    y = logits.detach().clone().requires_grad_()
    capped = cap * torch.tanh(y / cap) if cap else y
    expected = F.cross_entropy(capped[0], labels[0], ignore_index=-100)
    found = module.fast_cross_entropy_loss(logits.clone(), labels, logit_softcapping=cap)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    expected.backward()
    found.backward()
    torch.testing.assert_close(logits.grad, y.grad, rtol=1e-3, atol=1e-5)


def test_fp8():
    module = kernels("fp8")
    x = torch.randn(64, 256, device="cuda")
    codes, scales = module.act_quant(x, 128)
    found = codes.float() * scales.repeat_interleave(128, 1)
    torch.testing.assert_close(found, x, rtol=7e-2, atol=2e-2)
    weight = torch.randn(256, 256, device="cuda").to(torch.float8_e4m3fn)
    block = torch.rand(2, 2, device="cuda") + 0.5
    whole = block.repeat_interleave(128, 0).repeat_interleave(128, 1)
    plain = weight.float() * whole
    torch.testing.assert_close(
        module.weight_dequant_block(weight, block).float(), plain, rtol=1e-2, atol=1e-2
    )
    product = module.w8a8_block_fp8_matmul_triton(
        codes, weight, scales, block, [128, 128], torch.float32
    )
    torch.testing.assert_close(product, found @ plain.t(), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("descriptors", [False, True])
@pytest.mark.parametrize("permuted", ["nothing", "x", "y"])
def test_grouped_products(permuted, descriptors):
    module = kernels("moe.grouped_gemm.interface")
    tokens, times, experts, n, k = 24, 2, 4, 64, 96
    of = torch.randint(0, experts, (tokens * times,), device="cuda")
    sizes, order = torch.bincount(of, minlength=experts).int(), torch.argsort(of, stable=True)
    x = torch.randn(tokens, k, device="cuda")
    weight = torch.randn(experts, n, k, device="cuda")
    rows = x[order // times]  # of an expert, one behind the other
    expected = torch.einsum("tk,tnk->tn", rows, weight[of[order]])
    by_descriptor = {"use_tma_load_w": descriptors, "use_tma_store": descriptors}
    if permuted == "y":
        by_descriptor["use_tma_store"] = False
        expected = torch.empty_like(expected).index_copy(0, order, expected)
    found = module.grouped_gemm_forward(
        x if permuted == "x" else rows, weight, times, sizes, order,
        permute_x=permuted == "x", permute_y=permuted == "y", **by_descriptor,
    )  # fmt: skip
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("descriptors", [False, True])
def test_gradients_of_grouped_products(descriptors):
    module = kernels("moe.grouped_gemm.interface")
    experts, n, k = 4, 64, 96
    of = torch.tensor([0] * 7 + [1] * 40 + [3] * 17, device="cuda")  # expert 2 has no tokens
    sizes = torch.bincount(of, minlength=experts).int()
    order = torch.arange(len(of), device="cuda")
    x, up = torch.randn(len(of), k, device="cuda"), torch.randn(len(of), n, device="cuda")
    weight = torch.randn(experts, n, k, device="cuda")
    found = module.grouped_gemm_dX(
        up, weight, order, sizes, 1, use_tma_load_w=descriptors, use_tma_store=descriptors
    )
    expected = torch.einsum("tn,tnk->tk", up, weight[of])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    found = module.grouped_gemm_dW(x, up, sizes, order, 1, use_tma_store=descriptors)
    masks = torch.nn.functional.one_hot(of, experts).float()
    expected = torch.einsum("te,tn,tk->enk", masks, up, x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)

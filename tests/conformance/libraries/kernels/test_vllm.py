"""Triton kernels of vLLM, beside torch; its own tests need its extension in CUDA C++ and models from a network."""

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
SOURCE = Path(os.environ["CONFORMANCE_SOURCE"])


class OfStub(type):
    """Class of the stubs' classes: their attributes, such as an enumeration's members, are names."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Stub(types.ModuleType):
    """A package that is not installed: whatever is taken from it is a class that does nothing."""

    __path__: list[str] = []  # noqa: RUF012 - of a module

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        facts = {
            "__init__": lambda self, *_, **__: None,
            "__init_subclass__": classmethod(lambda cls, **_: None),
            "__get_pydantic_core_schema__": classmethod(_any_schema),  # a field may be of it
        }
        made = OfStub(name, (), facts)  # one that vLLM may derive classes from
        setattr(self, name, made)
        return made


def _any_schema(cls, *_):
    return importlib.import_module("pydantic_core.core_schema").any_schema()


class Stubs:
    """Finder of packages that vLLM imports without a guard, and that no kernel needs."""

    NAMES = frozenset({
        *("aiohttp", "anthropic", "blake3", "cbor2", "cloudpickle", "cohere", "compressed_tensors", "cpuinfo"),
        *("cv2", "depyf", "diskcache", "fastapi", "gguf", "httpx2", "ijson", "llguidance", "lmformatenforcer"),
        *("mcp", "mistral_common", "msgpack", "msgspec", "openai", "openai_harmony", "outlines_core", "PIL"),
        *("partial_json_parser", "prometheus_client", "prometheus_fastapi_instrumentator", "pybase64"),
        *("sentencepiece", "setproctitle", "starlette", "tiktoken", "timm", "torchaudio", "torchvision"),
        *("uvicorn", "uvloop", "watchfiles", "xgrammar", "zmq"),
    })  # fmt: skip

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in Stubs.NAMES:
            return None
        frame = sys._getframe(1)
        while frame.f_globals.get("__name__", "").startswith("importlib"):
            frame = frame.f_back
        if not frame.f_globals.get("__name__", "").startswith("vllm."):
            return None  # another package that asks whether it is installed
        return importlib.machinery.ModuleSpec(name, Stubs, is_package=True)

    @staticmethod
    def create_module(spec):
        return Stub(spec.name)

    @staticmethod
    def exec_module(module):
        pass


sys.meta_path.append(Stubs)  # the last: it has what nothing else has


def of(name):
    return importlib.import_module(f"vllm.{name}")


def near(found, expected, tolerance=2e-2):
    torch.testing.assert_close(found.float(), expected.float(), rtol=tolerance, atol=tolerance)


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def attend(q, k, v, scale, *, causal=True, window=None, sinks=None):
    """Return the attention of (queries, heads, width) to the last of more keys, heads in groups."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, 1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.float(), k) * scale
    at = torch.arange(k.shape[0] - q.shape[0], k.shape[0], device=q.device)[:, None]
    to = torch.arange(k.shape[0], device=q.device)
    if causal:
        scores = scores.masked_fill(to > at, float("-inf"))
    if window is not None:
        scores = scores.masked_fill(to <= at - window, float("-inf"))
    if sinks is not None:
        more = sinks.float()[:, None, None].expand(-1, q.shape[0], 1)
        weights = torch.cat([scores, more], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, v)


def paged(sequences, page):
    """Return the pages of sequences, in an order that is not theirs, and the table that finds them."""
    width = max(-(-len(s) // page) for s in sequences)
    order = torch.randperm(width * len(sequences)).view(len(sequences), width)
    shape = (order.numel(), page, *sequences[0].shape[1:])
    pages = torch.full(shape, float("nan"), device="cuda").to(sequences[0].dtype)
    for table, sequence in zip(order, sequences, strict=True):
        for number, part in enumerate(sequence.split(page)):
            pages[table[number], : len(part)] = part
    return pages, order.to(torch.int32).cuda()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("has_sinks", [False, True])
def test_unified_attention(dtype, window, has_sinks):
    queries, lengths, heads, kv_heads, width, page = [1, 7, 20], [33, 7, 41], 4, 2, 64, 16
    q = normal(sum(queries), heads, width, dtype=dtype)
    keys, values = ([normal(n, kv_heads, width, dtype=dtype) for n in lengths] for _ in range(2))
    torch.manual_seed(0)
    k_pages, table = paged(keys, page)
    torch.manual_seed(0)
    v_pages, _ = paged(values, page)
    k_pages, v_pages = k_pages.nan_to_num(0), v_pages.nan_to_num(0)
    starts = torch.tensor([0, *torch.tensor(queries).cumsum(0)], dtype=torch.int32, device="cuda")
    sinks = normal(heads) if has_sinks else None
    out = torch.empty_like(q)
    of("v1.attention.ops.triton_unified_attention").unified_attention(
        q, k_pages, v_pages, out, starts, max(queries),
        torch.tensor(lengths, dtype=torch.int32, device="cuda"), max(lengths), width**-0.5, True,
        (window - 1, 0) if window else (-1, -1), table, 0.0, None, None, None, sinks=sinks,
    )  # fmt: skip
    parts = zip(q.split(queries), keys, values, strict=True)
    expected = [attend(*p, width**-0.5, window=window, sinks=sinks) for p in parts]
    near(out, torch.cat(expected))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("width", [32, 80])
def test_prefill_attention(causal, width):
    lengths = [5, 130]
    q, k, v = (normal(sum(lengths), heads, width, dtype=torch.float16) for heads in (4, 2, 2))
    out = torch.empty_like(q)
    of("v1.attention.ops.triton_prefill_attention").context_attention_fwd(
        q, k, v, out, torch.tensor([0, 5], device="cuda"), torch.tensor(lengths, device="cuda"),
        max(lengths), is_causal=causal,
    )  # fmt: skip
    parts = zip(*(x.split(lengths) for x in (q, k, v)), strict=True)
    near(out, torch.cat([attend(*p, width**-0.5, causal=causal) for p in parts]))


@pytest.mark.parametrize("heads", [2, 8])
@pytest.mark.parametrize("splits", [1, 4])
def test_decode_attention(heads, splits):
    lengths, kv_heads, width, page = [70, 3], 2, 64, 16
    q = normal(len(lengths), heads, width, dtype=torch.float16)
    keys, values = (
        [normal(n, kv_heads, width, dtype=torch.float16) for n in lengths] for _ in range(2)
    )
    torch.manual_seed(0)
    k_pages, table = paged(keys, page)
    torch.manual_seed(0)
    v_pages, _ = paged(values, page)
    out, lse = torch.empty_like(q), torch.empty(len(lengths), heads, device="cuda")
    parts = torch.empty(len(lengths), heads, splits, width + 1, device="cuda")
    of("v1.attention.ops.triton_decode_attention").decode_attention_fwd(
        q, k_pages.nan_to_num(0), v_pages.nan_to_num(0), out, lse, table,
        torch.tensor(lengths, device="cuda"), parts, splits, width**-0.5, page,
    )  # fmt: skip
    for i, (k, v) in enumerate(zip(keys, values, strict=True)):
        near(out[i : i + 1], attend(q[i : i + 1], k, v, width**-0.5))


def test_merge_attn_states():
    k, v = (normal(40, 2, 48) for _ in range(2))
    q = normal(3, 2, 48)

    def part(at):
        scores = torch.einsum("qhd,khd->hqk", q, k[at])
        out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v[at])
        return out.contiguous(), scores.logsumexp(-1)

    (first, first_sum), (second, second_sum), (whole, whole_sum) = (
        part(slice(*at)) for at in ((0, 11), (11, 40), (0, 40))
    )
    out, total = torch.empty_like(q), torch.empty(2, 3, device="cuda")
    of("v1.attention.ops.triton_merge_attn_states").merge_attn_states(
        out, first, first_sum, second, second_sum, total
    )
    near(out, whole, 1e-4)
    near(total, whole_sum, 1e-4)


def test_reshape_and_cache():
    key, value = (normal(5, 2, 32, dtype=torch.float16) for _ in range(2))
    caches = [torch.zeros(4, 16, 2, 32, dtype=torch.float16, device="cuda") for _ in range(2)]
    slots = torch.tensor([3, 17, -1, 63, 32], device="cuda")  # of -1 nothing is kept
    one = torch.ones((), device="cuda")
    of("v1.attention.ops.triton_reshape_and_cache_flash").triton_reshape_and_cache_flash(
        key, value, *caches, slots, "auto", one, one
    )
    for cache, new in zip(caches, (key, value), strict=True):
        expected = torch.zeros(64, 2, 32, dtype=torch.float16, device="cuda")
        expected[slots[slots >= 0]] = new[slots >= 0]
        assert torch.equal(cache.view(64, 2, 32), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_lora(dtype):
    tokens, width, rank, out_width, loras = 40, 128, 16, 96, 3
    x = normal(tokens, width, dtype=dtype)
    mapping = torch.randint(-1, loras, (tokens,), dtype=torch.int32, device="cuda")
    meta = of("lora.ops.triton_ops.lora_kernel_metadata").LoRAKernelMeta.make(loras, 64, "cuda")
    meta.prepare_tensors(mapping)
    facts = meta.meta_args(tokens, False)
    down = [normal(loras, 1, rank, width, dtype=dtype) / 8 for _ in range(2)]
    up = [normal(loras, 1, out_width, rank, dtype=dtype) / 8 for _ in range(2)]
    small = torch.zeros(2, tokens, rank, device="cuda")
    of("lora.ops.triton_ops.lora_shrink_op")._lora_shrink(x, down, small, *facts, 0.5)
    is_mapped = (mapping >= 0)[:, None]
    for s in range(2):
        chosen = down[s][mapping.clamp(min=0).long(), 0].float()
        near(small[s], 0.5 * is_mapped * torch.einsum("td,trd->tr", x.float(), chosen))
    out = normal(tokens, 2 * out_width, dtype=dtype)
    before = out.clone()
    of("lora.ops.triton_ops.lora_expand_op")._lora_expand(
        small.to(dtype).float(), up, out, *facts, 0, True
    )
    for s in range(2):
        chosen = up[s][mapping.clamp(min=0).long(), 0].float()
        more = is_mapped * torch.einsum("tr,tor->to", small[s].to(dtype).float(), chosen)
        columns = slice(s * out_width, (s + 1) * out_width)
        near(out[:, columns], before[:, columns].float() + more, 4e-2)


def test_int8_quantisation():
    module = of("model_executor.layers.quantization.utils.int8_utils")
    x = normal(7, 256)
    codes, scales = module.per_token_quant_int8(x)
    assert codes.dtype == torch.int8
    near(scales, x.abs().amax(1, keepdim=True) / 127, 1e-6)
    assert ((codes * scales - x).abs() <= 0.51 * scales).all()
    codes, scales = module.per_token_group_quant_int8(x, 64)
    groups = x.view(7, 4, 64)
    near(scales, groups.abs().amax(-1) / 127, 1e-6)
    assert (
        (codes.view(7, 4, 64) * scales[..., None] - groups).abs() <= 1.01 * scales[..., None]
    ).all()


@pytest.fixture
def named_device(monkeypatch):
    """Let vLLM's platform, which found no driver of NVIDIA's, know the device: by its name files of settings are found."""
    platform = type(of("platforms").current_platform)
    name = classmethod(lambda cls, device_id=0: torch.cuda.get_device_name(device_id))
    monkeypatch.setattr(platform, "get_device_name", name)


@pytest.mark.usefixtures("named_device")
def test_fp8_matrix_product():
    module = of("model_executor.layers.quantization.utils.fp8_utils")
    x, weight = (normal(n, 256).to(torch.float8_e4m3fn) for n in (9, 128))
    of_x, of_weight = torch.rand(9, 2, device="cuda") + 0.5, torch.rand(1, 2, device="cuda") + 0.5
    found = module.w8a8_triton_block_scaled_mm(
        x, weight, of_x, of_weight, [128, 128], torch.float32
    )
    left = x.float() * of_x.repeat_interleave(128, 1)
    right = weight.float() * of_weight.repeat_interleave(128, 1)
    near(found, left @ right.t(), 1e-3)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_scaled_product(dtype):
    module = of("model_executor.layers.quantization.compressed_tensors.triton_scaled_mm")
    a, b = (torch.randint(-9, 10, s, device="cuda").to(dtype) for s in ((17, 64), (64, 40)))
    of_a, of_b = torch.rand(17, 1, device="cuda"), torch.rand(40, 1, device="cuda")
    bias = normal(40, dtype=torch.float16)
    found = module.triton_scaled_mm(a, b, of_a, of_b, torch.float16, bias)
    near(found, of_a * (a.float() @ b.float()) * of_b.t() + bias)


def test_awq():
    module = of("model_executor.layers.quantization.awq_triton")
    numbers, zeros = (torch.randint(0, 16, (n, 64), device="cuda") for n in (64, 2))
    scales = torch.rand(2, 64, device="cuda", dtype=torch.float16)

    def words(numbers):
        """Return eight numbers of four bits in a word: those at even places, then those at odd ones."""
        places = torch.tensor([0, 16, 4, 20, 8, 24, 12, 28], device="cuda")
        return (numbers.view(len(numbers), -1, 8) << places).sum(-1).to(torch.int32)

    group = 32
    plain = (numbers - zeros.repeat_interleave(group, 0)) * scales.repeat_interleave(group, 0)
    found = module.awq_dequantize_triton(words(numbers), scales, words(zeros))
    near(found, plain)
    x = normal(5, 64, dtype=torch.float16)
    near(
        module.awq_gemm_triton(x, words(numbers), scales, words(zeros), 2),
        x.float() @ plain.float(),
        5e-2,
    )


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("group", [None, 32])
def test_gated_rms_norm(gated, group):
    x, z = normal(6, 128), normal(6, 128) if gated else None
    weight = normal(128)
    found = of("model_executor.layers.mamba.ops.layernorm_gated").rms_norm_gated(
        x, weight, None, z, 1e-5, group, norm_before_gate=False
    )
    y = x * F.silu(z) if gated else x
    parts = y.view(6, -1, group or 128)
    expected = (parts * torch.rsqrt(parts.pow(2).mean(-1, keepdim=True) + 1e-5)).view(6, 128)
    near(found, expected * weight, 1e-4)


@pytest.mark.usefixtures("named_device")
def test_selective_state_update():
    batch, heads, width, states = 3, 2, 40, 16
    x, dt = (normal(batch, heads, width) for _ in range(2))
    state, a = normal(batch, heads, width, states), -torch.rand(heads, width, states, device="cuda")
    b, c = (normal(batch, 1, states) for _ in range(2))
    d, bias = (normal(heads, width) for _ in range(2))
    step = F.softplus(dt + bias)[..., None]
    after = state * torch.exp(step * a) + step * b[:, :, None] * x[..., None]
    expected = (after * c[:, :, None]).sum(-1) + d * x
    out = torch.empty_like(x)
    of("model_executor.layers.mamba.ops.mamba_ssm").selective_state_update(
        state, x, dt, a, b, c, d, bias, dt_softplus=True, out=out
    )
    near(out, expected, 1e-4)
    near(state, after, 1e-4)


def test_causal_convolution():
    module = of("model_executor.layers.mamba.ops.causal_conv1d")
    width, taps = 64, 4
    x, weight, bias = normal(width, 25), normal(width, taps), normal(width)
    lengths = [9, 16]
    states = torch.zeros(3, taps - 1, width, device="cuda").transpose(1, 2)
    found = module.causal_conv1d_fn(
        x.t().contiguous().t(), weight, bias, states,
        torch.tensor([0, 9, 25], dtype=torch.int32, device="cuda"),
        torch.tensor([1, 2], dtype=torch.int32, device="cuda"),
        torch.tensor([False, False], device="cuda"), "silu",
    )  # fmt: skip
    for number, part in enumerate(x.split(lengths, 1)):
        whole = F.conv1d(F.pad(part, (taps - 1, 0))[None], weight[:, None], bias, groups=width)[0]
        near(found[:, 9 * number : 9 * number + part.shape[1]], F.silu(whole), 1e-4)
        near(states[number + 1], part[:, 1 - taps :], 1e-6)
    new, before = normal(2, width), states.clone()
    found = module.causal_conv1d_update(
        new.clone(), states, weight, bias, "silu",
        conv_state_indices=torch.tensor([2, 1], dtype=torch.int32, device="cuda"),
    )  # fmt: skip
    rows = torch.cat([before[[2, 1]], new[..., None]], -1)
    near(found, F.silu((rows * weight).sum(-1) + bias), 1e-4)
    near(states[[2, 1]], rows[..., 1:], 1e-6)


def test_multimodal_rotary_embedding():
    tokens, heads, kv_heads, size, sections = 5, 3, 1, 32, [4, 6, 6]
    q, k = normal(tokens, heads * size), normal(tokens, kv_heads * size)
    angles = torch.rand(3, tokens, size // 2, device="cuda") * 6
    found = of("model_executor.layers.rotary_embedding.mrope").triton_mrope(
        q.clone(), k.clone(), angles.cos(), angles.sin(), sections, size, size, False, True
    )
    parts = [part[i] for i, part in enumerate(angles.split(sections, -1))]
    angle = torch.cat(parts, -1)[:, None]
    for x, y in zip((q, k), found, strict=True):
        low, high = x.view(tokens, -1, size).chunk(2, -1)
        rotated = (low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin())
        near(y.view(tokens, -1, size), torch.cat(rotated, -1), 1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_products_of_experts(weighted):
    module = of("model_executor.layers.fused_moe.fused_moe")
    tokens, experts, top, width, out_width, block = 20, 4, 2, 64, 48, 16
    x = normal(tokens, width, dtype=torch.float16)
    weights = normal(experts, out_width, width, dtype=torch.float16)
    factors, chosen = torch.rand(tokens, experts, device="cuda").topk(top)
    # The places of each expert's rows, filled up to whole blocks with a number that is none.
    rows = [(chosen.flatten() == e).nonzero().flatten().tolist() for e in range(experts)]
    full = [r + [tokens * top] * (-len(r) % block) for r in rows]
    places = torch.tensor([i for r in full for i in r], dtype=torch.int32, device="cuda")
    owners = [e for e, r in enumerate(full) for _ in range(len(r) // block)]
    out = torch.zeros(tokens, top, out_width, dtype=torch.float16, device="cuda")
    sizes = {"BLOCK_SIZE_M": block, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 1}
    tl = importlib.import_module("triton.language")
    module.invoke_fused_moe_triton_kernel(
        x, weights, out, None, None, factors, places,
        torch.tensor(owners, dtype=torch.int32, device="cuda"),
        torch.tensor([len(places)], dtype=torch.int32, device="cuda"),
        weighted, top, sizes, tl.float16, False, False, False, False, False,
    )  # fmt: skip
    expected = torch.einsum("td,tkod->tko", x.float(), weights[chosen].float())
    near(out, expected * factors[..., None] if weighted else expected, 3e-2)


def kernel_files():
    folder = SOURCE / "vllm"
    found = (p for p in sorted(folder.rglob("*.py")) if "triton.jit" in p.read_text())
    return [".".join(p.relative_to(SOURCE).with_suffix("").parts) for p in found]


@pytest.mark.parametrize("name", kernel_files())
def test_a_module_with_kernels_can_be_imported(name):
    importlib.import_module(name.removesuffix(".__init__"))

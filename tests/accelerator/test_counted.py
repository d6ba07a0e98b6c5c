"""Counts of torch's operators on emulated devices: by hand, and beside torch's own counter of flops."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

import emu.accelerator
from emu.trace.counting import Counts, collect


@pytest.fixture(autouse=True)
def devices():
    emu.accelerator.install()
    yield
    emu.accelerator.uninstall()


def counted(call, *args) -> list[Counts]:
    with collect(operators=True) as found:
        call(*args)
    return found


def only(call, *args) -> Counts:
    (found,) = counted(call, *args)
    return found


def on_device(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=torch.float32).to(dtype).to("cuda")


def loaded(counts: Counts) -> dict[str, int]:
    return {t.name: t.loaded for t in counts.tensors if t.loaded}


PRODUCTS = {
    "matmul": lambda a, b: a @ b,
    "addmm": lambda a, b: torch.addmm(b[0], a, b),
    "linear": lambda a, b: functional.linear(a, b.T),
    "bmm": lambda a, b: torch.bmm(a.reshape(4, 8, 48), b.reshape(4, 48, 4)),
    "baddbmm": lambda a, b: torch.baddbmm(
        b.reshape(4, 48, 4)[:, :8], a.reshape(4, 8, 48), b.reshape(4, 48, 4)
    ),
    "einsum": lambda a, b: torch.einsum("ij,jk->ki", a, b),
    "conv1d": lambda a, b: functional.conv1d(a[None], b.reshape(2, 32, 12)),
    "conv2d": lambda a, b: functional.conv2d(
        a.reshape(2, 3, 16, 16), b.reshape(4, 3, 8, 8)[:, :, :3, :3], stride=2, padding=1
    ),
    "groups": lambda a, b: functional.conv2d(
        a.reshape(2, 4, 16, 12), b.reshape(4, 3, 8, 8)[:, :2, :3, :3], groups=2
    ),
    "transposed": lambda a, b: functional.conv_transpose2d(
        a.reshape(2, 4, 16, 12), b.reshape(4, 3, 8, 8)[:, :, :3, :3], stride=2
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("backward", [False, True])
def test_torch_counts_the_same_flops_of_products(name: str, backward: bool) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(32, 48), torch.randn(48, 16)

    def call(a, b) -> None:
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        result = PRODUCTS[name](a, b)
        if backward:
            result.sum().backward()

    with FlopCounterMode(display=False) as counter:
        call(a, b)
    found = counted(call, a.to("cuda"), b.to("cuda"))
    total = sum(n for c in found for n in c.work.get("dot", {}).values())
    wanted = counter.get_total_flops()
    if name == "groups" and backward:
        # Torch takes the gradient of the weights for one of all channels, not of those of a group.
        with FlopCounterMode(display=False) as forward:
            PRODUCTS[name](a, b)
        wanted = 3 * forward.get_total_flops()
    assert total == wanted > 0
    dots = sum(2 * d.batch * d.m * d.n * d.k * d.times for c in found for d in c.dots)
    assert dots == total


@pytest.mark.parametrize("backward", [False, True])
def test_attention_counts_both_products(backward: bool) -> None:
    q, k, v = (on_device(2, 4, 32, 16).requires_grad_() for _ in range(3))

    def call() -> None:
        out = functional.scaled_dot_product_attention(q, k, v)
        if backward:
            out.sum().backward()

    found = counted(call)
    one = 2 * 2 * 4 * 32 * 32 * 16
    total = sum(n for c in found for n in c.work.get("dot", {}).values())
    assert total == one * (2 + 5 * backward)  # a backward pass computes the scores again


def test_a_product_by_hand() -> None:
    a, b = on_device(64, 32, dtype=torch.bfloat16), on_device(32, 16, dtype=torch.bfloat16)
    found = only(torch.matmul, a, b)
    assert (found.name, found.launches, found.programs, found.operations) == ("matmul", 1, 0, 1)
    assert found.file == __file__
    assert found.work == {"dot": {"bf16": 2 * 64 * 32 * 16}}
    (dot,) = found.dots
    assert (dot.batch, dot.m, dot.n, dot.k, dot.a, dot.accumulator) == (
        1,
        64,
        16,
        32,
        "bf16",
        "f32",
    )
    assert loaded(found) == {"self": 2 * 64 * 32, "mat2": 2 * 32 * 16}
    assert found.stored == 2 * 64 * 16
    assert Counts.from_json(found.to_json()) == found
    assert "calls 1, operators 1" in found.table()


def test_tf32_is_what_torch_was_told() -> None:
    a = on_device(8, 8)
    flags = torch.backends.cuda.matmul
    before, flags.allow_tf32 = flags.allow_tf32, True
    try:
        assert only(torch.matmul, a, a).work == {"dot": {"tf32": 2 * 8**3}}
    finally:
        flags.allow_tf32 = before


ELEMENTS = {
    "add": (lambda x: x + 1.0, {"vector": {"f32": 600}}, 2400, 2400),
    "in place": (lambda x: x.mul_(2.0), {"vector": {"f32": 600}}, 2400, 2400),
    "repeated": (lambda x: x + x[:1].expand(20, 30), {"vector": {"f32": 600}}, 2400 + 120, 2400),
    "exp": (torch.exp, {"special": {"f32": 600}}, 2400, 2400),
    "compare": (lambda x: x > 0, {"compare": {"f32": 600}}, 2400, 600),
    "halves": (lambda x: x.half(), {"cast": {"f16": 600}}, 2400, 1200),
    "softmax": (
        lambda x: torch.softmax(x, 1),
        {"special": {"f32": 600}, "vector": {"f32": 2400}},
        2400,
        2400,
    ),
    "sum": (lambda x: x.sum(1), {"vector": {"f32": 600}}, 2400, 80),
    "copy": (lambda x: x.clone(), {}, 2400, 2400),
    "fill": (lambda x: x.zero_(), {}, 0, 2400),
    "rows": (lambda x: x[torch.tensor([1, 1, 5], device="cuda")], {}, 24 + 360, 360),
    "transposed copy": (lambda x: x.T.contiguous(), {}, 2400, 2400),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_other_operators_by_hand(name: str) -> None:
    call, work, read, written = ELEMENTS[name]
    found = counted(call, on_device(20, 30))
    total: dict[str, dict[str, int]] = {}
    for counts in found:
        for unit, of in counts.work.items():
            for dtype, n in of.items():
                total.setdefault(unit, {})[dtype] = n
    assert total == work
    assert (sum(c.loaded for c in found), sum(c.stored for c in found)) == (read, written)


def test_views_and_host_tensors_do_not_count() -> None:
    x = on_device(20, 30)
    assert counted(lambda: x.view(30, 20).T[3:5].unsqueeze(0)) == []
    assert counted(lambda: torch.ones(3) + 1) == []


def test_lines_and_results_stay() -> None:
    x = on_device(16, 16)

    def call():
        y = x @ x
        return torch.relu(y @ x).sum()

    plain = call()
    with collect(operators=True) as found:
        result = call()
    assert torch.equal(plain.cpu(), result.cpu())
    lines = {c.line for c in found}
    assert len(lines) == 2
    assert len(found) == 4
    with collect() as found:
        call()
    assert found == []


def test_operators_must_be_a_bool() -> None:
    with pytest.raises(TypeError, match="operators must be a bool"), collect(operators=1):
        pass

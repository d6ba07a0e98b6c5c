"""Compiled functions of tensors on emulated devices: the same values on the same devices as run eagerly, in one graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of its compiler


def places(torch: Any, results: Any) -> list[str]:
    leaves = torch.utils._pytree.tree_leaves(results)
    return [str(leaf.device) for leaf in leaves if isinstance(leaf, torch.Tensor)]


def compare(torch: Any, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Check values and devices, and that Dynamo traced the function into one graph."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    expected = function(*copy.deepcopy(arguments))
    torch.manual_seed(0)
    options = {"fullgraph": True, **options}
    found = torch.compile(function, **options)(*copy.deepcopy(arguments))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert places(torch, found) == places(torch, expected)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "of the host": lambda torch, x, h: h.sin() + 1,
    "of a device": lambda torch, x, h: (x.sin() + 1, x.sum(0), x.t()),
    "of both": lambda torch, x, h: (x * 2, h * 2, torch.zeros(2), x.new_ones(3)),
    "makes tensors": lambda torch, x, h: (
        torch.zeros(8, 16, device="cuda") + x,
        torch.ones_like(x),
        torch.arange(4, device=x.device),
        torch.full((2,), 3.5, device="cuda:1"),
    ),
    "to the host": lambda torch, x, h: (x.cpu() + 1, x * 2, x.to("cpu", torch.float64)),
    "to a device": lambda torch, x, h: (h.cuda() + 1, h.to("cuda"), h.to(x), h * 2),
    "to an index": lambda torch, x, h: (h.to(torch.device("cuda", 1)), h.cuda(1) * 2),
    "to where it is": lambda torch, x, h: (x.to("cuda") + x.cuda(), h.cpu() + h),
    "asks": lambda torch, x, h: (
        x * 2 if x.is_cuda and x.device.type == "cuda" and not h.is_cuda else x,
        x + torch.cuda.current_device() + torch.cuda.device_count(),
        x * torch.cuda.get_device_capability()[0],
        x + torch.cuda.get_device_properties(0).warp_size,
    ),
    "changes its argument": lambda torch, x, h: x.add_(1),
    "autocast": lambda torch, x, h: autocast(torch, x),
    "attention": lambda torch, x, h: torch.nn.functional.scaled_dot_product_attention(
        *[x.view(1, 2, 4, 16)] * 3, is_causal=True
    ),
    "convolution": lambda torch, x, h: torch.nn.functional.conv2d(
        x.view(1, 2, 8, 8), x.view(8, 2, 2, 4)[..., :2]
    ),
    "random numbers": lambda torch, x, h: torch.rand(4, device=x.device).numel() + x,
    "waits": lambda torch, x, h: (torch.cuda.synchronize(), x * 2)[1],
}


def autocast(torch: Any, x: Any) -> Any:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return x @ x.t()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_devices(devices: Any, name: str) -> None:
    torch = devices
    x, h = torch.randn(8, 16, device="cuda"), torch.randn(8, 16)
    compare(torch, lambda x, h: FUNCTIONS[name](torch, x, h), x, h)


def test_another_kind_of_device(devices: Any) -> None:
    torch = devices
    x = torch.randn(8, device="npu")
    compare(torch, lambda x: (x * 2 + torch.ones_like(x), x.cpu()), x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_other_back_ends(devices: Any, backend: str) -> None:
    torch = devices
    x = torch.randn(8, 16, device="cuda")
    compare(torch, lambda x: torch.zeros(8, 16, device="cuda") + x.sin(), x, backend=backend)


def test_compiled_code_fits_tensors_on_the_device_it_was_compiled_for(devices: Any) -> None:
    torch = devices
    torch._dynamo.reset()
    function = torch.compile(lambda t: (t + 1, torch.zeros(2, device=t.device)))
    h = torch.randn(4)
    for device in ("cuda", "cpu", "cuda:1", "cuda"):
        t = h.to(device)
        assert places(torch, function(t)) == [str(t.device)] * 2


def test_tensors_of_two_devices_are_refused(devices: Any) -> None:
    torch = devices
    x = torch.randn(4, device="cuda")
    torch._dynamo.reset()
    function = torch.compile(lambda x, y: x + y, fullgraph=True)
    for other in ("cpu", "cuda:1"):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            function(x, torch.randn(4).to(other))


def test_a_graph_break_leaves_devices_as_they_are(devices: Any) -> None:
    torch = devices

    def function(x: Any) -> Any:
        y = x.sin()
        torch._dynamo.graph_break()
        z = torch.ones(3, device="cuda") + y[0, :3]
        return z.cpu(), y

    compare(torch, function, torch.randn(8, 16, device="cuda"), fullgraph=False)


def test_a_graph_without_tensors(devices: Any) -> None:
    """As Dynamo makes it of what stands before a graph break inside of ``no_grad``."""
    torch = devices
    from torch._inductor import compile_fx
    from torch._inductor.fx_passes import joint_graph

    graph = torch.fx.Graph()
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output(())
    joint_graph.lazy_init.cache_clear()  # Inductor makes its patterns once, of tensors on the graph's device
    dynamo_hides_the_mode = torch._C.DisableTorchFunction()
    with torch._inductor.config.patch(force_disable_caches=True), dynamo_hides_the_mode:
        compiled = compile_fx.compile_fx(torch.fx.GraphModule(torch.nn.Module(), graph), [])
    assert not compiled()


@pytest.mark.slow
def test_training_and_optimizers(devices: Any) -> None:
    torch = devices
    torch._dynamo.reset()
    nn = torch.nn
    torch.manual_seed(1)
    one = nn.Sequential(
        nn.Embedding(11, 16), nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 11)
    )
    one = one.cuda()
    other = copy.deepcopy(one)
    ids = torch.randint(0, 11, (2, 9), device="cuda")
    losses = []
    for model, compiles in ((one, torch.compile), (other, lambda function: function)):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        call, step = compiles(model), compiles(optimizer.step)
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(call(ids).flatten(0, 1), ids.flatten())
            loss.backward()
            assert {str(p.grad.device) for p in model.parameters()} == {"cuda:0"}
            step()
            losses.append(loss.item())
        state = optimizer.state[next(model.parameters())]
        assert str(state["exp_avg"].device) == "cuda:0"
    assert losses[:3] == pytest.approx(losses[3:], rel=1e-5)
    for found, expected in zip(one.parameters(), other.parameters(), strict=True):
        assert str(found.device) == "cuda:0"
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_gradients_inside_of_a_compiled_function(devices: Any) -> None:
    torch = devices
    weight = torch.randn(4, device="cuda", requires_grad=True)
    (weight * 3).sum().backward()
    compare(torch, lambda x: weight.grad * x, torch.randn(4, device="cuda"))


@pytest.mark.parametrize("of_a_view", [False, True])
def test_function_transforms_inside_of_a_compiled_function(devices: Any, of_a_view: bool) -> None:
    torch = devices
    w = torch.nn.Parameter(torch.randn(8, 4, device="cuda:1"))
    x = torch.randn(6, 4, device="cuda:1")
    x = torch.chunk(x, 2)[1] if of_a_view else x

    def gradients(x: Any) -> Any:
        def loss(x: Any, w: Any) -> Any:
            scores = torch.log_softmax(x @ w.t(), -1)
            return scores[:, 0].mean(), scores

        return torch.func.grad_and_value(loss, argnums=(0, 1), has_aux=True)(x, w)

    found, expected = torch.compile(gradients)(x), gradients(x)
    torch.testing.assert_close(found, expected)
    assert {leaf.device for leaf in torch.utils._pytree.tree_leaves(found)} == {w.device}


def test_modes_of_the_program_are_kept(devices: Any) -> None:
    torch = devices
    from torch.overrides import TorchFunctionMode

    class Doubles(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.sin else result

    def function(x: Any) -> Any:
        return torch.sin(x) + torch.ones(4, device="cuda")

    x = torch.randn(4, device="cuda")
    with Doubles():
        compare(torch, function, x)

    def enters(x: Any) -> Any:
        with Doubles():
            return torch.sin(x)

    compare(torch, enters, x)
    assert torch.zeros(2, device="cuda").is_cuda  # our mode is still there


def test_random_numbers_come_from_the_devices_generator(devices: Any) -> None:
    torch = devices
    call = torch.compile(lambda x: torch.nn.functional.dropout(x) + torch.rand_like(x))
    x = torch.ones(64, device="cuda")
    torch.manual_seed(5)
    host = torch.get_rng_state()
    first, second = call(x), call(x)
    assert not torch.equal(first, second)
    torch.cuda.manual_seed(5)
    assert torch.equal(call(x), first)
    assert torch.equal(torch.get_rng_state(), host)


def test_flexible_attention(devices: Any) -> None:
    torch = devices
    from torch.nn.attention import flex_attention as flex

    q = torch.randn(1, 2, 128, 32, device="cuda")
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, 1, 2, 128, 128, device="cuda")
    compare(torch, lambda q: flex.flex_attention(q, q, q, block_mask=mask), q)


@pytest.mark.parametrize("kinds", ["cuda", None])
def test_operators_of_the_program_see_the_device_of_their_buffers(
    devices: Any, kinds: str | None
) -> None:
    torch = devices
    seen = []

    def negate(x: torch.Tensor, y: list[torch.Tensor]) -> torch.Tensor:
        seen.append([str(each.device) for each in (x, *y)])
        assert torch.cuda.get_device_capability(x.device) >= (8, 0)
        return -x - sum(y)

    negate.__annotations__ = {"x": torch.Tensor, "y": list[torch.Tensor], "return": torch.Tensor}
    name = f"emutests::negate_{kinds}"
    operator = torch.library.custom_op(name, negate, mutates_args=(), device_types=kinds)
    operator.register_fake(lambda x, y: torch.empty_like(x))
    x = torch.ones(8, 4, device="cuda", requires_grad=True)
    host = torch.ones(4)

    def function(x: Any, host: Any) -> Any:
        return operator(x.t().clone() + 1, [x.t(), x.t() * 2]), host + 1

    found = torch.compile(function, fullgraph=True)(x.detach(), host)
    assert seen[-1] == ["cuda:0"] * 3
    assert [str(each.device) for each in (*found, host)] == ["cuda:0", "cpu", "cpu"]
    torch.testing.assert_close(found, function(x.detach(), host))

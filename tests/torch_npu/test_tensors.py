"""Tensors of torch as arguments: their devices, gradients, and the sample that was published."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import emu.accelerator
from emu import torch_npu
from emu.comm.errors import ArgumentError

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [torch.qint8, torch.int8, torch.quint8, torch.int32])
def test_quantize_takes_torch_dtypes(dtype: Any) -> None:
    x = torch.tensor([[-1.0, 3.3]])
    result = torch_npu.npu_quantize(x, torch.tensor([0.5]), torch.tensor([0.0]), dtype)
    plain = {torch.qint8: torch.int8, torch.quint8: torch.uint8}.get(dtype, dtype)
    assert result.dtype == plain
    assert result.tolist() == [[0 if plain == torch.uint8 else -2, 7]]


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Emulated devices as far as the operators look at them; gives functions that place a tensor and find it."""

    def device_of(tensor: Any) -> Any:
        return getattr(tensor, "_emu_device", tensor.device)

    def assign_device(tensor: Any, device: Any) -> Any:
        tensor._emu_device = torch.device(device)
        return tensor

    tags = SimpleNamespace(device_of=device_of, assign_device=assign_device)
    monkeypatch.setitem(sys.modules, "emu.accelerator.device_tags", tags)
    monkeypatch.setattr(emu.accelerator, "installed", lambda: True, raising=False)
    return tags


def arguments() -> dict[str, Any]:
    return {
        "self": torch.zeros(2, 4, 32, dtype=torch.int8),
        "indices": torch.tensor([1, 2]),
        "updates": torch.ones(2, 1, 32, dtype=torch.bfloat16),
        "quant_scales": torch.ones(32, dtype=torch.bfloat16),
        "quant_zero_points": torch.ones(32, dtype=torch.bfloat16),
    }


AXES = {"axis": -2, "quant_axis": -1}


@pytest.mark.parametrize("stray", list(arguments()))
def test_each_tensor_must_be_on_the_device_of_the_others(devices: Any, stray: str) -> None:
    given = arguments()
    for name, tensor in given.items():
        if name != stray:
            devices.assign_device(tensor, "cuda:1")
    with pytest.raises(
        ArgumentError, match=rf"{stray} must be on cuda:1 as \w+ is, but got a tensor on cpu"
    ):
        torch_npu.npu_quant_scatter_(**given, **AXES)
    devices.assign_device(given[stray], "cuda:0")
    with pytest.raises(
        ArgumentError, match=r"must be on cuda:[01] as .* got a tensor on cuda:[01]"
    ):
        torch_npu.npu_quant_scatter_(**given, **AXES)
    assert not given["self"].any()
    devices.assign_device(given[stray], "cuda:1")
    torch_npu.npu_quant_scatter_(**given, **AXES)
    assert given["self"].any()


def test_tensors_all_on_the_cpu_are_refused_where_devices_are_emulated(devices: Any) -> None:
    with pytest.raises(ArgumentError, match=r"self must be on an emulated device, but got .* cpu"):
        torch_npu.npu_quant_scatter_(**arguments(), **AXES)
    array = np.ones((2, 32), np.float32)
    assert torch_npu.npu_dynamic_quant(array)[0].dtype == np.int8


def test_results_are_on_the_device_of_the_arguments(devices: Any) -> None:
    x = devices.assign_device(torch.randn(3, 8), "cuda:1")
    y, scale = torch_npu.npu_dynamic_quant(x)
    factor = devices.assign_device(torch.ones(1), "cuda:1")
    results = [
        y,
        scale,
        torch_npu.npu_quantize(x, factor, None, torch.int8),
        torch_npu.npu_anti_quant(y, factor),
        torch_npu.npu_quant_matmul(y, devices.assign_device(y.t(), "cuda:1"), factor),
        torch_npu.npu_scatter_nd_update(
            x,
            devices.assign_device(torch.tensor([[1]]), "cuda:1"),
            devices.assign_device(x[:1], "cuda:1"),
        ),
    ]
    assert [devices.device_of(result) for result in results] == [torch.device("cuda:1")] * 6


def test_tensors_that_require_grad_are_refused_where_a_gradient_would_be_lost() -> None:
    x = torch.ones(2, 4, requires_grad=True)
    with pytest.raises(ArgumentError, match="x must not require grad"):
        torch_npu.npu_dynamic_quant(x)
    with torch.no_grad():
        assert torch_npu.npu_dynamic_quant(x)[0].tolist() == [[127] * 4] * 2
    # An integer result has no gradient to lose.
    assert torch_npu.npu_quantize(x, torch.ones(1), None, torch.int8).tolist() == [[1] * 4] * 2
    target = torch.zeros(2, 4)
    with pytest.raises(ArgumentError, match="updates must not require grad"):
        torch_npu.npu_scatter_nd_update_(target, torch.tensor([[0], [1]]), x)
    assert not target.any()


def test_torch_learns_of_writes_in_place() -> None:
    weight = torch.ones(2, 4, requires_grad=True)
    saved = torch.full((2, 4), 3.0)
    product = weight * saved
    torch_npu.npu_scatter_nd_update_(saved, torch.tensor([[0]]), torch.zeros(1, 4))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():
        fixed = torch.ones(2, 4)
        torch_npu.npu_scatter_nd_update_(fixed, torch.tensor([[0]]), torch.zeros(1, 4))
    assert fixed[0].tolist() == [0] * 4


def test_torch_function_modes_do_not_see_the_operators() -> None:
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    given = arguments()
    with Mode():
        torch_npu.npu_quant_scatter_(**given, **AXES)
        torch_npu.npu_dynamic_quant(given["updates"])
    assert seen == []


def test_the_published_sample() -> None:
    """Its shapes, dtypes and casts, less the devices; its indices are all zeros and every row has its own batch."""
    rng = np.random.default_rng(0)
    var = torch.from_numpy(rng.uniform(0, 1, [24, 4096, 128]).astype(np.int8))
    indices = torch.from_numpy(rng.uniform(0, 1, [24]).astype(np.int32))
    draws = [([24, 1, 128], 1, 2), ([1, 1, 128], 0.01, 1), ([1, 1, 128], 0, 1)]
    updates, scales, zeros = (
        torch.from_numpy(rng.uniform(low, high, shape).astype(np.float16)).to(torch.bfloat16)
        for shape, low, high in draws
    )
    torch_npu.npu_quant_scatter_(
        var, indices, updates, scales, zeros, axis=-2, quant_axis=-1, reduce="update"
    )
    wanted = (updates.float() / scales.float() + zeros.float()).round().clamp(-128, 127)
    assert torch.equal(var[:, 0], wanted[:, 0].to(torch.int8))
    assert not var[:, 1:].any()


def test_the_operators_load_no_torch_for_numpy_arrays() -> None:
    program = (
        "import sys, numpy as np\n"
        "from emu import torch_npu\n"
        "assert 'numba' not in sys.modules\n"
        "assert set(torch_npu.__all__) <= set(dir(torch_npu))\n"
        "y, scale = torch_npu.npu_dynamic_quant(np.ones((2, 4), np.float32))\n"
        "assert y.tolist() == [[127] * 4] * 2\n"
        "torch_npu.npu_anti_quant(y, scale[:1])\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="npu_no_such_thing"):
        _ = torch_npu.npu_no_such_thing

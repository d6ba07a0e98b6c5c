"""Division by numbers on emulated GPUs: the bits are those of a product with the rounded reciprocal."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")

NUMBERS = (3, 0.1, -7.5, 1e30, 3e38, 1e-38, 1e-45, 1e39, 0, -0.0, True, float("inf"), float("nan"))


def product(x, number):
    """What CUDA computes: the reciprocal in fp32 (fp64 of fp64), one product, one rounding to the result."""
    wide = np.float64 if x.dtype == torch.float64 else np.float32
    values = x.cpu().to(torch.float64 if wide is np.float64 else torch.float32).numpy()
    with np.errstate(all="ignore"):
        result = torch.from_numpy(values * (wide(1) / wide(number)))
    return result.to(x.dtype if x.is_floating_point() else torch.float32)


def values(dtype):
    if not dtype.is_floating_point:
        return torch.arange(-500 if dtype.is_signed else 0, 600, device="cuda").to(dtype)
    ends = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, 3e38])
    return torch.cat([torch.randn(4093), ends]).to("cuda", dtype)


def bits_of_products():
    torch.manual_seed(0)
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.uint8)
    for dtype in dtypes:
        x = values(dtype)
        for number in NUMBERS:
            expected = product(x, number)
            got = x / number
            assert (got.dtype, got.device) == (expected.dtype, x.device), (dtype, number)
            torch.testing.assert_close(
                got.cpu(), expected, rtol=0, atol=0, equal_nan=True, msg=f"{dtype} {number}"
            )


def all_ways_to_divide():
    x = torch.randn(1000, device="cuda")
    expected = product(x, 3)
    assert not torch.equal(expected, x.cpu() / 3)  # else nothing is tested here
    host = torch.tensor(3)
    out = torch.empty_like(x)
    ways = [
        x / 3, x.div(3), x.divide(3), x.true_divide(3), x.div(other=3), x.div(3, rounding_mode=None),
        torch.div(x, 3), torch.divide(x, 3), torch.true_divide(x, 3), torch.div(input=x, other=3),
        x.clone().div_(3), x.clone().divide_(3), x.clone().true_divide_(3),
        x / np.float32(3), x / np.int64(3), x / host, x / host.double(), x.clone().div_(host),
        torch.div(x, 3, out=out), x.view(10, 100).t().div(3).t().reshape(-1), x[:, None].div(3)[:, 0],
    ]  # fmt: skip
    y = x.clone()
    y /= 3
    for got in (*ways, y, out):
        assert torch.equal(got.cpu(), expected)
        assert got.is_cuda
    assert torch.equal((x[7] / 3).cpu(), expected[7])  # a device tensor without axes
    half = x.half()
    assert (half / torch.tensor(3.0)).dtype == torch.float16
    assert torch.equal((half / torch.tensor(3.0)).cpu(), product(half, 3))
    wider = half[0] / torch.tensor(3.0)  # neither has axes: the result is as wide as the wider one
    assert wider.dtype == torch.float32
    assert wider.cpu() == product(half[:1].float(), 3)[0]


def real_divisions():
    x = torch.randn(1000, device="cuda")
    exact = x.cpu() / 3
    for got in (
        x / torch.tensor(3.0, device="cuda"),
        x / torch.full_like(x, 3),
        x.cpu() / 3,
        x.to("npu") / 3,
    ):
        assert torch.equal(got.cpu(), exact)
    complex_x = x.to(torch.complex64)
    assert torch.equal((complex_x / 3).cpu(), complex_x.cpu() / 3)
    assert torch.equal(torch.div(x, 3, rounding_mode="floor").cpu(), exact.floor())
    assert torch.equal((3 / x).cpu(), 3 / x.cpu())


def gradients():
    x = torch.randn(1000, device="cuda", requires_grad=True)
    slope = torch.randn(1000, device="cuda")
    (x / 3).backward(slope)
    assert torch.equal(x.grad.cpu(), product(slope, 3))
    number = torch.tensor(3.0, requires_grad=True)  # its own gradient needs the division
    (x.detach() / number).backward(slope)
    assert number.grad is not None
    double = torch.randn(5, device="cuda", dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: t / 3, (double,), check_undefined_grad=False)
    mapped = torch.vmap(lambda row: row / 3)(x.detach().view(10, 100))
    assert torch.equal(mapped.reshape(-1).cpu(), product(x.detach(), 3))


def errors():
    x = torch.ones(3, device="cuda")
    refused(lambda: x / "3", TypeError, "unsupported operand")
    refused(lambda: x / None, TypeError, "unsupported operand")
    refused(lambda: x.div(), TypeError, "argument")
    refused(lambda: torch.div(), TypeError, "argument")
    refused(lambda: x.div(3, 4), TypeError, "div")
    refused(lambda: x / 10**400, OverflowError, "int too")
    refused(lambda: torch.arange(3, device="cuda").div_(3), RuntimeError, "can't be cast")
    refused(lambda: x / torch.ones(3), RuntimeError, "same device")


def test_quotients_have_the_bits_of_a_product() -> None:
    check_on_devices(bits_of_products)


def test_every_way_to_divide_by_a_number() -> None:
    check_on_devices(all_ways_to_divide)


def test_what_cuda_divides_is_divided() -> None:
    check_on_devices(real_divisions)


def test_gradients() -> None:
    check_on_devices(gradients)


def test_errors_are_those_of_torch() -> None:
    check_on_devices(errors)

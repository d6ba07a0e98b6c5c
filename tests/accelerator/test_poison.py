"""Poison in what torch.empty and its kin make on emulated devices."""

import pytest

torch = pytest.importorskip("torch")

import emu.accelerator
from emu.kernels.core import shadows


@pytest.fixture(autouse=True)
def devices(monkeypatch):
    monkeypatch.setenv("EMU_POISON", "1")
    emu.accelerator.install()
    yield
    emu.accelerator.uninstall()


FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
EIGHT_BITS = [torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_nan(dtype):
    x = torch.empty(5, 3, dtype=dtype, device="cuda")
    made = [x, torch.empty_like(x), x.new_empty(4), x.new_empty_strided((2, 2), (5, 1))]
    made += [
        torch.empty_strided((2, 2), (3, 1), dtype=dtype, device="npu"),
        torch.empty_like(x.t()),
    ]
    made += [torch.empty_permuted((2, 3), (1, 0), dtype=dtype, device="cuda")]
    made += [torch.empty(2, dtype=dtype).new_empty(3, device="cuda")]
    for tensor in made:
        assert tensor.isnan().all()


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_narrow_floats_are_nan(dtype):
    assert torch.empty(5, dtype=dtype, device="cuda").float().isnan().all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_hold_a5(dtype):
    x = torch.empty(5, dtype=dtype, device="cuda")
    assert set(x.view(torch.uint8).tolist()) == {0xA5}


def test_booleans_are_true():
    assert torch.empty(5, dtype=torch.bool, device="cuda").all()


def test_gaps_of_a_strided_tensor_are_poisoned():
    x = torch.empty_strided((2, 2), (4, 1), device="cuda")
    assert torch.as_strided(x, (6,), (1,)).isnan().all()


def test_odd_tensors():
    assert torch.empty((), device="cuda").isnan()
    assert torch.empty(0, device="cuda").numel() == 0
    assert torch.empty(3, device="meta").is_meta
    assert torch.empty(3, device="cuda", requires_grad=True).isnan().all()


@pytest.mark.parametrize("kept", [False, True], ids=["plain", "with shadows"])
def test_what_was_written_stays(kept, monkeypatch):
    monkeypatch.setattr(
        shadows, "_is_kept", kept
    )  # as once a kernel was launched with check="uninit"
    x = torch.arange(10.0, device="cuda")
    torch.empty(3, out=x[2:5])
    assert x.tolist() == list(range(10))
    assert torch.zeros(3, device="cuda").tolist() == [0] * 3
    assert torch.nn.Linear(3, 3, device="cuda").weight.isfinite().all()


def test_the_host_is_not_poisoned():
    from emu.accelerator import poison

    x = torch.ones(3)
    poison.poison(x)
    assert x.tolist() == [1] * 3


def test_off_without_the_option(monkeypatch):
    from emu.accelerator.mode import HANDLERS
    from emu.accelerator.poison import install, uninstall

    uninstall()
    assert torch.empty not in HANDLERS
    monkeypatch.setenv("EMU_POISON", "0")
    install()
    assert torch.empty not in HANDLERS

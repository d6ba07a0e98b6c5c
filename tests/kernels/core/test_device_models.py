"""Models of GPUs: their names and figures."""

from __future__ import annotations

import pytest

from emu.kernels.core import device_models, environment
from emu.kernels.core.device_models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_figures_of_a_model_fit_together(name):
    model = MODELS[name]
    assert model.capability >= (7, 0)
    assert 48 < model.block_shared_kib <= model.shared_kib < 256
    assert model.threads in (1024, 1536, 2048)
    # Data sheets give 0.3 to 8 TB/s; memory moves two words a clock.
    assert 0.3 <= 2 * model.memory_mhz * model.memory_bus / 8 * 1e-6 <= 8.5
    assert model.memory_mib > 100 * model.l2_mib


def test_names_are_read_in_any_case_and_others_are_refused():
    assert device_models.find("H100") is MODELS["h100"]
    with pytest.raises(ValueError, match=r"must be one of v100, .*, but got 'tpu'"):
        device_models.find("tpu")


def test_the_environment_names_a_model_and_its_capability(monkeypatch):
    monkeypatch.delenv("EMU_CUDA_CAPABILITY", raising=False)
    monkeypatch.setenv("EMU_DEVICE_MODEL", "")
    assert environment.device_model() is None
    assert environment.cuda_capability() == (8, 0)
    monkeypatch.setenv("EMU_DEVICE_MODEL", "h200")
    assert environment.device_model() is MODELS["h200"]
    assert environment.cuda_capability() == (9, 0)
    monkeypatch.setenv("EMU_CUDA_CAPABILITY", "8.9")
    assert environment.cuda_capability() == (8, 9)
    monkeypatch.setenv("EMU_DEVICE_MODEL", "h2000")
    with pytest.raises(ValueError, match=r"EMU_DEVICE_MODEL must be one of .*'h2000'"):
        environment.device_model()

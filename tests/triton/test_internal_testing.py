"""``triton._internal_testing``: helpers of tests that others wrote."""

import os
import sys

import numpy as np
import pytest

from emu.triton import _internal_testing as helpers
from emu.triton import knobs
from emu.triton import language as tl

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", [*helpers.dtypes_with_bfloat16, "float8e5"])
def test_numbers_are_those_of_the_dtype_and_equal_calls_give_equal_ones(name):
    first, second = (helpers.numpy_random((64, 3), name) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    expected = {"bfloat16": "float32", "float8e5": "int8"}.get(name, name)
    assert first.dtype == expected
    assert first.shape == (64, 3)
    assert (first != 0).all()
    back = helpers.to_numpy(helpers.to_triton(first, "cpu", dst_type=name))
    np.testing.assert_array_equal(back, first)


def test_bfloat16_numbers_are_exact():
    found = helpers.numpy_random(1000, "bfloat16")
    assert not (found.view(np.uint32) & 0xFFFF).any()
    tensor = helpers.to_triton(found, "cpu", dst_type="bfloat16")
    assert tensor.dtype is torch.bfloat16


def test_bounds_of_integers_are_kept():
    found = helpers.numpy_random(1000, "int8", low=2, high=5)
    assert set(found.tolist()) == {2, 3, 4}
    assert helpers.numpy_random(1000, "uint8", low=-7).min() >= 0


def test_unsigned_numbers_are_reinterpreted():
    wrapped = helpers.to_triton(np.arange(4, dtype=np.uint32), "cpu")
    assert wrapped.dtype == tl.uint32
    assert helpers.unwrap_tensor(wrapped).dtype is torch.int32


def test_wrong_arguments_are_refused():
    with pytest.raises(RuntimeError, match="dtype_str must be a dtype of kernels, but got 'f4'"):
        helpers.numpy_random(3, "f4")
    with pytest.raises(ValueError, match="x must be a tensor, but got int 3"):
        helpers.to_numpy(3)
    with pytest.raises(TypeError, match=r"dtype must be one of torch or triton\.language"):
        helpers.torch_dtype_name(np.int8)
    with pytest.raises(AttributeError, match="no attribute 'is_tpu'"):
        _ = helpers.is_tpu


def test_without_an_emulated_device_the_target_is_a_cpu(monkeypatch):
    if "emu.accelerator" in sys.modules and sys.modules["emu.accelerator"].installed():
        pytest.skip("devices are emulated in this process")
    questions = [n for n in dir(helpers) if n.startswith("is_") and n != "is_interpreter"]
    assert len(questions) > 15
    assert not any(getattr(helpers, name)() for name in questions)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert helpers.is_interpreter()
    assert helpers.get_current_target() is None


@pytest.mark.parametrize(
    ("target", "true"),
    [
        (("cuda", 90), {"is_cuda", "is_ampere_or_newer", "is_hopper", "is_hopper_or_newer"}),
        (("cuda", 120), {"is_cuda", "is_ampere_or_newer", "is_hopper_or_newer", "is_sm12x"}),
        (("hip", "gfx942"), {"is_hip", "is_hip_cdna3", "is_hip_cdna3_or_newer", "is_hip_cdna"}),
        (("hip", "gfx1200"), {"is_hip", "is_hip_rdna4", "is_hip_rdna"}),
    ],
)
def test_questions_about_the_device_follow_its_target(monkeypatch, target, true):
    from emu.triton.runtime.driver import GPUTarget, driver

    monkeypatch.setattr(driver, "_active", type("D", (), {})())
    driver.active.get_current_target = lambda: GPUTarget(*target, 32)
    questions = {n for n in dir(helpers) if n.startswith("is_") and n != "is_interpreter"}
    assert {name for name in questions if getattr(helpers, name)()} == true


def test_random_scalars_are_of_torchs_generator():
    torch.manual_seed(3)
    first = helpers.random_int(0, 1000), helpers.random_float()
    torch.manual_seed(3)
    assert (helpers.random_int(0, 1000), helpers.random_float()) == first
    assert 0 <= first[0] < 1000
    assert 0 <= first[1] < 1


def _talk(text, fail=False):
    os.write(2, text.encode())
    if fail:
        raise ValueError(os.environ["OF_THE_CHILD"])


def test_a_function_runs_in_another_process():
    found = helpers.run_in_process(_talk, ("hello",))
    assert (found.exc, found.driver_stderr_output) == (None, "hello")
    with helpers.use_process_pool(__name__) as pool:
        found = pool.run(_talk, ("bye",), {"fail": True}, env={"OF_THE_CHILD": "said"})
    assert isinstance(found.exc, ValueError)
    assert str(found.exc) == "said"
    assert "OF_THE_CHILD" not in os.environ


def test_the_end_of_the_process_is_reported(monkeypatch):
    with pytest.raises(RuntimeError, match="_exit ended with exit code 7 and gave no result"):
        helpers.run_in_process(os._exit, (7,))
    monkeypatch.setenv("TRITON_TEST_PROCESS_TIMEOUT", "0.05")
    with pytest.raises(TimeoutError, match=r"took longer than 0\.05 s"):
        helpers.run_in_process(_sleep)
    monkeypatch.setenv("DISABLE_SUBPROCESS", "1")
    monkeypatch.setenv("OF_THE_CHILD", "raised here")
    with pytest.raises(ValueError, match="raised here"):
        helpers.run_in_process(_talk, ("", True))


def _sleep():
    import time

    time.sleep(30)


def test_fresh_settings_are_undone(monkeypatch):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    before = knobs.autotuning
    fresh, undo = helpers._fresh_knobs_impl({"nvidia"})
    try:
        assert fresh() is knobs
        assert knobs.autotuning is not before
        assert not knobs.autotuning.print
        knobs.amd.use_buffer_ops = False
        assert os.environ["AMDGCN_USE_BUFFER_OPS"] == "0"
    finally:
        undo()
    assert knobs.autotuning is before
    assert knobs.autotuning.print
    assert "AMDGCN_USE_BUFFER_OPS" not in os.environ

"""Functions of ``torch.cuda``, ``torch.npu`` and ``torch.accelerator``, replaced or provided."""

from __future__ import annotations

import sys

import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")
nn = torch.nn


def what_is_missing_is_refused():
    refused(torch.cuda.current_blas_handle, NotImplementedError, "is not emulated")
    spread = nn.DataParallel(nn.Linear(3, 3).cuda())
    refused(lambda: spread(torch.ones(2, 3).cuda()), NotImplementedError, "is not emulated")
    # Scripts choose their path by what a build lacks: it must stay an AttributeError.
    assert not hasattr(torch._C, "_cuda_of_no_build")
    refused(lambda: torch._C._cuda_of_no_build, NotImplementedError, "a function of CUDA builds")
    refused(lambda: torch._C.no_such_thing, AttributeError, "has no attribute 'no_such_thing'")


def the_accelerator_is_the_scripts():
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 2
    for kind in ("cuda", "npu"):  # the NPU, once the script has loaded torch_npu
        assert torch.accelerator.current_accelerator().type == kind
        module = getattr(torch, kind)
        torch.accelerator.set_device_index(1)
        assert module.current_device() == torch.accelerator.current_device_index() == 1
        held = torch.zeros(100, device=kind)
        assert torch.accelerator.memory_allocated() == module.memory_allocated(1) == held.nbytes
        assert torch.accelerator.current_stream() == module.current_stream()
        torch.accelerator.set_device_index(0)
        with torch.accelerator.device_index(1):
            assert module.current_device() == 1
            with torch.accelerator.device_index(None):
                assert module.current_device() == 1
        assert module.current_device() == 0
        refused(torch.accelerator.device_index(9).__enter__, RuntimeError, "invalid device ordinal")
        torch.accelerator.empty_host_cache()
        del held
        sys.modules.setdefault("torch_npu", sys)
    del sys.modules["torch_npu"]


def the_build_is_taken_for_one_with_cuda():
    assert torch.backends.cuda.is_built()
    torch._C._cuda_clearCublasWorkspaces()


def test_a_script_that_asks_finds_a_build_with_cuda() -> None:
    check_on_devices(the_build_is_taken_for_one_with_cuda)


def test_functions_that_are_not_emulated_are_refused_by_name() -> None:
    check_on_devices(what_is_missing_is_refused)


def test_the_functions_of_any_accelerator_serve_the_one_of_the_script() -> None:
    check_on_devices(the_accelerator_is_the_scripts)

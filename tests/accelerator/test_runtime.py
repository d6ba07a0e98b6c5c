"""Functions of the device modules."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")
nn = torch.nn
DEVICES = 2


def facts():
    assert tuple(map(int, torch.version.cuda.split("."))) >= (11, 0)
    for kind in ("cuda", "npu"):
        module = getattr(torch, kind)
        found = module.get_device_properties(1)
        assert (found.major, found.minor) == module.get_device_capability(1)
        assert found.name == module.get_device_name(1)
        assert found.total_memory == module.mem_get_info()[1]
        assert found.multi_processor_count > 0
        refused(lambda m=module: m.get_device_properties(9), RuntimeError, "invalid device ordinal")
    assert torch.cuda.get_device_capability((0, 1, 2)) == (8, 0)  # torch takes the current device
    assert torch.cuda.is_bf16_supported()
    assert torch.device(1) == torch.device("cuda", 1)


def other_capability():
    import os

    assert torch.cuda.get_device_capability() == (8, 0)
    os.environ["EMU_CUDA_CAPABILITY"] = "9.0"
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.npu.get_device_capability() == (8, 0)
    found = torch.cuda.get_device_properties(0)
    assert (found.major, found.minor) == (9, 0)
    from emu.triton import _internal_testing
    from emu.triton.runtime import driver

    assert driver.active.get_current_target().arch == 90
    assert driver.active.get_device_capability() == (9, 0)
    assert _internal_testing.is_hopper()


def test_the_environment_names_the_compute_capability() -> None:
    check_on_devices(other_capability)


def as_h100():
    import os

    before = torch.npu.get_device_properties(0)
    os.environ["EMU_DEVICE_MODEL"] = "h100"
    assert torch.npu.get_device_properties(0) == before
    found = torch.cuda.get_device_properties(1)
    assert found.name == torch.cuda.get_device_name() == "NVIDIA H100 80GB HBM3"
    assert (found.major, found.minor) == torch.cuda.get_device_capability() == (9, 0)
    assert found.multi_processor_count == 132
    assert found.shared_memory_per_block_optin == 227 << 10
    assert found.L2_cache_size == 50 << 20
    held = torch.zeros(1 << 20, device="cuda")
    free, total = torch.cuda.mem_get_info()
    assert total == found.total_memory == 81559 << 20
    assert 0 < free <= total - held.nbytes
    from emu.triton import testing
    from emu.triton.compiler import max_shared_mem
    from emu.triton.runtime import driver

    figures = driver.active.utils.get_device_properties(0)
    assert figures["multiprocessor_count"] == 132
    assert figures["max_shared_mem"] == max_shared_mem(0) == 227 << 10
    assert driver.active.get_current_target().arch == 90
    assert testing.nvsmi(["clocks.max.sm", "clocks.max.mem"]) == [1980, 2619]


def test_devices_answer_as_the_model_that_the_environment_names() -> None:
    check_on_devices(as_h100)


def device_modules():
    for kind in ("cuda", "npu"):
        module = getattr(torch, kind)
        assert module.is_available()
        assert module.device_count() == DEVICES
        module.synchronize()
        module.empty_cache()
        begin, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        begin.record()
        stream = module.Stream()
        with module.stream(stream):
            assert module.current_stream() is stream
        assert module.current_stream() == module.default_stream() != stream
        torch.ones(2, device=kind).record_stream(stream)
        assert isinstance(stream, torch.Stream)
        assert isinstance(torch.Stream(device=kind), module.Stream)
        assert isinstance(torch.Event(device=kind), torch.Event)
        module.current_stream().wait_stream(stream)
        end.record()
        with stream:
            assert torch._C._cuda_getCurrentRawStream(0) == (kind == "cuda") * stream.cuda_stream
        assert begin.elapsed_time(end) >= 0.0
        refused(lambda m=module: m.Event().elapsed_time(m.Event()), ValueError, "enable_timing")
        before = module.memory_allocated()
        held = torch.zeros(1000, device=kind)
        assert module.memory_allocated() - before == held.nbytes
        refused(module.memory_snapshot, NotImplementedError, "is not emulated: the memory is")
        graph = module.NPUGraph if kind == "npu" else module.CUDAGraph
        assert isinstance(None, graph | None)  # evaluated annotations name the class
        if kind == "npu":
            refused(graph, NotImplementedError, "on cuda devices only")
        refused(lambda m=module: m.set_device(9), RuntimeError, "invalid device ordinal")
        state = module.get_rng_state()
        first = torch.randn(3, device=kind)
        module.set_rng_state(state)
        assert torch.equal(first, torch.randn(3, device=kind))
        module.manual_seed_all(5)
        assert module.initial_seed() == 5


def test_properties_and_facts_agree() -> None:
    check_on_devices(facts)


def test_both_modules_have_streams_events_and_random_numbers() -> None:
    check_on_devices(device_modules)

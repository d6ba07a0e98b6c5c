"""What programs ask the driver."""

import os
import subprocess
import sys

import pytest

from emu import triton

active = triton.runtime.driver.active


def test_without_emulated_devices_the_device_is_the_cpu():
    assert active.is_active()
    assert active.get_current_target().backend == "cpu"
    assert active.get_current_device() == 0
    assert active.get_current_stream() == 0
    assert active.utils.get_device_properties(None)["multiprocessor_count"] == os.cpu_count()


def test_the_figures_let_a_program_choose_a_grid():
    figures = active.utils.get_device_properties(0)
    for name in ("max_num_regs", "max_shared_mem", "warpSize", "multiprocessor_count"):
        assert figures[name] > 0


def test_torch_is_not_loaded_to_answer():
    text = (
        "import sys, emu.triton as triton\n"
        "a = triton.runtime.driver.active\n"
        "a.get_current_target(), a.get_device_interface().synchronize(), a.get_benchmarker()\n"
        "a.clear_cache(a.get_empty_cache_for_benchmark())\n"
        "assert not {'torch', 'numba', 'rich', 'pandas', 'matplotlib'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


def test_torch_gets_its_cpu():
    torch = pytest.importorskip("torch")
    assert active.get_active_torch_device() == torch.device("cpu")
    cache = active.get_empty_cache_for_benchmark()
    cache.fill_(1)
    active.clear_cache(cache)
    assert not cache.any()


def test_events_measure():
    events = [active.get_device_interface().Event(enable_timing=True) for _ in range(2)]
    with pytest.raises(RuntimeError, match="recorded"):
        events[0].elapsed_time(events[1])
    for event in events:
        event.record()
        event.synchronize()
    assert events[0].elapsed_time(events[1]) >= 0


def test_the_benchmarker_is_do_bench():
    assert active.get_benchmarker() is triton.testing.do_bench


@pytest.mark.parametrize(
    ("python", "cpp"),
    [
        ("*fp32", "void*"),
        ("i32", "int32_t"),
        ("u64", "uint64_t"),
        ("fp64", "double"),
        ("i1", "int8_t"),
    ],
)
def test_types_have_names_in_cpp(python, cpp):
    assert active.map_python_to_cpp_type(python) == cpp

"""Measured limits of the machine."""

import pytest

from emu.triton import testing


def test_limits_of_the_machine_are_positive_and_kept():
    assert testing.get_dram_gbps() == testing.get_dram_gbps(0) > 0
    assert testing.get_max_simd_tflops("fp32") == testing.get_max_tensorcore_tflops("fp16") > 0


def test_clocks_are_those_of_the_emulated_device():
    assert testing.nvsmi(["clocks.max.sm", "clocks.current.memory"]) == [1410, 1215]
    with pytest.raises(
        ValueError, match=r"attrs must be of 'clocks\.max\.sm'.*, but got 'power\.draw'"
    ):
        testing.nvsmi(["power.draw"])

"""Measured limits of the machine."""

from emu.triton import testing


def test_limits_of_the_machine_are_positive_and_kept():
    assert testing.get_dram_gbps() == testing.get_dram_gbps(0) > 0
    assert testing.get_max_simd_tflops("fp32") == testing.get_max_tensorcore_tflops("fp16") > 0

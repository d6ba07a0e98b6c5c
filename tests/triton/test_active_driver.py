"""The holder of the driver."""

from emu import triton
from emu.triton.runtime.driver import Driver

active = triton.runtime.driver.active


def test_a_driver_can_be_replaced():
    class Mine(Driver):
        def get_current_device(self):
            return 7

    triton.runtime.driver.set_active(Mine())
    try:
        assert triton.runtime.driver.active.get_current_device() == 7
    finally:
        triton.runtime.driver.reset_active()
    assert triton.runtime.driver.active is active

"""Torch's own class of tests on emulated devices."""

from __future__ import annotations

import io
import unittest

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch.testing needs it")


def own_set_up():
    from torch.testing._internal.common_utils import TestCase

    class Own(TestCase):
        def setUp(self):  # as some of torch's tests have it, without torch's own
            self.x = torch.ones(2, device="cuda")

        def test_first(self):
            assert self.x.is_cuda

        def test_second(self):
            assert torch.zeros(1).cuda().is_cuda

    told = io.StringIO()
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(Own)
    assert unittest.TextTestRunner(told).run(tests).wasSuccessful(), told.getvalue()


def test_a_set_up_without_torchs_keeps_the_devices() -> None:
    check_on_devices(own_set_up)

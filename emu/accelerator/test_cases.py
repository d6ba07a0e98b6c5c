"""``TestCase`` of ``torch.testing``, which counts torch's function modes before and behind each test.

Its ``tearDown`` pops what a test has left. Where a class's own ``setUp`` does not call torch's, nothing was counted, and
the mode of emulated devices would be popped: the first test would fail, and all others would run without devices.
"""

from __future__ import annotations

from typing import Any

from emu.accelerator.import_hooks import after_import
from emu.accelerator.patches import replace

_COUNT = "_prev_torch_function_mode_stack_len"


def install() -> None:
    """Have torch's class know of the mode where nothing was counted."""
    after_import("torch.testing._internal.common_utils", _expect_mode)


def _expect_mode(module: Any) -> None:
    count = getattr(module.TestCase, _COUNT, None)
    if count is not None:  # torch 2.13 on
        replace(module.TestCase, _COUNT, count + 1, "it does not know of the mode")

"""torch.compile where parts of torch that ask for Triton were loaded before emu's had the name."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

PROGRAM = """
    import sys
    import torch
    import torch._inductor.utils

    layer = torch.nn.Linear(3, 3)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    asks = ("torch._dynamo.utils", "torch._inductor.runtime.hints")
    assert all(name in sys.modules for name in asks)
    import emu.inductor

    emu.inductor.install()
    from torch._inductor.runtime import hints

    assert sys.modules["triton"].language.dtype in sys.modules[asks[0]].common_constant_types
    x = torch.randn(4, 8)
    found = torch.compile(lambda x: torch.softmax(x * 2, -1))(x)
    torch.testing.assert_close(found, torch.softmax(x * 2, -1))
    assert hints.AttrsDescriptorWrapper(divisible_by_16=(0,)) == {(0,): [["tt.divisibility", 16]]}
    print("done")
"""


def test_what_torch_had_loaded_before_finds_triton(
    run_alone: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    found = run_alone(PROGRAM)
    assert found.stdout == "done\n", found.stderr

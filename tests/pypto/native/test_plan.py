"""Plans of batches are kept by structure and by the size from which on ops are compiled."""

import numpy as np
import pytest

from emu import pypto
from emu.pypto import operation
from emu.pypto.native import plan


@pytest.mark.parametrize("order", [(1, 4096), (4096, 1)], ids=str)
def test_a_plan_made_for_one_least_size_is_none_for_another(
    order: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[int] = []
    write = plan.write

    def noted(*call):
        compiled.append(least)
        return write(*call)

    monkeypatch.setattr(plan, "write", noted)
    monkeypatch.setattr(plan, "_plans", {})
    large = np.linspace(-2, 2, 5000, dtype=np.float32)
    small = np.linspace(-2, 2, 3, dtype=np.float32)
    with pypto.set_options(backend="native"):
        for least in order:
            monkeypatch.setattr(operation, "LEAST_ELEMENTS", least)
            with_large = pypto.exp(pypto.from_numpy(large))
            with_small = pypto.exp(pypto.from_numpy(small))
            np.testing.assert_allclose(with_large.numpy(), np.exp(large), rtol=1e-6)
            np.testing.assert_allclose(with_small.numpy(), np.exp(small), rtol=1e-6)
    assert sorted(compiled) == [1, 1, 4096]

"""Memory functions of the device modules."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")
nn = torch.nn


def memory_is_counted():
    for kind in ("cuda", "npu"):
        module = getattr(torch, kind)
        before = module.memory_allocated()
        module.reset_peak_memory_stats()
        kept = torch.zeros(1000, device=kind)
        views = [kept.view(10, 100), kept[5:], kept.detach(), nn.Parameter(kept)]
        assert module.memory_allocated() - before == 4000
        gone = kept + views[3]
        assert gone.requires_grad
        del gone
        assert module.memory_allocated() - before == 4000
        assert module.max_memory_allocated() - before == 8000
        stats = module.memory_stats()
        assert stats["allocated_bytes.all.current"] - before == 4000
        assert stats["allocated_bytes.all.peak"] == module.max_memory_reserved()
        assert stats["num_ooms"] == 0
        assert module.memory_stats_as_nested_dict()["allocation"]["all"]["current"] > 0
        assert str(module.max_memory_allocated()) in module.memory_summary()
        module.reset_peak_memory_stats()
        assert module.max_memory_allocated() - before == 4000
        assert module.memory_allocated(1) == 0
        moved = kept.to(f"{kind}:1")
        assert module.memory_allocated(1) == moved.nbytes
        del kept, views, moved
        assert module.memory_allocated() == before
        assert module.memory_allocated(1) == 0
        grown = torch.zeros(10, device=kind).resize_(1000)
        filled = torch.empty(0, device=kind)
        torch.add(grown, grown, out=filled)
        assert module.memory_allocated() - before == 8000
        grown.untyped_storage().resize_(0)
        assert module.memory_allocated() - before == 4000
        with pytest.raises(ValueError, match=r"fraction must be in \[0, 1\], but got 2.0"):
            module.set_per_process_memory_fraction(2.0)


def test_the_bytes_of_tensors_are_counted() -> None:
    check_on_devices(memory_is_counted)

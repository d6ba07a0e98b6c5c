"""What is changed in torch is listed with its reason, and can be undone."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import emu
from emu.accelerator.patches import record, replace, replace_item, table, undo_all

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    undo_all()


class Owner:
    kept = staticmethod(len)


class Heir(Owner):
    pass


def test_attributes_get_their_old_value_back_whatever_they_were() -> None:
    replace(Owner, "kept", staticmethod(max), "first")
    replace(Owner, "kept", staticmethod(min), "second")
    replace(Heir, "kept", 1, "inherited until now")
    replace(Heir, "new", 2, "not there until now")
    assert (Owner.kept(3, 4), Heir.kept, Heir.new) == (3, 1, 2)
    assert [patch.reason for patch in table()][:2] == ["first", "second"]
    assert table()[0].target.endswith("test_patches.Owner.kept")
    undo_all()
    assert isinstance(vars(Owner)["kept"], staticmethod)
    assert Owner.kept("abc") == 3
    assert "kept" not in vars(Heir)
    assert not hasattr(Heir, "new")
    assert table() == ()


def test_items_and_other_changes_are_undone_the_last_first() -> None:
    items, order = {"a": 1}, []
    replace_item(items, "a", 2, "items", "known")
    replace_item(items, "b", 3, "items", "new")
    record("elsewhere", "reason", lambda: order.append(dict(items)))
    assert items == {"a": 2, "b": 3}
    undo_all()
    assert items == {"a": 1}
    assert order == [{"a": 2, "b": 3}]


def _attributes() -> dict[str, Any]:
    """Return what torch has, by owner and name, for the owners in which something is replaced."""
    owners = (
        torch, torch.Tensor, torch._C, torch.cuda, torch.cuda.memory, torch.cuda.random,
        torch.cuda.streams, torch.cuda.graphs, torch.cuda.nvtx, torch.version, torch.accelerator,
        torch.autograd, torch.autograd.graph, torch.autograd.graph.saved_tensors_hooks,
        torch.autograd.profiler.profile, torch.amp.autocast_mode.autocast, torch.backends.cudnn,
        torch.UntypedStorage, torch.TypedStorage, torch.storage._StorageBase, torch.nn.Module,
        torch.library.Library, torch.utils.dlpack, torch.distributed, threading.Thread,
        torch.distributed.distributed_c10d, torch.nn.utils.rnn.PackedSequence,
    )  # fmt: skip
    found = {}
    for owner in owners:
        for name, value in vars(owner).items():
            found[f"{owner.__name__}.{name}"] = value
    return found


def run_uninstall() -> None:
    import torch.distributed
    import torch.utils.dlpack

    import emu.accelerator
    from emu.accelerator import patches

    os.environ["EMU_DEVICES"] = "2"
    before, finders = _attributes(), list(sys.meta_path)
    for _ in range(2):
        emu.accelerator.install()
        made = patches.table()
        assert {"torch.Generator", "threading.Thread.run"} <= {patch.target for patch in made}
        assert all(patch.reason for patch in made)
        x = torch.ones(2, device="cuda:1", requires_grad=True)
        (x * 2).sum().backward()
        assert x.grad.device == torch.device("cuda", 1)
        assert torch.ones(1).npu().is_npu
        with torch.overrides.TorchFunctionMode(), pytest.raises(RuntimeError, match="left first"):
            emu.accelerator.uninstall()
        assert emu.accelerator.installed()
        emu.accelerator.uninstall()
        emu.accelerator.uninstall()
        assert not emu.accelerator.installed()
        assert patches.table() == ()
        assert not x.is_cuda
        assert not torch.npu.is_available()
        assert not torch.accelerator.is_available()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            torch.manual_seed(0)
            torch.seed()
        after = _attributes()
        assert [name for name in before if before[name] is not after.get(name)] == []
        # What torch itself has made meanwhile, for later calls; of ours the module that says there are none.
        assert [n for n in after.keys() - before.keys() if "npu" in n] in ([], ["torch.npu"])
        assert sys.meta_path == finders
        with pytest.raises((AssertionError, RuntimeError)):
            torch.ones(1, device="cuda")


def run_thread_that_stays() -> None:
    import emu.accelerator

    emu.accelerator.install()
    x, is_undone, found = torch.ones(2), threading.Event(), []

    def work() -> None:
        is_undone.wait()
        found.append((x + x).tolist())  # its mode is still there

    thread = threading.Thread(target=work)
    thread.start()
    emu.accelerator.uninstall()
    is_undone.set()
    thread.join()
    assert found == [[2.0, 2.0]]


def test_a_thread_that_stays_goes_on_after_uninstalling() -> None:
    emu.launch(run_thread_that_stays, 1, preload=["torch"])


def test_uninstalling_gives_torch_its_own_back() -> None:
    emu.launch(run_uninstall, 1, preload=["torch"])

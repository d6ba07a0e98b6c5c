"""``torch.distributed.tensor`` on emulated devices: random numbers, and moves inside its dispatch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.distributed.tensor._dtensor_spec import DTensorSpec

from emu.accelerator.generator import DEFAULT
from emu.accelerator.import_hooks import after_import
from emu.accelerator.mode import inside, on_stack
from emu.accelerator.patches import replace
from emu.accelerator.state import state


def install() -> None:
    """Change the modules when they are imported."""
    after_import("torch.distributed.tensor._random", _change_random)
    after_import("torch.distributed.tensor._api", _change_api)
    after_import("torch.distributed.tensor._op_schema", _change_schema)


def _change_random(module: Any) -> None:
    """Give each shard its own random numbers: from its device's generator, at an offset of its own.

    Torch's tracker does the same, but moves states to the device and back, where no mode sees it.
    """

    class Tracker(module.OffsetBasedRNGTracker):  # type: ignore[misc] # its base is Any
        @contextlib.contextmanager
        def _distribute_region(
            self, spec: DTensorSpec, generator: torch.Generator | None = None
        ) -> Iterator[None]:
            if not self.distribute_region_enabled:
                yield
                return
            kind = self._device.type
            source = DEFAULT[kind].current if generator is None else generator
            offset = source.get_offset()
            start, size = self._compute_rng_offsets(spec)
            source.set_offset(offset + start)
            before, state.running = state.running, source.device
            try:
                yield
            finally:
                state.running = before
                source.set_offset(offset + size)

    Tracker.__name__ = Tracker.__qualname__ = "OffsetBasedRNGTracker"
    replace(
        module,
        "OffsetBasedRNGTracker",
        Tracker,
        "the mode is off where it moves states to the device",
    )


def _change_api(module: ModuleType) -> None:
    """Move tensors that become sharded to their mesh's device, also where the mode is off."""
    make = module.DTensor.from_local

    def from_local(*args: Any, **kwargs: Any) -> object:
        if on_stack():
            return make(*args, **kwargs)
        with inside():
            return make(*args, **kwargs)

    replace(
        module.DTensor, "from_local", staticmethod(from_local), "its dispatch runs outside the mode"
    )


def _change_schema(module: ModuleType) -> None:
    """Find the shapes and dtypes of results with fake tensors of the CPU.

    A build for the CPU has no kernels for fake tensors of another device.
    """

    def rebuild(spec: Any) -> torch.Tensor:
        meta = spec.tensor_meta
        return torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="cpu")

    replace(
        module,
        "_rebuild_tensor_from_dtensor_meta",
        rebuild,
        "a build for the CPU has no kernels for fake tensors of another device",
    )

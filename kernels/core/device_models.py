"""Models of GPUs that emulated devices can answer as: ``EMU_DEVICE_MODEL``.

Sizes of shared memory and numbers of threads are those that NVIDIA's CUDA C++ Programming Guide lists for the compute
capability ("Technical Specifications per Compute Capability"); multiprocessors, L2 caches and memory buses are those
of the data sheets and architecture whitepapers of each GPU; names, memory and the highest clocks are what
``nvidia-smi -q`` says of it. All of them have 65536 registers in a multiprocessor and warps of 32 threads.

Internal: names may change in any release.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DeviceModel:
    """What a model of a GPU says of itself.

    Attributes:
        name: Its name, as ``torch.cuda.get_device_name`` returns it.
        capability: Compute capability.
        multiprocessors: Number of multiprocessors.
        l2_mib: MiB of the L2 cache.
        memory_mib: MiB of device memory.
        memory_bus: Bits of the memory bus.
        core_mhz: Highest clock of the multiprocessors.
        memory_mhz: Highest clock of the memory.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    l2_mib: int
    memory_mib: int
    memory_bus: int
    core_mhz: int
    memory_mhz: int

    @property
    def threads(self) -> int:
        """Number of threads that a multiprocessor holds at once."""
        return _OF_CAPABILITY[self.capability][0]

    @property
    def shared_kib(self) -> int:
        """KiB of shared memory of a multiprocessor."""
        return _OF_CAPABILITY[self.capability][1]

    @property
    def block_shared_kib(self) -> int:
        """KiB of shared memory that a block may have where a kernel asks for more than 48."""
        return _OF_CAPABILITY[self.capability][2]


_OF_CAPABILITY = {
    (7, 0): (2048, 96, 96),
    (7, 5): (1024, 64, 64),
    (8, 0): (2048, 164, 163),
    (8, 9): (1536, 100, 99),
    (9, 0): (2048, 228, 227),
    (10, 0): (2048, 228, 227),
}
"""Threads and KiB of shared memory of a multiprocessor, KiB of shared memory of a block."""


def _of(name: str, capability: tuple[int, int], *figures: int) -> DeviceModel:
    names = ("multiprocessors", "l2_mib", "memory_mib", "memory_bus", "core_mhz", "memory_mhz")
    return DeviceModel(name=name, capability=capability, **dict(zip(names, figures, strict=True)))


MODELS = {
    # name, capability: multiprocessors, MiB of L2, MiB of memory, bits of its bus, MHz of both
    "v100": _of("Tesla V100-SXM2-32GB", (7, 0), 80, 6, 32768, 4096, 1530, 877),
    "t4": _of("Tesla T4", (7, 5), 40, 4, 15360, 256, 1590, 5001),
    "a100": _of("NVIDIA A100-SXM4-80GB", (8, 0), 108, 40, 81920, 5120, 1410, 1593),
    "l4": _of("NVIDIA L4", (8, 9), 58, 48, 23034, 192, 2040, 6251),
    "l40s": _of("NVIDIA L40S", (8, 9), 142, 96, 46068, 384, 2520, 9001),
    "h100": _of("NVIDIA H100 80GB HBM3", (9, 0), 132, 50, 81559, 5120, 1980, 2619),
    "h200": _of("NVIDIA H200", (9, 0), 132, 60, 143771, 6144, 1980, 3201),
    "b200": _of("NVIDIA B200", (10, 0), 148, 126, 183359, 8192, 1965, 3996),
}
"""The models, by the names that options take."""


def find(name: str) -> DeviceModel:
    """Return a model by its name; large and small letters are the same.

    Raises:
        ValueError: There is none of this name.
    """
    found = MODELS.get(name.lower())
    if found is None:
        raise ValueError(f"must be one of {', '.join(MODELS)}, but got {name!r}")
    return found

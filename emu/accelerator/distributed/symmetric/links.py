"""Which devices reach which, as torch asks: each of a host reaches each other one over one NVLink.

Internal: names may change in any release.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch._C._autograd import DeviceType  # type: ignore[attr-defined, unused-ignore] # not in its stub


class Connectivity(NamedTuple):
    """Links between the devices of this host.

    Attributes:
        device_type: Type of the devices.
        connection_type: Kind of the links.
        matrix: Number of links between each device and each other one.
    """

    device_type: DeviceType
    connection_type: str
    matrix: list[list[int]]


def detect(device_type: DeviceType, connection_type: str) -> Connectivity:
    """Return the links between the emulated devices.

    Args:
        device_type: Type of the devices, ``DeviceType.CUDA``.
        connection_type: Kind of the links, ``"nvlink"``.

    Raises:
        RuntimeError: There are no devices of this type, or no links of this kind.
    """
    if device_type != DeviceType.CUDA or connection_type != "nvlink":
        kind = str(device_type).rpartition(".")[2].lower()
        raise RuntimeError(
            f"DMA connectivity detector for {kind} over {connection_type} is not available"
        )
    devices = range(torch.cuda.device_count())
    matrix = [[int(one != other) for other in devices] for one in devices]
    return Connectivity(device_type, connection_type, matrix)

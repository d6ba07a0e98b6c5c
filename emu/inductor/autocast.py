"""Autocast for an emulated device inside of compiled functions.

Graphs that Inductor gets name the CPU, whose autocast computes some functions in 16 bits that a device computes in fp32. So
the conversions to fp32 are written into the graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.amp import autocast_mode
from torch.fx.node import map_aggregate

from emu.accelerator import autocast_fp32
from emu.accelerator.device_tags import emulated_device
from emu.accelerator.state import TYPES


def widen(module: torch.fx.GraphModule) -> None:
    """Convert the operands of functions that autocast computes in fp32 on the devices of a graph that Dynamo made.

    Args:
        module: A graph that names emulated devices, in the autocast state of its call.
    """
    regions = [any(torch.is_autocast_enabled(kind) for kind in TYPES)]
    for node in list(module.graph.nodes):
        if node.target is autocast_mode._enter_autocast:
            given = (
                *node.args,
                None,
                True,
            )  # the type of the device, the type of numbers, whether it is on
            # Within a region of the host's autocast, the device's goes on.
            regions.append(bool(given[2]) if given[0] in TYPES else regions[-1])
        elif node.target is autocast_mode._exit_autocast:
            regions.pop()
        elif regions[-1] and _is_in_fp32(node):
            _widen_operands(module.graph, node)


def _is_in_fp32(node: Any) -> bool:
    if node.op == "call_method":
        named = node.target in autocast_fp32.NAMES
    else:
        named = node.op == "call_function" and node.target in _FUNCTIONS
    return named and bool(node.args) and _is_on_device(node.args[0])


_FUNCTIONS = frozenset(autocast_fp32.functions())


def _is_on_device(value: object) -> bool:
    found = value.meta.get("example_value") if isinstance(value, torch.fx.Node) else None
    return isinstance(found, torch.Tensor) and emulated_device(found) is not None


def _widen_operands(graph: torch.fx.Graph, node: Any) -> None:
    def widened(value: Any) -> Any:
        if (
            not _is_on_device(value)
            or value.meta["example_value"].dtype not in autocast_fp32.HALVES
        ):
            return value
        with graph.inserting_before(node):
            return graph.call_method("float", (value,))

    node.args = map_aggregate(node.args, widened)
    node.kwargs = map_aggregate(node.kwargs, widened)

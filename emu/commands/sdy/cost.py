"""``emu sdy cost``: predicts what a sharded program costs each device."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from emu.commands.sdy.files import read_text
from emu.mlir.arguments import ArgumentError
from emu.mlir.diagnostics import MlirError, PassFailed
from emu.sdy.costs.analysis import cost
from emu.sdy.costs.data import Cost
from emu.sdy.costs.variants import comparison_lines, difference_lines, what_if
from emu.trace.errors import TraceError


@dataclass(frozen=True)
class Request:
    """What the command line asked for.

    Attributes:
        files: MLIR texts; "-" is standard input. Several are compared.
        mesh: Other sizes of axes. Default: those of the module.
        shardings: Other shardings of arguments, as ``%x=[{"x"}, {}]``.
        links: One link of all axes, or ``AXIS=LINK`` for each.
        flops: What a device computes per second. Default: that of ``device``, or unknown.
        device: A device of ``emu predict``, with a dtype of products behind a colon. Default: none.
        what_if: Variants to compare, as for ``emu.sdy.what_if``. Default: none.
        json: Whether to write JSON.
        limit: Number of collectives to show; None: all.
    """

    files: Sequence[str]
    mesh: str | None = None
    shardings: Sequence[str] = ()
    links: Sequence[str] = ()
    flops: str | None = None
    device: str | None = None
    what_if: Sequence[str] = ()
    json: bool = False
    limit: int | None = None


_DEFAULT_LINK = "450GB/s,2us"


def run_cost(request: Request, stdout: TextIO | None = None, stderr: TextIO | None = None) -> int:
    """Run the command.

    Returns:
        0 on success; 1 if a module or a pass failed; 2 for a file that cannot be read, or a wrong
        argument.
    """
    out: TextIO = stdout or sys.stdout
    err: TextIO = stderr or sys.stderr
    try:
        request, note = _with_device(request)
        out.write(_text(request, note))
        if note and request.json and (request.what_if or len(request.files) > 1):
            err.write(f"note: {note}\n")  # these have no place for it
    except (MlirError, PassFailed) as error:
        is_placed = ": error: " in str(error).partition("\n")[0]
        err.write(f"{error}\n" if is_placed else f"emu sdy cost: {error}\n")
        return 1
    except (ArgumentError, TraceError, OSError) as error:
        err.write(f"emu sdy cost: {error}\n")
        return 2
    return 0


def _with_device(request: Request) -> tuple[Request, str]:
    """Return a request with the link and the rate of its device, where it gives no others, and what to say of the device."""
    if request.device is None:
        return request, ""
    from emu.trace.prediction.devices.files import load_device
    from emu.trace.prediction.errors import PredictionError
    from emu.trace.prediction.kernels import rate_of
    from emu.trace.prediction.products import ITEMSIZE

    name, _, dtype = request.device.partition(":")
    device, dtype = load_device(name), dtype or "bf16"
    if dtype not in ITEMSIZE:
        raise PredictionError(
            f"device: the dtype must be one of {', '.join(ITEMSIZE)}, but got {dtype!r}"
        )
    rate = rate_of(device, "dot", dtype) * device["efficiency.dot"]
    bandwidth = device["link.bandwidth"] * device["link.efficiency"]
    link = f"{bandwidth / 1e9:.6g}GB/s,{device['link.latency'] * 1e6:.6g}us"
    note = f"link and FLOP/s are those of {device.name}, {dtype} ({device.status})"
    return replace(
        request, links=request.links or [link], flops=request.flops or f"{rate:.6g}"
    ), note


def _text(request: Request, note: str) -> str:
    link = _link(request.links)
    if request.what_if:
        if len(request.files) != 1 or request.mesh is not None or request.shardings:
            raise ArgumentError("--what-if takes one FILE, and neither --mesh nor --sharding")
        file = request.files[0]
        found = what_if(
            read_text(file), list(request.what_if), link=link, flops=request.flops, file=file
        )
        tail = f"note: {note}\n" if note else ""
        return f"{found.to_json()}\n" if request.json else f"{found}{tail}"
    shardings = _shardings(request.shardings)
    costs = [
        (
            file,
            cost(
                read_text(file),
                mesh=request.mesh,
                shardings=shardings,
                link=link,
                flops=request.flops,
                file=file,
            ),
        )
        for file in request.files
    ]
    if note:
        costs = [(file, replace(each, notes=(*each.notes, note))) for file, each in costs]
    if len(costs) == 1:
        _, found_cost = costs[0]
        return f"{found_cost.to_json()}\n" if request.json else found_cost.table(request.limit)
    tail = f"note: {note}\n" if note and not request.json else ""
    return _comparison(costs, request) + tail


def _comparison(costs: Sequence[tuple[str, Cost]], request: Request) -> str:
    if request.json:
        data = [{"name": name, "cost": each.to_data()} for name, each in costs]
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    lines = comparison_lines(costs)
    if len(costs) == 2:
        lines += ["", *difference_lines(costs[0], costs[1])]
    return "\n".join(lines) + "\n"


def _link(texts: Sequence[str]) -> str | Mapping[str, str]:
    """Return the link of all axes, or those by axis: ``y=50GB/s,5us``."""
    if not texts:
        return _DEFAULT_LINK
    pairs = [text.partition("=") for text in texts]
    if len(texts) == 1 and not pairs[0][1]:
        return texts[0]
    if not all(equals for _, equals, _ in pairs) or len({axis for axis, _, _ in pairs}) < len(
        texts
    ):
        raise ArgumentError(
            "--link must be given once for all axes, or once for each as AXIS=LINK, but got "
            + " and ".join(texts)
        )
    return {axis: text for axis, _, text in pairs}


def _shardings(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, sharding = text.partition("=")
        if not equals:
            raise ArgumentError(
                f"--sharding must be ARGUMENT=SHARDING, as in '%x=[{{\"x\"}}, {{}}]', but got {text!r}"
            )
        found[name.strip()] = sharding
    return found

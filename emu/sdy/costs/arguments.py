"""Arguments of ``cost``: texts and numbers that become links, rates, meshes and shardings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from emu.comm.errors import ArgumentError as LinkError
from emu.comm.link_model import Link
from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError, check

MOST_DEVICES = 1 << 16
_AXIS = re.compile(r"\s*\"?([^\s=\",]+)\"?\s*=\s*(\S+)\s*")
_RATE = re.compile(r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?)\s*([kMGTPE]?)(?:FLOPS|FLOP/s|FLOPs/s)?\s*")
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}

LinkLike = str | Link | Mapping[str, str | Link]
"""A link of all axes, or one for each axis by its name."""


# Links


def link_of(name: str, value: object) -> Link:
    """Return a link.

    Args:
        name: What messages call the argument.
        value: A link, or a text as ``Link.parse`` reads it.

    Raises:
        ArgumentError: It is neither.
    """
    if isinstance(value, Link):
        return value
    text = check(name, value, str, "a text as in '450GB/s,2us', or an emu.Link")
    try:
        return Link.parse(text)
    except LinkError as error:
        raise ArgumentError(
            f"{name} must be BANDWIDTH[,LATENCY], as in '450GB/s,2us', but got {shown(text)}: {error}"
        ) from None


def links_of(value: object) -> Link | dict[str, Link]:
    """Return the link of all axes, or one by axis, of the argument ``link``."""
    if not isinstance(value, Mapping):
        return link_of("link", value)
    if not value:
        raise ArgumentError("link must have a link for each axis of the mesh, but got none")
    found = {}
    for axis, each in value.items():
        check("link", axis, str, "links by the names of axes")
        found[axis] = link_of(f"link[{shown(axis)}]", each)
    return found


def slowest(links: Link | Mapping[str, Link], axes: Iterable[str]) -> Link:
    """Return the link along axes: the least bandwidth and the longest latency; of no axes: of all."""
    if isinstance(links, Link):
        return links
    some = [links[axis] for axis in axes] or list(links.values())
    return Link(
        bandwidth=min(each.bandwidth for each in some), latency=max(each.latency for each in some)
    )


def check_links(
    links: Link | Mapping[str, Link], axes: Iterable[str], written: Iterable[str] = ()
) -> None:
    """Raise ArgumentError unless links by axis are those of the axes of the mesh.

    Args:
        links: The argument ``link``.
        axes: Axes that must have a link.
        written: Axes that may have one: those of the module's meshes before they became one.
    """
    if isinstance(links, Link):
        return
    known = list(axes)
    may = {*known, *written}
    missing = [axis for axis in known if axis not in links]
    unknown = [axis for axis in links if axis not in may]
    if missing or unknown:
        raise ArgumentError(
            f"link must have a link for each axis of the mesh ({', '.join(known) or 'none'}), but "
            + (f"has none for {missing[0]!r}" if missing else f"has one for {shown(unknown[0])}")
        )


# Rates


def rate_of(value: object) -> float | None:
    """Return the argument ``flops`` as FLOP/s.

    Args:
        value: A number, a text as in "989T" or "67 TFLOP/s", or None.

    Raises:
        ArgumentError: It is none of them, or not more than 0.
    """
    wanted = "FLOP/s, more than 0, as in 67e12 or '67T'"
    if value is None:
        return None
    if isinstance(value, str):
        match = _RATE.fullmatch(value)
        if match is None:
            raise ArgumentError(f"flops must be {wanted}, but got {shown(value)}")
        rate = float(match[1]) * _PREFIXES[match[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            rate = float(value)
        except OverflowError:
            raise ArgumentError(f"flops must fit a float, but got {shown(value)}") from None
    else:
        raise ArgumentError(f"flops must be {wanted}, but got {shown(value, with_type=True)}")
    if not (rate > 0 and math.isfinite(rate)):
        raise ArgumentError(f"flops must be {wanted}, but got {shown(value)}")
    return rate


# Meshes


def sizes_of(value: object, name: str = "mesh") -> dict[str, int]:
    """Return sizes of axes by their names.

    Args:
        value: A dict, or a text as in "x=4,y=8".
        name: What messages call the argument.

    Raises:
        ArgumentError: It is neither, an axis is named twice, or a size is no whole number of at least 1.
    """
    wanted = "sizes of axes, as in 'x=4,y=8' or {'x': 4, 'y': 8}"
    pairs: list[tuple[object, object]] = []
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, str):
        for part in value.split(","):
            match = _AXIS.fullmatch(part)
            if match is None:
                raise ArgumentError(f"{name} must be {wanted}, but got {shown(value)}")
            size: object = match[2]
            if match[2].lstrip("+-").isdecimal() and len(match[2]) < 30:
                size = int(match[2])
            pairs.append((match[1], size))
    else:
        raise ArgumentError(f"{name} must be {wanted}, but got {shown(value, with_type=True)}")
    found: dict[str, int] = {}
    for axis, size in pairs:
        text = check(name, axis, str, wanted)
        if text in found:
            raise ArgumentError(f"{name} must name each axis once, but names {text!r} twice")
        found[text] = _size(name, text, size)
    if not found:
        raise ArgumentError(f"{name} must be {wanted}, but got {shown(value)}")
    return found


def _size(name: str, axis: str, size: object) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MOST_DEVICES:
        raise ArgumentError(
            f"{name}: the size of axis {shown(axis)} must be a whole number from 1 to "
            f"{MOST_DEVICES}, but got {shown(size)}"
        )
    return size


def shardings_of(value: object) -> dict[str, str]:
    """Return shardings of arguments, as texts, by the arguments' names with "%"."""
    if value is None:
        return {}
    wanted = "shardings by the names of arguments, as in {'%x': '[{\"data\"}, {}]'}"
    if not isinstance(value, Mapping):
        raise ArgumentError(f"shardings must be {wanted}, but got {shown(value, with_type=True)}")
    found = {}
    for name, text in value.items():
        check("shardings", name, str, wanted)
        full = name if name.startswith("%") else f"%{name}"
        found[full] = check(f"shardings[{shown(name)}]", text, str, "a text as in '[{\"x\"}, {}]'")
    return found

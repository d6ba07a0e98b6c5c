"""Conversion between versions of the communication message; anything that would be lost is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from emu.comm.errors import ArgumentError
from emu.comm.tiling.mc2msg import FLAT, Version, as_version, make_mc2msg, version_of
from emu.comm.tiling.struct import TilingData, layout_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Fields of the flat versions that belong to the one task of the others.
_OF_TASK = {"stepSize": "stepSize", "commType": "opType", "reduceOp": "reduceType"}
# Fields in which a message describes its own structure.
_STRUCTURE = frozenset(("version", "count", "init.version", "init.count", "init.offset"))


class ConversionError(ArgumentError):
    """A message has contents that the other version cannot express."""


def convert(message: TilingData, version: Version | str) -> TilingData:
    """Return the message in another version.

    Fields are taken over by name. ``commType``, ``reduceOp`` and ``stepSize`` of the flat versions
    are ``opType``, ``reduceType`` and ``stepSize`` of the only task of V2 and API messages.

    Args:
        message: A message of any version; also one read from macros, whatever its name.
        version: The version to make.

    Returns:
        A new message.

    Raises:
        ConversionError: A field that the version lacks is not zero, or a value does not fit into the
            field there, or it has no room for that many tasks.
    """
    origin = version_of(message)
    version = as_version(version)
    n_tasks = _n_tasks(message)
    if version in FLAT and n_tasks > 1:
        raise ConversionError(
            f"message must have one task to become version {version.value}, but has {n_tasks}"
        )
    result = make_mc2msg(version, n_tasks=n_tasks)
    places = {key: (owner, name) for key, owner, name in _leaves(result)}
    for key, owner, name in _leaves(message):
        value = getattr(owner, name)
        if not _is_set(value):
            continue
        if key not in places:
            raise ConversionError(
                f"field {key} must be zero to become version {version.value}, which lacks it, "
                f"but is {value!r}"
            )
        target, there = places[key]
        try:
            setattr(target, there, value)
        except ArgumentError as error:
            raise ConversionError(
                f"message of version {origin.value} must fit into version {version.value}: {error}"
            ) from None
    return result


def write_mc2msg(
    message: TilingData,
    buffer: Buffer,
    version: Version | str | None = None,
    capacity: int | None = None,
) -> int:
    """Write a message to the front of a buffer.

    Args:
        message: A message of any version.
        buffer: Writable contiguous memory.
        version: The version to write. Default: the message's own.
        capacity: Bytes that may be written. Default: the length of the buffer.

    Returns:
        The number of bytes written.

    Raises:
        ConversionError: See ``convert``.
        ArgumentError: See ``TilingData.save_to_buffer``; the buffer was not touched.
    """
    version_of(message)
    result = message if version is None else convert(message, version)
    return TilingData.save_to_buffer(result, buffer, capacity)


def _n_tasks(message: TilingData) -> int:
    return (
        sum(name.startswith("task") and name[4:].isdecimal() for name in layout_of(message).by_name)
        or 1
    )


def _is_set(value: object) -> bool:
    return any(value) if isinstance(value, Sequence) else bool(value)


def _leaves(message: TilingData) -> Iterator[tuple[str, TilingData, str]]:
    """Yield (name that is the same in every version, struct, field) of every field but the structure's."""
    flat = version_of(message) in FLAT
    for item in layout_of(message).fields:
        value = getattr(message, item.name)
        if not isinstance(value, TilingData):
            if item.name not in _STRUCTURE or flat:
                task = f"task0.{_OF_TASK[item.name]}" if item.name in _OF_TASK else item.name
                yield task, message, item.name
            continue
        for inner in layout_of(value).fields:
            path = f"{item.name}.{inner.name}"
            if path in _STRUCTURE:
                continue
            # The head of V2 and API messages holds what stands beside the task in flat ones.
            own = path if item.name.startswith("task") else inner.name
            own = path if inner.name in {"version", "reserved"} else own
            yield own, value, inner.name

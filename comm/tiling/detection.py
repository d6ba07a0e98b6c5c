"""Detection of the version of a communication message, and of the traps between the versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.comm.errors import ArgumentError
from emu.comm.tiling.enums import label
from emu.comm.tiling.mc2msg import (
    FIRST_WORD,
    FLAT,
    MAX_TASKS,
    MEANINGS,
    Version,
    as_version,
    struct_of,
)
from emu.comm.tiling.struct import TilingData, as_bytes, layout_of

if TYPE_CHECKING:
    from typing_extensions import Buffer


class MessageError(ArgumentError):
    """The bytes are not a message that can be read."""


class PackedMessageError(MessageError):
    """The message was packed to 1: 92 bytes, ``sendCnt`` at 20 instead of 24."""


class VersionMismatchError(MessageError):
    """The message is of another version than the one expected."""


class AmbiguousVersionError(MessageError):
    """Size and contents fit more than one version; the caller must say which is expected."""


@dataclass(frozen=True, kw_only=True)
class Detected:
    """The version that some bytes were found to be, with the evidence."""

    version: Version
    struct: type[TilingData]
    """The struct that reads them."""
    evidence: tuple[str, ...]
    """Reasons: the size, the first word, fields that are set, odd values."""

    @property
    def size(self) -> int:
        """Bytes of the message."""
        return layout_of(self.struct).size


@dataclass(frozen=True)
class _Reading:
    """The bytes read as one of the flat versions."""

    version: Version
    signs: tuple[str, ...]
    """Fields that a kernel's message sets."""
    problems: tuple[str, ...]
    """Padding that isn't zero, values that no enumeration has."""
    has_old_size: bool
    """It is of 112 bytes, and so are they: a sign in place of the argument indices that it lacks."""

    @property
    def is_evident(self) -> bool:
        """Whether algorithm and argument indices are set, and nothing is odd."""
        return bool(self.signs) and len(self.signs) + self.has_old_size > 1 and not self.problems

    @property
    def is_doubtful(self) -> bool:
        return not self.signs or bool(self.problems)


def detect(buffer: Buffer, *, offset: int = 0, expected: Version | str | None = None) -> Detected:
    """Find out which version of the message some bytes are.

    V2 and API messages begin with their number. The others are distinguished by the size of the buffer
    or, where other tiling data follows and the size is none of theirs, by the contents: a
    version is evident where algorithm and argument indices are set and nothing else is odd. Where
    size and contents contradict each other nothing is guessed.

    Args:
        buffer: Bytes, or other contiguous memory, that begin with a message.
        offset: Where the message starts in them.
        expected: The version that it must be; the buffer may then be longer. Default: any.

    Returns:
        Version, struct and evidence.

    Raises:
        PackedMessageError: V1, packed to 1 (the trap of 92 bytes), unless that is expected.
        VersionMismatchError: Not the version that is expected, by size, first word or contents.
        AmbiguousVersionError: More than one version fits, or none does for certain.
        MessageError: No version has this few bytes, or this many tasks.
    """
    data = bytes(as_bytes(buffer, offset))
    if expected is not None:
        return _expected(data, as_version(expected))
    by_number = _by_number(data)
    if by_number is not None:
        return by_number
    smallest = layout_of(FLAT[Version.PACKED_92]).size
    if len(data) < smallest:
        raise MessageError(f"message must have {_sizes()} bytes, but got {len(data)}")
    return _by_size(data)


def read_mc2msg(
    buffer: Buffer, *, offset: int = 0, expected: Version | str | None = None
) -> TilingData:
    """Read a message of any version; see ``detect``.

    Args:
        buffer: Bytes that begin with a message.
        offset: Where it starts in them.
        expected: The version that it must be. ``Version.PACKED_92`` reads the packed one too. Default: any.

    Returns:
        The message, with bytes of its own.

    Raises:
        MessageError: See ``detect``.
    """
    found = detect(buffer, offset=offset, expected=expected)
    return found.struct.from_bytes(buffer, offset=offset)


def _size(version: Version) -> int:
    return layout_of(FLAT[version]).size


def _sizes() -> str:
    return "96 (v1), 128 (CANN 8.1 and later), 112 (old), or begin with 2 (v2) or 100 (api)"


def _flat(data: bytes, version: Version, *evidence: str) -> Detected:
    reading = _read(data, version)
    return Detected(
        version=version,
        struct=FLAT[version],
        evidence=(*evidence, *reading.signs, *(f"odd: {text}" for text in reading.problems)),
    )


def _read(data: bytes, version: Version) -> _Reading:
    """Read bytes as a flat version; there must be enough of them."""
    message = FLAT[version].from_bytes(data)
    has_old_size = version is Version.OLD_112 and len(data) == _size(version)
    return _Reading(version, tuple(_signs(message)), tuple(_problems(message, data)), has_old_size)


def _signs(message: TilingData) -> Iterator[str]:
    layout = layout_of(message)
    algorithm = message.commAlg
    if algorithm:
        name = MEANINGS["commAlg"]
        known = algorithm in name.__members__.values()
        meaning = f" ({label(name(algorithm))})" if known else ""
        yield f"commAlg is {algorithm}{meaning} at {layout.by_name['commAlg'].offset}"
    for name_ in ("recvArgIndex", "commOutArgIndex"):
        item = layout.by_name.get(name_)
        if item is not None and getattr(message, name_):
            yield f"{name_} is {getattr(message, name_)} at {item.offset}"


def _problems(message: TilingData, data: bytes) -> Iterator[str]:
    layout = layout_of(message)
    for start, size, name in layout.dirty_padding(data):
        yield f"padding {name} at {start} is {data[start : start + size].hex(' ')}"
    for name, meaning in MEANINGS.items():
        item = layout.by_name.get(name)
        if item is not None:
            value = getattr(message, name)
            if value and value not in meaning.__members__.values():
                yield f"{name} at {item.offset} is {value}"
    for name in ("hasCommOut", "reserve", "reserve2"):
        item = layout.by_name.get(name)
        if item is not None and getattr(message, name) > (name == "hasCommOut"):
            yield f"{name} at {item.offset} is {getattr(message, name)}"


def _others(data: bytes, version: Version) -> Iterator[_Reading]:
    """Yield the readings of the other flat versions for which there are enough bytes."""
    for other in FLAT:
        if other is not version and len(data) >= _size(other):
            yield _read(data, other)


def _by_size(data: bytes) -> Detected:
    if len(data) == _size(Version.PACKED_92):
        raise _packed("92 bytes")
    exact = next((version for version in FLAT if _size(version) == len(data)), None)
    if exact is None:
        return _by_contents(data)
    if _read(data, exact).is_doubtful:
        for reading in _others(data, exact):
            if reading.is_evident and reading.version is Version.PACKED_92:
                raise _packed(*reading.signs)
            if reading.is_evident:
                raise AmbiguousVersionError(
                    f"message must be of one version, but has the {len(data)} bytes of version "
                    f"{exact.value} and reads as version {reading.version.value} "
                    f"({'; '.join(reading.signs)}): say which is expected"
                )
    return _flat(data, exact, f"{len(data)} bytes")


def _by_contents(data: bytes) -> Detected:
    readings = [_read(data, version) for version in FLAT if len(data) >= _size(version)]
    evident = [reading for reading in readings if reading.is_evident]
    if len(evident) == 1 and evident[0].version is Version.PACKED_92:
        raise _packed(*evident[0].signs)
    if len(evident) == 1:
        rest = len(data) - _size(evident[0].version)
        return _flat(data, evident[0].version, f"followed by {rest} bytes")
    fitting = ", ".join(reading.version.value for reading in evident or readings)
    raise AmbiguousVersionError(
        f"message must have {_sizes()} bytes, or be evident from its contents, but got {len(data)} "
        f"bytes that could begin with {fitting}: say which version is expected"
    )


def _by_number(data: bytes) -> Detected | None:
    """Recognise V2 and API messages; None where the bytes are neither."""
    first = int.from_bytes(data[:4], "little")
    count = int.from_bytes(data[4:8], "little")
    if len(data) == _size(Version.OLD_112):  # no size of theirs, and it begins with an offset
        return None
    if first == FIRST_WORD[Version.V2]:
        return _numbered(data, Version.V2, count)
    if first == FIRST_WORD[Version.API]:
        return _numbered(data, _api_version(data, count), count)
    return None


def _api_version(data: bytes, count: int) -> Version:
    """Return the API version by its tasks, of 280 or of 512 bytes."""
    if not 1 <= count <= MAX_TASKS[Version.API] or len(data) < 64:
        return Version.API  # refused by the caller
    offsets = [int.from_bytes(data[8 + 4 * i : 12 + 4 * i], "little") for i in range(count)]
    for version in (Version.API, Version.API_512):
        layout = layout_of(struct_of(version, count))
        places = [layout.by_name[f"task{i}"].offset for i in range(count)]
        if (count > 1 and offsets == places) or len(data) == layout.size:
            return version
    short, long = (layout_of(struct_of(v, count)).size for v in (Version.API, Version.API_512))
    if len(data) < long:
        return Version.API
    raise AmbiguousVersionError(
        f"API message of {count} tasks must have {short} or {long} bytes, but got {len(data)}: "
        f"say whether api or api512 is expected"
    )


def _numbered(data: bytes, version: Version, count: int) -> Detected:
    name = f"message of version {version.value} (first word {FIRST_WORD[version]})"
    if not 1 <= count <= MAX_TASKS[version]:
        raise MessageError(
            f"tasks of a {name} must be in [1, {MAX_TASKS[version]}], but got {count}"
        )
    struct = struct_of(version, count)
    size = layout_of(struct).size
    if len(data) < size:
        raise MessageError(f"{name} with {count} tasks must have {size} bytes, but got {len(data)}")
    evidence = [f"first word is {FIRST_WORD[version]}", f"{count} tasks"]
    if len(data) > size:
        evidence.append(f"followed by {len(data) - size} bytes")
    return Detected(version=version, struct=struct, evidence=tuple(evidence))


def _expected(data: bytes, version: Version) -> Detected:
    if version not in FLAT:
        first = int.from_bytes(data[:4], "little")
        if len(data) < 8 or first != FIRST_WORD[version]:
            raise VersionMismatchError(
                f"message must be of version {version.value} and begin with {FIRST_WORD[version]}, "
                f"but got {len(data)} bytes that begin with {first}"
            )
        return _numbered(data, version, int.from_bytes(data[4:8], "little"))
    size = _size(version)
    if len(data) < size:
        is_92 = len(data) == _size(Version.PACKED_92)
        if is_92 and version is not Version.OLD_112:
            raise _packed("92 bytes")
        found = next((other for other in FLAT if _size(other) == len(data)), None)
        raise VersionMismatchError(
            f"message must have the {size} bytes of version {version.value}, but got {len(data)}"
            + (f", the size of version {found.value}: use convert" if found else "")
        )
    if _read(data, version).is_doubtful:
        for reading in _others(data, version):
            if reading.is_evident and reading.version is Version.PACKED_92:
                raise _packed(*reading.signs)
            if reading.is_evident:
                raise VersionMismatchError(
                    f"message must be of version {version.value}, but reads as version "
                    f"{reading.version.value} ({'; '.join(reading.signs)}): use convert"
                )
    rest = len(data) - size
    return _flat(data, version, "as expected", *([f"followed by {rest} bytes"] if rest else []))


def _packed(*evidence: str) -> PackedMessageError:
    return PackedMessageError(
        "message must have padding before sendCnt, which is at 24 of 96 bytes, but is packed to 1: "
        f"sendCnt at 20 of 92 bytes ({'; '.join(evidence)}); remove the packing from the struct, "
        "or read it with expected='packed'"
    )

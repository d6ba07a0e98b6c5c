"""The communication message Mc2Msg in every version that is in use.

| Version | Bytes | Struct |
|---|---|---|
| ``V1``, the documented one | 96 | ``Mc2Msg``, which is ``Mc2MsgV1`` too |
| ``READER_128``, as the server of CANN 8.1 and later reads it | 128 | ``Mc2Msg128`` |
| ``OLD_112``, without ``preparePosition`` | 112 | ``Mc2Msg112`` |
| ``PACKED_92``, V1 without any padding: a trap, not a version | 92 | ``Mc2Msg92`` |
| ``V2``, the first word is 2, one to three tasks | 24 + 280·n | ``struct_of(Version.V2, n)`` |
| ``API``, the first word is 100, one to eight tasks | 64 + 280·n | ``struct_of(Version.API, n)`` |
| ``API_512``, the same with longer tasks | 64 + 512·n | ``struct_of(Version.API_512, n)`` |

``Mc2Msg128`` has ``sendOff`` to ``totalCnt`` as nine u64. Of ``Mc2Msg112`` only this is known: 112
bytes, nine u64, neither ``preparePosition`` nor argument indices. Its layout here follows from that:
the fields in the order of ``Mc2Msg128`` without those four take 117 bytes with ``reserve`` and
``reserve2`` (120 with padding), and exactly 112, with no padding, without these two, which carry
nothing. So it ends with ``hasCommOut`` at 111.

The fields ``offset`` of an API message are taken as bytes from the start of the message to each task.
"""

from __future__ import annotations

# pyright takes the size of a field, `uint8[8]`, for the argument of a type.
# pyright: reportInvalidTypeArguments=false
import enum
import functools
from typing import Annotated

from emu.comm.errors import ArgumentError
from emu.comm.tiling import enums
from emu.comm.tiling.checks import check_integer
from emu.comm.tiling.layout import Layout
from emu.comm.tiling.scalars import char, uint8, uint16, uint32, uint64
from emu.comm.tiling.struct import TilingData, layout_of
from emu.kernels.core.messages import shown


def _size(value: object) -> int | None:
    return value if type(value) is int else None


class Version(enum.Enum):
    """A version of the message; ``Version("128")`` finds it by name or size."""

    V1 = "v1"
    READER_128 = "128"
    OLD_112 = "112"
    PACKED_92 = "packed"
    V2 = "v2"
    API = "api"
    API_512 = "api512"

    @classmethod
    def _missing_(cls, value: object) -> Version | None:
        # The names under which programs and documents ask for a version, beside its value.
        known = {"seed": cls.V1, "96": cls.V1, "92": cls.PACKED_92, "packed92": cls.PACKED_92}
        known |= {version.value: version for version in cls}
        found = known.get(value.lower()) if isinstance(value, str) else known.get(str(_size(value)))
        if found is None:
            names = ", ".join(version.value for version in cls)
            raise ArgumentError(f"version must be one of {names}, but got {shown(value)}")
        return found


class Mc2Msg(TilingData):
    """The message as documented; 96 bytes."""

    preparePosition: uint32
    sendOff: uint32
    recvOff: uint32
    tailSendOff: uint32
    tailRecvOff: uint32
    sendCnt: uint64
    recvCnt: uint32
    tailSendCnt: uint32
    tailRecvCnt: uint32
    totalCnt: uint32
    turnNum: uint32
    tailNum: uint32
    stride: uint32
    workspaceOff: uint32
    notifyOff: uint32
    notifyBeginCnt: uint16
    notifyEndCnt: uint16
    useBufferType: uint8
    funID: uint8
    dataType: uint8
    groupNum: uint8
    reuseMode: uint8
    commType: uint8
    reduceOp: uint8
    commOrder: uint8
    waitPolicy: uint8
    rspPolicy: uint8
    exitPolicy: uint8
    commAlg: uint8
    taskType: uint8
    debugMode: uint8
    stepSize: uint8
    sendArgIndex: uint8
    recvArgIndex: uint8
    commOutArgIndex: uint8
    hasCommOut: uint8
    reserve: uint8
    reserve2: uint32


Mc2MsgV1 = Mc2Msg
"""The same by the name of its version."""


class Mc2Msg92(Mc2Msg, pack=1):
    """V1 as a compiler lays it out when structs are packed to 1: ``sendCnt`` is at 20, not at 24.

    No server reads it. It is here so that such bytes can be recognised and inspected.
    """


WIDE = (
    "sendOff",
    "recvOff",
    "tailSendOff",
    "tailRecvOff",
    "sendCnt",
    "recvCnt",
    "tailSendCnt",
    "tailRecvCnt",
    "totalCnt",
)
"""The fields that are u64 in the versions of 128 and 112 bytes."""

_LACKING_112 = frozenset(
    ("preparePosition", "sendArgIndex", "recvArgIndex", "commOutArgIndex", "reserve", "reserve2")
)


def _wide(name: str, lacking: frozenset[str]) -> type[TilingData]:
    """Derive a version from V1: the same order, nine fields as u64, some left out."""
    return TilingData.define(
        name,
        [
            (item.name, "uint64_t" if item.name in WIDE else item.type)
            for item in layout_of(Mc2Msg).fields
            if item.name not in lacking
        ],
        module=__name__,
    )


Mc2Msg128 = _wide("Mc2Msg128", frozenset())
Mc2Msg112 = _wide("Mc2Msg112", _LACKING_112)


class ServerConfig(TilingData):
    """The part of a V2 message that holds for all its tasks; 16 bytes."""

    version: uint32
    debugMode: uint8
    sendArgIndex: uint8
    recvArgIndex: uint8
    commOutArgIndex: uint8
    reserved: Annotated[list[int], uint8[8]]


class V2Task(TilingData):
    """A task of a V2 message; 280 bytes."""

    skipLocalRankCopy: uint8
    skipBufferWindowCopy: uint8
    stepSize: uint8
    reserved: Annotated[bytes, char[13]]
    groupName: Annotated[bytes, char[128]]
    algConfig: Annotated[bytes, char[128]]
    opType: uint32
    reduceType: uint32


class ApiInit(TilingData):
    """The head of an API message; 64 bytes."""

    version: uint32
    count: uint32
    offset: Annotated[list[int], uint32[8]]
    debugMode: uint8
    preparePosition: uint8
    reserved: Annotated[list[int], uint8[22]]


class ApiTask(TilingData):
    """A task of an API message; 280 bytes."""

    skipLocalRankCopy: uint8
    skipBufferWindowCopy: uint8
    stepSize: uint8
    version: uint8
    reserved: Annotated[bytes, char[12]]
    groupName: Annotated[bytes, char[128]]
    algConfig: Annotated[bytes, char[128]]
    opType: uint32
    reduceType: uint32


class ApiTask512(ApiTask):
    """The longer form of ``ApiTask``; 512 bytes, the rest of them reserved."""

    reserved2: Annotated[list[int], uint8[232]]


FLAT: dict[Version, type[TilingData]] = {
    Version.V1: Mc2Msg,
    Version.READER_128: Mc2Msg128,
    Version.OLD_112: Mc2Msg112,
    Version.PACKED_92: Mc2Msg92,
}
"""The versions with one task, whose size is fixed."""

MAX_TASKS = {Version.V2: 3, Version.API: 8, Version.API_512: 8}
"""Largest number of tasks of a message in the other versions."""

FIRST_WORD = {Version.V2: 2, Version.API: 100, Version.API_512: 100}
"""First word of a message in these versions."""

MEANINGS: dict[str, type[enum.IntEnum]] = {
    "preparePosition": enums.PreparePosition,
    "useBufferType": enums.UseBufferType,
    "dataType": enums.HcclDataType,
    "commType": enums.HcclCommand,
    "opType": enums.HcclCommand,
    "reduceOp": enums.HcclReduceOp,
    "reduceType": enums.HcclReduceOp,
    "commOrder": enums.CommOrder,
    "waitPolicy": enums.WaitPolicy,
    "rspPolicy": enums.RspPolicy,
    "exitPolicy": enums.ExitPolicy,
    "commAlg": enums.CommAlg,
}
"""The fields of messages whose values are those of an enumeration."""

# By layout, not by class: a struct that a program declares or reads from macros is a message, too, if its
# bytes are.
_PARTS: frozenset[Layout] = frozenset(
    map(layout_of, (*FLAT.values(), ServerConfig, V2Task, ApiInit, ApiTask, ApiTask512))
)


def is_part_of_message(layout: Layout) -> bool:
    """Return whether a struct has the layout of a message, or of a struct in one."""
    return layout in _PARTS


def struct_of(version: Version | str, n_tasks: int = 1) -> type[TilingData]:
    """Return the struct of a version.

    Args:
        version: The version, its name or its size.
        n_tasks: Tasks in the message: 1 but for V2 (at most 3) and the API's (at most 8).

    Raises:
        ArgumentError: That version has no messages with this many tasks.
    """
    version, n_tasks = as_version(version), check_integer(n_tasks, "n_tasks")
    most = MAX_TASKS.get(version, 1)
    if not 1 <= n_tasks <= most:
        raise ArgumentError(
            f"tasks of a message of version {version.value} must be in [1, {most}], "
            f"but got {n_tasks}"
        )
    return FLAT[version] if version in FLAT else _of_tasks(version, n_tasks)


def as_version(value: object) -> Version:
    """Return a version, given itself, its name or its size."""
    if isinstance(value, Version | str | int):
        return Version(value)
    names = ", ".join(version.value for version in Version)
    raise ArgumentError(f"version must be one of {names}, but got {shown(value)}")


@functools.cache
def _of_tasks(version: Version, n_tasks: int) -> type[TilingData]:
    task: type[TilingData]
    head: list[tuple[str, str | type[TilingData]]]
    if version is Version.V2:
        head, task = (
            [("version", "uint32_t"), ("count", "uint32_t"), ("config", ServerConfig)],
            V2Task,
        )
    else:
        head, task = [("init", ApiInit)], ApiTask if version is Version.API else ApiTask512
    name = {Version.V2: "Mc2MsgV2", Version.API: "Mc2MsgApi", Version.API_512: "Mc2MsgApi512"}
    tasks = [(f"task{i}", task) for i in range(n_tasks)]
    return TilingData.define(f"{name[version]}_{n_tasks}", [*head, *tasks], module=__name__)


def make_mc2msg(
    version: Version | str = Version.V1, *, n_tasks: int = 1, **fields: object
) -> TilingData:
    """Make a message.

    Args:
        version: Its version. Default: the documented one of 96 bytes.
        n_tasks: Tasks in it, where the version can have several.
        fields: Values; all others are zero, but for version, count and offsets of V2 and API messages.

    Returns:
        The message; ``to_bytes()`` gives its bytes.

    Raises:
        ArgumentError: No such version or field, or a value is out of range.
    """
    version, n_tasks = as_version(version), check_integer(n_tasks, "n_tasks")
    message = struct_of(version, n_tasks)()
    if version is Version.V2:
        message.version, message.count = FIRST_WORD[version], n_tasks
    elif version in MAX_TASKS:
        message.init.version, message.init.count = FIRST_WORD[version], n_tasks
        layout = layout_of(message)
        # The server finds the tasks by these offsets, not by their order.
        for i in range(n_tasks):
            message.init.offset[i] = layout.by_name[f"task{i}"].offset
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def version_of(message: TilingData) -> Version:
    """Return the version of a message, whatever the name of its struct.

    Raises:
        ArgumentError: It has not the layout of any version.
    """
    if not isinstance(message, TilingData):
        raise ArgumentError(f"message must be an instance of a struct, but got {shown(message)}")
    layout = layout_of(message)
    for version, struct in FLAT.items():
        if layout == layout_of(struct):
            return version
    for version, most in MAX_TASKS.items():
        if any(layout == layout_of(struct_of(version, n)) for n in range(1, most + 1)):
            return version
    raise ArgumentError(
        f"message must have the layout of an Mc2Msg, but got {layout.name} of {layout.size} bytes"
    )

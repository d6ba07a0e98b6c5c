"""Tasks of a communication server: the messages that describe them, and the records made of these.

A *message* is left in shared memory by the compute side: bytes of a fixed layout. A *record* is the server's
reading of it, in a form that all members can compare; it lies in shared memory too, so that every server
sees the tasks of every other.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np

from emu.comm.arrays import Array
from emu.comm.errors import ArgumentError, ServerError, TaskMismatchError
from emu.comm.tiling.enums import HcclCommand, HcclDataType, HcclReduceOp

LAUNCH, PREPARE = 1, 2
"""Kinds of messages: a communication kernel begins; it prepares a task."""

EVERY_TURN, ONCE, NEVER = 1, 2, 3
"""Policies of a task: wait for the compute side before every turn or before the first one, or never (0); answer
each turn, the last one for all, or none."""

NUMPY_DTYPES: dict[int, np.dtype[np.generic]] = {kind: kind.numpy for kind in HcclDataType}

NAMES: dict[int, str] = {
    HcclCommand.ALLREDUCE: "AllReduce",
    HcclCommand.ALLGATHER: "AllGather",
    HcclCommand.REDUCE_SCATTER: "ReduceScatter",
    HcclCommand.ALLTOALL: "AlltoAll",
    HcclCommand.ALLTOALLV: "AlltoAllV",
}
"""The commands that a server executes."""

REDUCED_DTYPES = frozenset(
    (
        HcclDataType.FP32,
        HcclDataType.FP16,
        HcclDataType.BF16,
        HcclDataType.INT8,
        HcclDataType.INT16,
        HcclDataType.INT32,
    )
)
REDUCING = frozenset((HcclCommand.ALLREDUCE, HcclCommand.REDUCE_SCATTER))
"""The commands that combine elements; only they have an operation."""

REDUCE_OPS = frozenset((HcclReduceOp.SUM, HcclReduceOp.MAX, HcclReduceOp.MIN))

OPERATOR_BYTES = 128
"""Bytes of the text that names the operator which prepared a task."""

_COUNTS = ("send_counts", "send_displs", "recv_counts", "recv_displs")


def message_dtype(n_pes: int) -> np.dtype[np.generic]:
    """Layout of a message in a communicator of ``n_pes`` members; little-endian."""
    return np.dtype(
        [
            ("kind", "<u4"),
            ("session", "<u4"),
            ("index", "<u4"),
            ("command", "<u4"),
            ("dtype", "<u4"),
            ("op", "<u4"),
            ("repeat", "<u4"),
            ("send_in_heap", "<u4"),
            ("recv_in_heap", "<u4"),
            ("reserved", "<u4"),
            ("tag", "<u8"),
            ("operator", f"S{OPERATOR_BYTES}"),
            ("count", "<u8"),
            ("stride", "<u8"),
            ("send", "<i8"),  # offset in the heap, or an address of this process
            ("recv", "<i8"),
            *((name, "<u8", (n_pes,)) for name in _COUNTS),
        ]
    )


# What must be the same on every member stands in front.
_AGREED = ("session", "index", "command", "dtype", "op", "count", "stride", "repeat", "position", "tag")  # fmt: skip
AGREED_WORDS = len(_AGREED)
_COMMAND = _AGREED.index("command")


def record_dtype(n_pes: int) -> np.dtype[np.generic]:
    """Layout of a record: 64-bit words only."""
    own = (
        "slot",  # of the message, whose word counts what the compute side has released
        "first",  # turns of the same message that stand in records before this one
        "wait_policy",
        "answer_policy",
        "keeps_own",
        "send_in_heap",
        "send",
        "recv_in_heap",
        "recv",
    )
    return np.dtype(
        [
            *((name, "<i8") for name in (*_AGREED, *own)),
            ("operator", f"S{OPERATOR_BYTES}"),
            *((name, "<i8", (n_pes,)) for name in _COUNTS),
        ]
    )


@functools.lru_cache(maxsize=256)
def operator_tag(operator: str) -> tuple[bytes, int]:
    """Return how a message names the operator that prepares a task: a text, and a number to compare."""
    data = operator.encode()
    digest = hashlib.blake2b(data, digest_size=8).digest()
    return data[:OPERATOR_BYTES], int.from_bytes(digest, "little") if data else 0


def decode(message: Array, slot: int) -> Array:
    """Make the record of a ``PREPARE`` message.

    Raises:
        ServerError: A server cannot execute the bytes.
    """
    n_pes = message["send_counts"].shape[-1]
    record: Array = np.zeros((), record_dtype(n_pes))
    fields = (*_AGREED[:-2], "send_in_heap", "send", "recv_in_heap", "recv", "operator", *_COUNTS)
    for name in fields:
        record[name] = message[name]
    record["tag"] = message["tag"].view(np.int64)
    record["position"], record["slot"] = 1, slot
    record["wait_policy"] = record["answer_policy"] = EVERY_TURN
    record["keeps_own"] = 1
    check(record)
    return record


def check(record: Array) -> None:
    """Check that a record names a command, dtype and operation that a server knows.

    Raises:
        ServerError: It does not.
    """
    command, dtype, op = (int(record[name]) for name in ("command", "dtype", "op"))
    if command not in NAMES:
        served = ", ".join(f"{c} {name}" for c, name in NAMES.items())
        raise ServerError(f"the command of a task must be one of {served}, but got {command}")
    if dtype not in NUMPY_DTYPES:
        raise ServerError(f"the dtype of a task must be in [0, 11], but got {dtype}")
    if command in REDUCING:
        if op not in REDUCE_OPS:
            raise ServerError(
                f"op must be SUM 0, MAX 2 or MIN 3 for {NAMES[command]}, but got {op}"
            )
        if dtype not in REDUCED_DTYPES:
            names = ", ".join(HcclDataType(d).name for d in sorted(REDUCED_DTYPES))
            raise ServerError(
                f"dtype must be one of {names} for {NAMES[command]}, but got "
                f"{HcclDataType(dtype).name}"
            )


def extent(record: Array, n_pes: int) -> tuple[int, int]:
    """Return the number of elements of input and output that a task spans; not for an AlltoAllV.

    Raises:
        ArgumentError: The parts of the ranks would overlap.
    """
    command = int(record["command"])
    count, repeat, stride = (int(record[name]) for name in ("count", "repeat", "stride"))
    turns = count * repeat
    if command == HcclCommand.ALLREDUCE:
        return turns, turns
    if n_pes > 1 and (stride or count) < turns:
        raise ArgumentError(
            f"strideCount of {NAMES[command]} must be at least {turns}, the elements of all {repeat} "
            f"turns, but got {stride}"
        )
    spread = (n_pes - 1) * (stride or count) + turns
    if command == HcclCommand.ALLGATHER:
        return turns, spread
    return spread, turns if command == HcclCommand.REDUCE_SCATTER else spread


def describe(record: Array) -> str:
    """Return a record as a call, as it stands in reports."""
    command = int(record["command"])
    parts = []
    if command != HcclCommand.ALLTOALLV:
        parts.append(f"count={int(record['count'])}")
    parts.append(f"dtype={HcclDataType(int(record['dtype'])).name}")
    if command in REDUCING:
        parts.append(f"op={HcclReduceOp(int(record['op'])).name}")
    if command != HcclCommand.ALLREDUCE and command != HcclCommand.ALLTOALLV:
        parts.append(f"strideCount={int(record['stride'])}")
    if command == HcclCommand.ALLTOALLV:
        parts.append(f"sendCounts={record['send_counts'].tolist()}")
        parts.append(f"recvCounts={record['recv_counts'].tolist()}")
    parts.append(f"repeat={int(record['repeat'])}")
    where = "" if record["position"] else " from the host's tiling data"
    operator = bytes(record["operator"]).decode(errors="replace")
    if operator:
        where = f" of {operator}"
    return f"{NAMES[command]}({', '.join(parts)}){where}"


def counts_fit(table: Array, n_pes: int) -> bool:
    """Return whether the counts of all members' records, rows of an int64 table, fit together."""
    if table[0, _COMMAND] != HcclCommand.ALLTOALLV:
        return True
    start = table.shape[1] - 4 * n_pes
    sent, received = table[:, start:][:, :n_pes], table[:, start + 2 * n_pes :][:, :n_pes]
    return bool((sent == received.T).all())


def disagreement(records: dict[int, Array]) -> str:
    """Describe how the records of some members differ; return an empty text if they don't."""
    known = sorted(records)
    first = records[known[0]]
    names = [n for n in _AGREED if any(records[pe][n] != first[n] for pe in known)]
    if names:
        names = ["operator" if name == "tag" else name for name in names]
        return f"{', '.join(names)} must be the same on every rank, but differ"
    if int(first["command"]) == HcclCommand.ALLTOALLV:
        for i in known:
            for j in known:
                sent = int(records[i]["send_counts"][j])
                received = int(records[j]["recv_counts"][i])
                if sent != received:
                    return (
                        f"sendCounts[{j}] of rank {i} must be recvCounts[{i}] of rank {j}, but "
                        f"they are {sent} and {received}"
                    )
    return ""


def mismatch(group: str, records: dict[int, Array], n_pes: int, cause: str) -> TaskMismatchError:
    """Make the error of tasks that differ, rank by rank."""
    lines = []
    for pe in range(n_pes):
        if pe in records:
            record = records[pe]
            where = f"kernel {int(record['session'])}, task {int(record['index'])}"
            lines.append(f"  rank {pe}: {describe(record)} ({where})")
        else:
            lines.append(f"  rank {pe}: has not prepared it yet")
    return TaskMismatchError(
        f"tasks of communicator {group!r} don't fit together: {cause}\n" + "\n".join(lines)
    )

"""``Port``: a PE's way to the agent of its host, for what concerns PEs of other hosts.

A port is a ring of slots in the file of the host's segment. The PE writes a request into the next slot and counts it as
posted; the agent takes requests in that order, has them done where they belong, and writes the number of the request
into the slot's word when it was answered. The PE sleeps on its doorbell meanwhile, as in every other wait.

Large transfers are cut into pieces, so that one is copied while others travel. What lies in the host's segment is not
copied: the request says where, and the agent sends it from there, or receives it there.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from emu.comm import errors
from emu.comm.arrays import Array, Words
from emu.comm.errors import CommError
from emu.comm.hosts import steps
from emu.comm.hosts.places import Places
from emu.comm.hosts.words import (
    ADD,
    ASLEEP,
    ATOMIC,
    BELL_DESCRIPTOR,
    BELL_PROCESS,
    CODE,
    DIRECT_BYTES,
    DONE,
    ELEMENTS,
    EXPECTED,
    GENERATION,
    GET,
    GROUP,
    HOW_MANY,
    ITEMSIZE,
    KIND,
    LISTS,
    MEET,
    MEMBERS,
    MOST_SLOTS,
    NBYTES,
    OFFSET,
    OPERATION,
    PORT_BYTES,
    PORT_DATA,
    PORT_RECORDS,
    POSTED,
    PUT,
    RANK,
    RECORD_BYTES,
    RESULT,
    ROWS,
    SHAPE,
    SIZE,
    SLOT_DATA,
    SLOTS,
    SOURCE,
    STRIDES,
    TABLE,
    TAG,
    TARGET,
    VALUE,
    empty_words,
)
from emu.comm.layout import LINE, PAGE
from emu.comm.memory.segment import Segment
from emu.comm.ops import Cmp
from emu.comm.sync.entry_points import wait_word

_FREE, _FREED = "a free slot of its port", 4
_COPIED = 64 << 10
"""Tiles of the heap up to this size are copied as private ones are: a copy takes less time than an answer."""

Sleep: TypeAlias = Callable[[Callable[[], Any], Callable[[], dict[str, Any]]], int]
Key: TypeAlias = tuple[Any, ...]
Place: TypeAlias = tuple[int, int]
"""World number of a PE, and an offset in its heap."""


class Port:
    """The port of one PE.

    Args:
        segment: Shared memory of the host.
        me: Address of the PE's block.
        pe: Its number.
        places: Where PEs are.
        lane: Which of the PE's ports it is.

    Attributes:
        places: The same.
        sleep: How this PE goes on waiting slice by slice; its World sets it.
        side: The port of its communication servers, once there are some (:mod:`emu.comm.hosts.side_port`).
    """

    sleep: Sleep

    def __init__(
        self, segment: Segment, me: int, pe: int, places: Places, *, lane: int = 0
    ) -> None:
        self.side: Port | None = None
        self.places = places
        self._me, self._pe = me, pe
        self._segment = segment
        self._agent = places.distant[0]  # whose block is the agent's doorbell here
        area = segment.map_ports()
        start = (lane * len(places.local) + pe - places.local.start) * PORT_BYTES
        self._address = int(area.ctypes.data) + start
        self._words: Words = area[start : start + PAGE].view(np.int64)
        self._records = [
            area[at : at + RECORD_BYTES].view(np.int64)
            for at in range(start + PORT_RECORDS, start + PORT_DATA, RECORD_BYTES)
        ]
        self._data = [
            area[at : at + SLOT_DATA]
            for at in range(start + PORT_DATA, start + PORT_BYTES, SLOT_DATA)
        ]
        self._form = empty_words()  # of a dense tile that is copied
        self._form[SOURCE] = -1
        self._meeting = empty_words()
        self._meeting[KIND] = MEET
        self._posted = int(self._words[POSTED])
        self._threads = threading.RLock()
        self._open: dict[int, str] = {}  # requests that nobody waits for yet, and what they are
        self._open_at: int | None = None  # the host that all of them are for; -1: several
        self._of_agent: Words = area[:PAGE].view(np.int64)
        self._bell = -1

    def beside(self, kind: type[Port]) -> Port:
        """Return the PE's other port, which the first call makes."""
        with self._threads:
            if self.side is None:
                self.side = kind(self._segment, self._me, self._pe, self.places, lane=1)
            return self.side

    # --- slots -----------------------------------------------------------------------------

    def _take(self) -> int:
        """Return the number of the next request, once its slot is free; its words are cleared."""
        number = self._posted
        if number >= SLOTS:
            self._await_free(number - SLOTS)
        self._records[number % SLOTS][:] = 0
        return number

    def _await_free(self, number: int) -> None:
        """Wait until the request in the slot that is next was answered, and if it was not, some behind it: one wake for all."""
        if self._words[DONE + 8 * (number % SLOTS)] <= number:
            self._await(number + _FREED - 1, _FREE)
        self._await(number, _FREE)

    def _post(self, words: dict[int, int], what: str = "") -> int:
        """Post the request whose slot was taken; with ``what`` it is one that :meth:`quiet` waits for."""
        number = self._posted
        record = self._records[number % SLOTS]
        for place, value in words.items():
            record[place] = value
        if what:
            self._open[number] = what
        self._posted = number + 1
        steps.publish_word(self._me, self._address + 8 * POSTED, number + 1, self._agent)
        if self._of_agent[ASLEEP]:
            self._wake_agent()
        return number

    def _wake_agent(self) -> None:
        """Ring at the agent's pipe; one that is full wakes it, too."""
        with contextlib.suppress(OSError):  # the launcher has ended
            if self._bell < 0:
                process, descriptor = self._of_agent[[BELL_PROCESS, BELL_DESCRIPTOR]].tolist()
                self._bell = os.open(
                    f"/proc/{process}/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
                )
            os.write(self._bell, b"!")

    def _await(self, number: int, what: str) -> int:
        """Wait until a request was answered; return its result."""
        slot = number % SLOTS
        address = self._address + 8 * (DONE + 8 * slot)
        if not steps.await_request(self._me, self._address, number):
            self.sleep(
                lambda: wait_word(self._me, address, 8, int(Cmp.GT), number, 1),
                lambda: {"call": what, "text": "the answer of another host"},
            )
        self._open.pop(number, None)
        return int(self._records[slot][RESULT])

    def quiet(self) -> None:
        """Wait until everything that was posted is complete where it belongs."""
        if self._open:
            with self._threads:
                for number, what in list(self._open.items()):
                    self._await(number, what)
        self._open_at = None

    def settle(self, host: int = -1) -> None:
        """Wait until what was posted for hosts other than this one is complete there.

        Whoever sees what this PE stores next must see what it stored before. Requests for one host are done in the order
        in which they were posted, so only those for others have to be waited for.
        """
        if self._open and self._open_at != host:
            self.quiet()

    def _note_open(self, host: int) -> None:
        """Note that what is posted now, for a host, is not waited for."""
        self._open_at = host if self._open_at in (None, host) else -2

    # --- put, get, atomics -----------------------------------------------------------------

    def put(
        self,
        place: Place,
        strides: tuple[int, ...],
        source: Array,
        code: int,
        *,
        add: bool,
        waits: bool = True,
    ) -> None:
        """Store a tile on another host.

        Args:
            place: PE, and offset of the tile's first element.
            strides: Of the tile there, in bytes.
            source: The tile.
            code: Arithmetic kind of its elements.
            add: Whether to add.
            waits: Whether the source may be changed when it returns; that it is complete there only ``quiet`` says.
        """
        what = f"put to PE {place[0]} on another host"
        kind, size = ADD if add else PUT, source.itemsize
        with self._threads:
            self._note_open(self.places.host_of(place[0]))
            is_dense = source.flags.c_contiguous and strides == dense_strides(source.shape, size)
            if is_dense and (source.nbytes <= _COPIED or self._in_segment(source) < 0):
                self._copy_dense((kind, place[0], place[1], size, code), source, what)
                return
            fixed = {KIND: kind, TARGET: place[0], ITEMSIZE: size, CODE: code}
            direct: list[int] = []
            for words in self._pieces_of_put(place[1], strides, source):
                number = self._post(fixed | words, what)
                if words[SOURCE] >= 0:
                    direct.append(number)
            for number in direct if waits else ():
                self._await(number, what)

    def _copy_dense(self, words: tuple[int, int, int, int, int], source: Array, what: str) -> None:
        """Post a dense tile, in pieces of which each is as large as all before it, so that the first is soon on its way.

        ``words`` are KIND, TARGET, OFFSET, ITEMSIZE and CODE.
        """
        form, total, first = self._form, source.nbytes, 0
        form[KIND], form[TARGET], form[OFFSET], form[ITEMSIZE], form[CODE] = words
        while first < total:
            most = min(MOST_SLOTS, SLOTS - self._posted % SLOTS) * SLOT_DATA
            nbytes = min(total - first, most, max(SLOT_DATA, first))
            self._open[self._post_copy(form, source, first, nbytes)] = what
            first += nbytes

    def _post_copy(self, form: Words, source: Array, first: int, nbytes: int) -> int:
        """Post a request with a copy of a part of a dense array; return its number."""
        while True:
            number = self._posted
            span = steps.post_tile(
                *(self._me, self._address, number, self._agent),
                *(id(form), id(source), first, nbytes),
            )
            if span:
                break
            for old in range(-(-nbytes // SLOT_DATA)):
                self._await_free(number + old - SLOTS)
        self._posted = number + span
        if self._of_agent[ASLEEP]:
            self._wake_agent()
        return number

    def _pieces_of_put(
        self, offset: int, strides: tuple[int, ...], source: Array
    ) -> Iterator[dict[int, int]]:
        """Yield the words of each piece, with its payload in place, after taking a slot for it."""
        there = self._in_segment(source)
        if there >= 0 and strides == dense_strides(source.shape, source.itemsize):
            for first in range(0, source.nbytes, DIRECT_BYTES):
                self._take()
                nbytes = min(DIRECT_BYTES, source.nbytes - first)
                yield {OFFSET: offset + first, NBYTES: nbytes, SOURCE: there + first}
            return
        for key, start in pieces(source.shape, strides, source.itemsize, SLOT_DATA):
            number = self._take()
            part = source[key]
            room = self._data[number % SLOTS][: part.nbytes]
            np.copyto(room.view(source.dtype).reshape(part.shape), part)
            yield {
                OFFSET: offset + start,
                NBYTES: part.nbytes,
                SOURCE: -1,
                **_form(part.shape, strides, source.itemsize),
            }

    def _in_segment(self, array: Array) -> int:
        """Return the offset of a dense array in the host's segment; -1 of others."""
        if not array.flags.c_contiguous:
            return -1
        offset = int(array.__array_interface__["data"][0]) - self._segment.address
        return offset if 0 <= offset < self._segment.layout.total else -1

    def get(self, place: Place, strides: tuple[int, ...], target: Array) -> None:
        """Fetch a tile of another host into ``target``."""
        size, what = target.itemsize, f"get from PE {place[0]} on another host"
        fixed = {KIND: GET, TARGET: place[0], ITEMSIZE: size}
        there = self._in_segment(target)
        with self._threads:
            if there >= 0 and strides == dense_strides(target.shape, size):
                posted = []
                for first in range(0, target.nbytes, DIRECT_BYTES):
                    self._take()
                    nbytes = min(DIRECT_BYTES, target.nbytes - first)
                    words = {OFFSET: place[1] + first, NBYTES: nbytes, SOURCE: there + first}
                    posted.append(self._post(fixed | words, what))
                for number in posted:
                    self._await(number, what)
                return
            waiting: list[tuple[int, Array]] = []
            for key, start in pieces(target.shape, strides, size, SLOT_DATA):
                if len(waiting) == SLOTS:
                    self._fetch(*waiting.pop(0), what)
                self._take()
                part = target[key]
                words = {OFFSET: place[1] + start, NBYTES: part.nbytes, SOURCE: -1}
                words |= _form(part.shape, strides, size)
                waiting.append((self._post(fixed | words, what), part))
            for number, part in waiting:
                self._fetch(number, part, what)

    def _fetch(self, number: int, part: Array, what: str) -> None:
        """Copy a piece that has come to where it belongs."""
        self._await(number, what)
        room = self._data[number % SLOTS][: part.nbytes]
        np.copyto(part, room.view(part.dtype).reshape(part.shape))

    def atomic(
        self, place: Place, size: int, operation: int, value: int, expected: int, *, waits: bool
    ) -> int:
        """Do an atomic operation on a word of another host; return its old value, without ``waits`` 0."""
        what = f"an atomic operation on PE {place[0]} on another host"
        with self._threads:
            if not waits:
                self._note_open(self.places.host_of(place[0]))
            self._take()
            number = self._post(
                {
                    KIND: ATOMIC,
                    TARGET: place[0],
                    OFFSET: place[1],
                    SIZE: size,
                    OPERATION: operation,
                    VALUE: value,
                    EXPECTED: expected,
                },
                what,
            )
            return self._await(number, what) if waits else 0

    def elements(self, pe: int, how: tuple[int, int, int], lists: Words, *, waits: bool) -> None:
        """Access single elements of a PE on another host, one after the other.

        Args:
            pe: The PE.
            how: Operation and kind of :mod:`emu.comm.sync.element_numbers`, and bytes of an element.
            lists: Rows of words: offsets in the heap; values, and, with ``waits``, what was found afterwards; what is expected.
                What the operation does not need may be left out at the end, but for values if there is something to be found.
            waits: Whether to wait until it is done.
        """
        operation, kind, size = how
        what = f"elements of PE {pe} on another host"
        fixed = {KIND: ELEMENTS, TARGET: pe, SOURCE: -1, ITEMSIZE: size, CODE: kind}
        fixed |= {OPERATION: operation, LISTS: len(lists)}
        most = SLOT_DATA // (8 * len(lists))
        with self._threads:
            if not waits:
                self._note_open(self.places.host_of(pe))
            waiting: list[tuple[int, Array]] = []
            for first in range(0, lists.shape[1], most):
                if len(waiting) == SLOTS:
                    self._fetch(*waiting.pop(0), what)
                number, part = self._take(), lists[:, first : first + most]
                room = self._data[number % SLOTS][: part.nbytes]
                np.copyto(room.view(np.int64).reshape(part.shape), part)
                self._post(fixed | {NBYTES: part.nbytes, HOW_MANY: part.shape[1]}, what)
                if waits:
                    waiting.append((number, part[1]))
            for number, found in waiting:
                self._fetch(number, found, what)

    # --- what concerns all hosts of a group ------------------------------------------------

    def meet(
        self,
        group: int,
        generation: int,
        hosts: Sequence[int],
        n_pes: int,
        tag: int,
        rows: Sequence[Sequence[int]],
    ) -> None:
        """Have this PE counted as arrived at the barrier of a group on other hosts.

        Args:
            group: Number of the group.
            generation: Of its barrier, at which this PE has not arrived yet.
            hosts: The other hosts that have members.
            n_pes: Number of members.
            tag: What this PE calls.
            rows: Memory of this segment that is copied to the same place there before: (offset in the file, bytes,
                host or -1 for all).
        """
        flat = np.array([len(hosts), *hosts, *(word for row in rows for word in row)], np.int64)
        if flat.nbytes > SLOT_DATA:  # 1024 PEs with a row each take a tenth
            raise CommError(f"a barrier must copy fewer than 8192 pieces, but got {len(rows)}")
        form = self._meeting
        with self._threads:
            form[GROUP], form[MEMBERS], form[TAG], form[ROWS] = group, n_pes, tag, len(rows)
            form[GENERATION] = generation
            self._post_copy(form, flat, 0, flat.nbytes)

    def agree(self, request: dict[str, Any], *, waits: bool = True) -> Any:
        """Have the tables of all hosts read or changed (:mod:`emu.comm.hosts.tables`); return the answer.

        Raises:
            CommError: What the request cannot have; of the class that it would be on one host.
        """
        data = json.dumps(request).encode()
        with self._threads:
            number = self._take()
            room = self._data[number % SLOTS]
            room[: len(data)] = np.frombuffer(data, np.uint8)
            words = {KIND: TABLE, NBYTES: len(data), SOURCE: -1}
            if not waits:
                self._post(words)
                return None
            self._post(words, request["call"])
            nbytes = self._await(number, f"{request['call']} (agreed on by all hosts)")
            answer = json.loads(bytes(room[:nbytes]))
        if "error" in answer:
            raise getattr(errors, answer["error"])(answer["text"])
        return answer["value"]


def dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C order."""
    strides: list[int] = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= extent
    return tuple(reversed(strides))


def _form(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> dict[int, int]:
    """Return the words of a piece's shape and of its strides at the owner; none if it is dense there."""
    if strides == dense_strides(shape, itemsize) or all(
        stride == dense
        for extent, stride, dense in zip(
            shape, strides, dense_strides(shape, itemsize), strict=True
        )
        if extent > 1
    ):
        return {}
    words = {RANK: len(shape)}
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        words[SHAPE + axis], words[STRIDES + axis] = extent, stride
    return words


def pieces(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, limit: int
) -> Iterator[tuple[Key, int]]:
    """Cut a tile into pieces of at most ``limit`` bytes.

    Yields:
        The key of a piece, which has as many axes as the tile, and the distance in bytes of its first element from that of the
        tile, in memory with these strides. In C order, and cut at cache lines where elements lie one behind the other.
    """
    inner = itemsize
    axis = len(shape)
    while axis and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    if not axis:
        yield (slice(None),) * len(shape) + (...,), 0  # of no axes, too, it picks an array
        return
    cut = axis - 1  # the axis of which a piece holds a part; those before it are walked one by one
    rows = max(1, limit // inner)
    if inner < LINE <= rows * inner:
        rows = rows * inner // LINE * LINE // inner or 1
    behind = (slice(None),) * (len(shape) - axis)
    for outer in np.ndindex(*shape[:cut]):
        start = sum(i * stride for i, stride in zip(outer, strides, strict=False))
        before = tuple(slice(i, i + 1) for i in outer)
        for first in range(0, shape[cut], rows):
            part = slice(first, min(first + rows, shape[cut]))
            yield (*before, part, *behind, ...), start + first * strides[cut]

"""An MPI that sends to itself, written here: its handles are of any kind, and it notes what would end a real one.

Compiled code calls its functions by their addresses, as it does MPI's. So what differs between implementations is tested
without them: an integer or a pointer as handle, where in a status the size of a message stands, what follows an error.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

I32 = ctypes.c_int32


class Kind:
    """What an implementation looks like.

    Args:
        handle: C's type of a handle.
        null: The handle of nothing.
        first: The first handle of an object.
        status_words: Size of a status, in words of 4 bytes.
        length: The word of it in which the size of a message stands.
    """

    def __init__(self, handle: Any, null: int, first: int, status_words: int, length: int) -> None:
        self.handle, self.null, self.first = handle, null, first
        self.status_words, self.length = status_words, length


KINDS = {
    # Integers, of which those of objects that a program makes are negative; the size of a message first.
    "mpich": Kind(ctypes.c_int32, 0x2C000000, -(1 << 31) + 1, 5, 0),
    # Pointers, of more than 32 bits.
    "openmpi": Kind(ctypes.c_void_p, 0x7F12_3456_7000, 0x7F12_3456_8000, 6, 3),
    # The standard ABI: pointers of small value for what MPI names.
    "abi": Kind(ctypes.c_void_p, 0x180, 0x5555_0000_1000, 8, 5),
}


class _Handle:
    """What mpi4py has for a handle."""

    def __init__(self, kind: Kind, value: int) -> None:
        self.memory = kind.handle(value)


class _Request(_Handle):
    pass


class FakeMpi:
    """Stands for the module ``mpi4py.MPI``.

    Args:
        kind: One of ``KINDS``.

    Attributes:
        addresses: Of its functions, in the order of ``mpi_calls.FUNCTIONS``.
        crimes: What would end a process that has loaded a real one.
        failing: Name of the function that fails from now on.
    """

    UNDEFINED = -32766
    Request = _Request
    Exception = RuntimeError

    def __init__(self, kind: str) -> None:
        self.kind = made = KINDS[kind]
        self.COMM_SELF = self.COMM_WORLD = _Handle(made, made.first)
        self.BYTE = _Handle(made, made.first + 64)
        self.REQUEST_NULL = _Request(made, made.null)
        self.crimes: list[str] = []
        self.failing = ""
        self._next = made.first + 128
        self._messages: deque[tuple[int, bytes]] = deque()  # tag, content
        self._length = 0  # of what came last
        self._requests: dict[int, Any] = {}  # what completes it, by its handle

        class Status:
            def __init__(self) -> None:
                self.memory = (I32 * made.status_words)()

        self.Status = Status
        handle, pointer, number = made.handle, ctypes.c_void_p, ctypes.c_int
        takes = {
            self._isend: (pointer, number, handle, number, number, handle, pointer),
            self._irecv: (pointer, number, handle, number, number, handle, pointer),
            self._test: (pointer, pointer, pointer),
            self._testany: (number, pointer, pointer, pointer, pointer),
            self._get_count: (pointer, handle, pointer),
        }
        self._kept = [ctypes.CFUNCTYPE(number, *kinds)(call) for call, kinds in takes.items()]
        self.addresses = [int(ctypes.cast(call, pointer).value or 0) for call in self._kept]

    def _sizeof(self, kind: type) -> int:
        return (
            4 * self.kind.status_words if kind is self.Status else ctypes.sizeof(self.kind.handle)
        )

    def _addressof(self, value: Any) -> int:
        return ctypes.addressof(value.memory)

    # --- MPI's functions -------------------------------------------------------------------

    def _fails(self, name: str) -> bool:
        return name == self.failing

    def _handle(self, address: int) -> Any:
        return self.kind.handle.from_address(address)

    def _make(self, address: int) -> int:
        """Make a handle; store it, in its own size."""
        self._next += 16
        self._handle(address).value = self._next
        return self._next

    def _check(self, datatype: int, communicator: int | None = None) -> None:
        if datatype != self.BYTE.memory.value:
            self.crimes.append(f"datatype {datatype}")
        if communicator not in (None, self.COMM_SELF.memory.value):
            self.crimes.append(f"communicator {communicator}")

    def _isend(
        self, memory: int, count: int, kind: int, host: int, tag: int, comm: int, request: int
    ) -> int:
        self._check(kind, comm)
        if self._fails("Isend"):
            return 15
        self._messages.append((tag, ctypes.string_at(memory, count)))
        self._requests[self._make(request)] = lambda: True
        return 0

    def _irecv(
        self, memory: int, count: int, kind: int, source: int, tag: int, comm: int, request: int
    ) -> int:
        self._check(kind, comm)
        if self._fails("Irecv"):
            return 15
        self._requests[self._make(request)] = lambda: self._arrives(tag, memory, count)
        return 0

    def _arrives(self, tag: int, memory: int, count: int) -> bool:
        content = self._take(tag)
        if content is None:
            return False
        assert len(content) <= count
        self._length = len(content)
        ctypes.memmove(memory, content, len(content))
        return True

    def _take(self, tag: int) -> bytes | None:
        for number, (other, content) in enumerate(self._messages):
            if other == tag:
                del self._messages[number]
                return content
        return None

    def _test(self, request: int, flag: int, status: int) -> int:
        found = int(self._handle(request).value or 0)
        if found == self.kind.null:
            I32.from_address(flag).value = 1
            return 0
        if found not in self._requests:
            self.crimes.append(f"test of a request {found}, which nobody has made")
            return 19
        is_there = bool(self._requests[found]())
        I32.from_address(flag).value = is_there
        if is_there:
            del self._requests[found]
            self._handle(request).value = self.kind.null
        return 0

    def _testany(self, count: int, requests: int, index: int, flag: int, status: int) -> int:
        if self._fails("Testany"):
            return 15
        size, lengths = ctypes.sizeof(self.kind.handle), []
        for place in range(count):
            if self._handle(requests + place * size).value == self.kind.null:
                continue
            self._length = 0
            wrong = self._test(requests + place * size, flag, status)
            if wrong or I32.from_address(flag).value:
                I32.from_address(index).value = place
                words = (I32 * self.kind.status_words).from_address(status)
                words[self.kind.length] = self._length
                return wrong
            lengths.append(self._length)
        I32.from_address(index).value = self.UNDEFINED
        I32.from_address(flag).value = not lengths
        return 0

    def _get_count(self, status: int, kind: int, count: int) -> int:
        self._check(kind)
        words = (I32 * self.kind.status_words).from_address(status)
        I32.from_address(count).value = words[self.kind.length]
        return 0

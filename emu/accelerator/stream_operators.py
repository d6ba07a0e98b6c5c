"""The dispatch mode of ``--check streams``: it sees each operator below autograd, and notes what it reads and writes.

Which stream an operator is on:

* in a forward pass, the current stream of its device;
* in a backward pass, that of its forward operator, as CUDA's autograd engine chooses. The engine lets each step wait for
  what it needs, and the caller's stream for the last. Here each step waits for all steps before it, and the
  caller's stream for each step: engines may order less, never more than a program can rely on;
* while a CUDA graph is captured, none: a replay runs the operators.

What the host waits for, and how far: a copy to the host, unless it is asynchronous and to page-locked memory, a copy from the host
unless it is asynchronous, and an operator whose result, or its shape, depends on values.
"""

from __future__ import annotations

import functools
import re
import threading
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import torch
from torch._ops import HigherOrderOperator

from emu.accelerator.annotations import Storage, Tensor
from emu.accelerator.check_mode import CheckMode
from emu.accelerator.device_tags import TAG, tensors_in
from emu.accelerator.mode import PINNED
from emu.accelerator.state import TYPES, state, working_device
from emu.accelerator.stream_errors import HOST, Line
from emu.accelerator.stream_tracker import (
    KEPT,
    Memory,
    Tracker,
    Work,
    current_line,
    storage_of,
)
from emu.accelerator.wrappers import PLAIN

_aten = torch.ops.aten

_WAITING = re.compile(
    r"_local_scalar_dense|nonzero|masked_select|_?unique.*|equal|is_nonzero|bincount|_linalg_check_errors"
)
"""Operators that read values of the device to know their result, or its shape."""
_MASKED = frozenset(("index", "index_put", "index_put_", "_index_put_impl_"))
"""Operators that do so if an index is a mask."""
_FRESH = re.compile(r"new_.*|.*_like")
"""Operators that take dtype and device from a tensor, and read nothing of it."""
_EMPTY = re.compile(r"(new_)?empty.*")
_UNSEEN = re.compile(
    r"_unsafe_view|_reshape_alias|lift(_fresh)?|resize.*_|set_|_has_compatible.*|is_same_size|record_stream"
    r"|requires_grad_|_resize.*|sym_.*|is_.*|stride|size|dim|storage_offset|numel"
)
"""Operators that touch no element, though their schema does not say so."""
_NAMESPACES = frozenset(
    ("_c10d_functional", "_c10d_functional_autograd", "c10d", "profiler", "_dtensor")
)
"""Those of operators that are no work of a stream's; collectives are noted where they begin."""
_LEAF = 1 << 63
"""Numbers of nodes from here on are those of nodes that have no forward operator."""


_TRACING = tuple(
    getattr(torch._C._TorchDispatchModeKey, name) for name in ("FAKE", "PROXY", "FUNCTIONAL")
)
"""Modes that come after all others, and do not compute."""


def is_traced() -> bool:
    """Return whether operators are traced, or run on tensors without memory."""
    return any(torch._C._get_dispatch_mode(key) is not None for key in _TRACING)


class Plan(NamedTuple):
    """What is known of an operator from its schema.

    Attributes:
        name: Its name.
        arguments: Position, name, and whether it is written, of each argument with tensors.
        is_unseen: Whether it touches no element.
        is_empty: Whether its results are not written.
        waits: Whether the host waits for it.
        may_be_masked: Whether the host waits if an index is a mask.
        is_copy: Whether it is a copy, perhaps from one device to another.
    """

    name: str
    arguments: tuple[tuple[int, str, bool], ...]
    is_unseen: bool
    is_empty: bool
    waits: bool
    may_be_masked: bool
    is_copy: bool


@functools.cache
def plan_of(func: Any) -> Plan:
    """Return what is known of an operator from its schema."""
    if isinstance(func, HigherOrderOperator):
        # What it is given are tensors and functions in any order.
        return Plan(func.name(), tuple((n, "", False) for n in range(16)), *[False] * 5)
    schema = func._schema
    namespace, _, name = schema.name.rpartition("::")
    arguments = []
    writes = False
    for position, argument in enumerate(schema.arguments):
        alias = argument.alias_info
        is_write = alias is not None and alias.is_write
        writes = writes or is_write
        if "Tensor" in str(argument.type) and (alias is None or is_write):
            arguments.append((position, argument.name, is_write))
    aliases = [r.alias_info for r in schema.returns]
    is_view = bool(aliases) and not writes and all(a is not None for a in aliases)
    is_unseen = is_view or namespace in _NAMESPACES or _UNSEEN.fullmatch(name) is not None
    if _FRESH.fullmatch(name):
        arguments = [a for a in arguments if a[2]]
    return Plan(
        name,
        tuple(arguments),
        is_unseen,
        _EMPTY.fullmatch(name) is not None,
        _WAITING.fullmatch(name) is not None,
        name in _MASKED,
        func.overloadpacket in (_aten.copy_, _aten._to_copy),
    )


class ForwardStreams(threading.local):
    """Which streams were entered when a node of autograd was made, in each thread.

    Nodes have numbers, which count up in a thread.

    Attributes:
        threads: Threads that have entered a stream.
        entered_in_pass: How many streams hooks of a backward pass have entered, and not left, in this thread.
    """

    threads: ClassVar[set[int]] = set()

    def __init__(self) -> None:
        self.entered_in_pass = 0
        self.numbers: list[int] = []
        self.entered: list[tuple[Line, ...]] = []

    def note(self, entered: tuple[Line, ...]) -> None:
        """Note that other streams are entered from now on."""
        if entered:
            self.threads.add(threading.get_ident())
        number = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined, unused-ignore] # not exported
        if self.numbers and self.numbers[-1] == number:
            self.entered[-1] = entered
        else:
            self.numbers.append(number)
            self.entered.append(entered)

    def of(self, number: int, line: Line) -> Line:
        """Return the stream, of the device of a line, that was current when a node was made."""
        at = bisect_right(self.numbers, number) - 1
        if at >= 0:
            for stream in reversed(self.entered[at]):
                if stream.kind == line.kind and stream.device == line.device:
                    return stream
        return Line(line.kind, line.device)


class OperatorMode(CheckMode):
    """Mode of this module's docstring, for one thread.

    Args:
        tracker: Keeps what is noted.
        forward: Streams of nodes.
    """

    def __init__(self, tracker: Tracker, forward: ForwardStreams) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore] # torch does not annotate it
        self.tracker = tracker
        self._forward = forward

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator, and note its accesses."""
        if torch._C._len_torch_dispatch_stack() and is_traced():
            return run(func, args, kwargs or {})
        # Classes that handle operators themselves: those on what they hold come here.
        if not PLAIN.issuperset(types):
            return NotImplemented
        kwargs = kwargs or {}
        plan = plan_of(func)
        if plan.is_unseen or state.capture is not None or self.tracker.is_over:
            return run(func, args, kwargs)
        if plan.is_copy:
            source, target = (args[0], None) if len(args) < 2 else (args[1], args[0])
            copy = self._copy(plan, source, target, bool(_option(args, kwargs)))
            if copy is not None:
                return copy.run(func, args, kwargs)
        return self._operate(plan, func, args, kwargs)

    def _operate(self, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator of one device, or of the host."""
        tracker = self.tracker
        with torch._C.DisableTorchFunction():
            found, device = operands(plan, args, kwargs)
            if device is None:
                self._on_host(plan, found)
            else:
                work, caller = self.begin(plan.name, device)
                with tracker.lock:
                    for tensor, storage, is_write in found:
                        memory = _on_device(tracker, storage)
                        if memory is not None:
                            tracker.access(work, memory, tensor, is_write)
                    tracker.report()
        made = run(func, args, kwargs)
        if device is not None:
            with torch._C.DisableTorchFunction(), tracker.lock:
                self._note_results(plan, work, made, [storage for _, storage, _ in found])
                self.end(work, caller)
                if plan.waits or (plan.may_be_masked and any(map(_is_mask, found))):
                    tracker.wait(HOST, work.line)
                tracker.report()
        return made

    # ---- lines

    def begin(self, what: str, device: torch.device) -> tuple[Work, Line]:
        """Submit work to a device; return it, and the caller's stream."""
        caller = line = current_line(device.type, device.index)
        if torch._C._current_graph_task_id() >= 0:
            line = self._line_of_node(caller)
        with self.tracker.lock:
            if line != caller:
                self.tracker.wait(line, caller)
            return self.tracker.submit(what, line), caller

    def end(self, work: Work, caller: Line) -> None:
        """Let the caller's stream wait for a step of a backward pass."""
        if work.line != caller:
            self.tracker.wait(caller, work.line)

    def _line_of_node(self, caller: Line) -> Line:
        """Return the stream of the step of a backward pass that runs."""
        node = torch._C._current_autograd_node()  # type: ignore[attr-defined, unused-ignore] # not in its stub
        number = _LEAF if node is None else node._sequence_nr()
        if number >= _LEAF or self._forward.entered_in_pass:
            return caller
        if self._forward.threads - {threading.get_ident()}:
            # The number may be that of another thread's node, on any stream.
            self.tracker.wait_for_all(caller)
            return caller
        return self._forward.of(number, caller)

    # ---- the host

    def _on_host(self, plan: Plan, found: list[tuple[Tensor, Storage, bool]]) -> None:
        """Note what an operator of the host does to memory that asynchronous copies use."""
        tracker = self.tracker
        if not tracker.host_memories or torch._C._current_graph_task_id() >= 0:
            return
        for tensor, storage, is_write in found:
            memory = getattr(storage, KEPT, None)
            if memory is not None and memory.is_host and memory.tracker is tracker:
                with tracker.lock:
                    work = tracker.submit(plan.name, HOST)
                    tracker.access(work, memory, tensor, is_write)
        tracker.report()

    def read_on_host(self, what: str, tensor: Tensor) -> None:
        """Note that the program takes the values of a tensor without an operator."""
        storage = storage_of(tensor)
        if storage is None:
            return
        tracker, memory = self.tracker, getattr(storage, KEPT, None)
        device = getattr(storage, TAG)
        with tracker.lock:
            if device is not None:
                work, caller = self.begin(what, device)
                tracker.access(work, tracker.memory_of(storage), tensor, False)
                self.end(work, caller)
                tracker.wait(HOST, work.line)
            elif memory is not None and memory.is_host and memory.tracker is tracker:
                tracker.access(tracker.submit(what, HOST), memory, tensor, False)
            tracker.report()

    # ---- results

    def _note_results(self, plan: Plan, work: Work, made: Any, given: list[Storage]) -> None:
        """Note the memory that an operator has made."""
        for tensor in (made,) if isinstance(made, torch.Tensor) else tensors_in(_listed(made)):
            storage = storage_of(tensor)
            if storage is None or getattr(storage, KEPT, None) is not None:
                continue
            if any(storage is other for other in given):
                continue
            self._note_new(plan, work, tensor, storage)

    def _note_new(self, plan: Plan, work: Work, tensor: Tensor, storage: Storage) -> None:
        if torch._C._current_graph_task_id() >= 0:
            memory = self.tracker.memory_of(storage)  # the engine records the streams of gradients
        else:
            memory = self.tracker.allocate(work, storage)
        if not plan.is_empty:
            self.tracker.access(work, memory, tensor, True)

    # ---- copies

    def _copy(
        self, plan: Plan, source: Tensor, target: Tensor | None, is_asynchronous: bool
    ) -> _Copy | None:
        """Return a copy between two places; None of one within a device, or within the host."""
        if torch._C._current_graph_task_id() >= 0:
            return None
        with torch._C.DisableTorchFunction():
            return self._copy_of(plan, source, target, is_asynchronous)

    def _copy_of(
        self, plan: Plan, source: Tensor, target: Tensor | None, is_asynchronous: bool
    ) -> _Copy | None:
        read = storage_of(source)
        if read is None:
            return None
        here = getattr(read, TAG) or _known_device(read)
        if target is None:
            there, written = state.running, None
        else:
            written = storage_of(target)
            if written is None:
                return None
            there = getattr(written, TAG) or _known_device(written)
        if here is None and there is not None and here != there and state.running == there:
            untold = getattr(read, KEPT, None)
            if (
                untold is not None and not untold.is_host
            ):  # an intermediate result in torch's C++ code
                return None
        if here == there:
            return None
        return _Copy(self, plan, (source, read, here), (target, written, there), is_asynchronous)


class _Copy(NamedTuple):
    """A copy between two places."""

    mode: OperatorMode
    plan: Plan
    source: tuple[Tensor, Storage, torch.device | None]
    target: tuple[Tensor | None, Storage | None, torch.device | None]
    is_asynchronous: bool

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Copy, and note it."""
        mode, tracker = self.mode, self.mode.tracker
        (source, read, here), (target, written, there) = self.source, self.target
        name = self._name()
        owner = here if here is not None else there
        assert owner is not None
        between = here is not None and there is not None
        with torch._C.DisableTorchFunction(), tracker.lock:
            if between:  # both devices' streams wait for each other, before and after
                assert there is not None
                other = current_line(there.type, there.index)
                tracker.wait(current_line(owner.type, owner.index), other)
            work, _ = mode.begin(name, owner)
            if here is not None:
                tracker.access(work, tracker.memory_of(read), source, False)
            elif self.is_asynchronous and getattr(read, PINNED, False):
                tracker.access(work, tracker.host_memory_of(read), source, False)
            if there is not None and target is not None and written is not None:
                tracker.access(work, tracker.memory_of(written), target, True)
            tracker.report()
        made = run(func, args, kwargs)
        with torch._C.DisableTorchFunction(), tracker.lock:
            self._note_target(work, made)
            if between:
                tracker.wait(other, work.line)
            tracker.report()
        return made

    def _note_target(self, work: Work, made: Any) -> None:
        """Note what was written: memory of its own, or that of the host."""
        mode, tracker = self.mode, self.mode.tracker
        _, _, here = self.source
        target, written, there = self.target
        result = made if target is None else target
        storage = storage_of(made) if written is None else written
        if storage is None:
            return
        if there is not None:
            if target is None:
                mode._note_new(self.plan, work, result, storage)
        elif self.is_asynchronous and (target is None or getattr(storage, PINNED, False)):
            tracker.access(work, tracker.host_memory_of(storage), result, True)
            return
        if there is None or (here is None and not self.is_asynchronous):
            tracker.wait(HOST, work.line)

    def _name(self) -> str:
        *_, here = self.source
        *_, there = self.target
        how = "non_blocking " if self.is_asynchronous else ""
        return f"{how}copy from {here or 'the host'} to {there or 'the host'}"


def run(func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator, whose kernel may be a program's own."""
    if torch._C._len_torch_function_stack():
        # As in a backward pass: torch's C++ code called it, not the program.
        with torch._C.DisableTorchFunction():
            return func(*args, **kwargs)
    return func(*args, **kwargs)


def operands(
    plan: Plan, args: Any, kwargs: Any
) -> tuple[list[tuple[Tensor, Storage, bool]], torch.device | None]:
    """Return the operands, their storages, whether they are written, and the device; None of the host."""
    found: list[tuple[Tensor, Storage, bool]] = []
    device = None
    for position, name, is_write in plan.arguments:
        value = args[position] if position < len(args) else kwargs.get(name)
        if value is None:
            continue
        for tensor in (value,) if isinstance(value, torch.Tensor) else tensors_in(_listed(value)):
            storage = storage_of(tensor)
            if storage is not None:
                found.append((tensor, storage, is_write))
                if device is None:
                    device = getattr(storage, TAG)
    return found, working_device() if device is None else device


def _is_mask(operand: tuple[Tensor, Storage, bool]) -> bool:
    return operand[0].dtype in (torch.bool, torch.uint8)


def _option(args: Any, kwargs: Any) -> Any:
    """Return ``non_blocking`` of a call of ``copy_`` or ``_to_copy``."""
    return kwargs.get("non_blocking", args[2] if len(args) > 2 else False)


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else ()


def _known_device(storage: Storage) -> torch.device | None:
    """Return the device of an intermediate result, which has no tag yet."""
    memory = getattr(storage, KEPT, None)
    if memory is None or memory.is_host or memory.line is None or memory.line.kind not in TYPES:
        return None
    return torch.device(memory.line.kind, memory.line.device)


def _on_device(tracker: Tracker, storage: Storage) -> Memory | None:
    """Return what is known of the storage of an operand on a device; None of a host's, such as a number."""
    memory: Memory | None = getattr(storage, KEPT, None)
    if memory is not None and memory.tracker is tracker:
        return None if memory.is_host else memory
    # Buffers of a compiled function have no tag until it returns.
    is_there = getattr(storage, TAG) is not None or state.compiled_for is not None
    return tracker.memory_of(storage) if is_there else None

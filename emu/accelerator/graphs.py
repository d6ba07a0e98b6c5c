"""CUDA graphs: operators and launches are recorded while they are captured, and run again by ``replay``.

A GPU notes what is submitted to the capturing stream and runs none of it. Here a dispatch mode sees every operator
below autograd, those of backward passes included, and :class:`Launches` every kernel. As tensors must come out of a
captured call, and the next call may ask for their values (an index that is out of bounds is an error), operators do
run while they are captured, on memory that is put back:

- what they make anew belongs to the graph; it holds NaN, or -1, from the end of the capture to the first replay, since
  on a GPU it holds nothing yet;
- memory that was there before, and that an operator writes to, is restored at the end of the capture;
- Triton kernels are recorded only: which memory they write to is known by address alone.

A replay runs the recorded calls on the same tensors, and copies what they make anew into the tensors of the capture,
whose addresses are those that kernels and the program have. Calls that wait for the device, or bring values to the host,
are refused while a graph is captured, as CUDA refuses them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, NoReturn, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_leaves

from emu.accelerator.annotations import Args, Kwargs, Tensor, TorchFunction
from emu.accelerator.device_tags import emulated_device
from emu.accelerator.errors import NotEmulatedError
from emu.accelerator.generator import DEFAULT, DeviceGenerator, as_device_generator
from emu.accelerator.mode import HANDLERS, follow
from emu.accelerator.patches import replace
from emu.accelerator.state import refuse_in_capture, state, working_device
from emu.kernels.core.launch_count import Around, Launches, launch_named

_MODES = ("global", "thread_local", "relaxed")
_aten = torch.ops.aten
_WAITING = frozenset(
    packet
    for name in (
        *("_local_scalar_dense", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim"),
        *("unique_consecutive", "unique_dim_consecutive", "equal", "is_nonzero", "bincount"),
    )
    if (packet := getattr(_aten, name, None)) is not None
)
"""Operators that read values of the device to know their result, or its shape."""

_VERSIONS = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)


class _Call(NamedTuple):
    """A recorded operator: what to call, and the tensors of the capture that its new results are copied to."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: list[tuple[int, Tensor]]  # position among the leaves of the result
    device: torch.device | None  # for which torch worked

    def run(self) -> None:
        """Call the operator again."""
        before, state.running = state.running, self.device
        try:
            found = self.function(*self.args, **self.kwargs)
        finally:
            state.running = before
        if self.made:
            leaves = tree_leaves(found)
            for position, tensor in self.made:
                _aten.copy_.default(tensor, leaves[position])


class _Capture(TorchDispatchMode):  # type: ignore[misc, unused-ignore] # Any without torch
    """What is captured in one thread.

    Attributes:
        calls: What a replay runs, in order.
        launches: How many of these are launches of kernels.
        is_broken: Whether something was refused.
    """

    def __init__(self, generators: Iterable[DeviceGenerator]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore] # torch does not annotate it
        self.calls: list[Callable[[], None]] = []
        self.launches = 0
        self.is_broken = False
        self._own: dict[
            int, Tensor
        ] = {}  # by the address of the storage object: what was made since the beginning
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._thread = threading.get_ident()
        drawing = (*DEFAULT["cuda"][:], *generators)
        self._random_states = [(generator, generator.clone_state()) for generator in drawing]

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator, and record it if it is the device's."""
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not self._is_of_device(tensors):
            return func(*args, **kwargs)
        if func.overloadpacket in _WAITING:
            refuse_in_capture(f"{func.overloadpacket}, which waits for the device,")
        written = _written(func, args, kwargs)
        for tensor in written:
            self._keep(tensor)
        with torch._C.DisableTorchFunction():
            found = func(*args, **kwargs)
            made = self._new(found, tensors)
            if made or written:
                self.calls.append(_Call(func, args, kwargs, made, working_device()).run)
            if func.overloadpacket in (_aten.empty, _aten.empty_strided, _aten.empty_like):
                _aten.zero_.default(
                    found
                )  # an index that a kernel would write here must be in bounds
        return found

    def _is_of_device(self, tensors: list[Tensor]) -> bool:
        if working_device() is not None:
            return True
        return any(
            _key(t) in self._own or emulated_device(t) is not None
            for t in tensors
            if _has_storage(t)
        )

    def _keep(self, tensor: Tensor) -> None:
        """Remember memory that was there before the capture, until its end."""
        key = _key(tensor)
        if key not in self._own and key not in self._before:
            storage = tensor.untyped_storage()
            self._before[key] = (storage, torch.UntypedStorage(storage.nbytes()).copy_(storage))

    def _new(self, found: Any, given: list[Tensor]) -> list[tuple[int, Tensor]]:
        """Return the results that share no memory with an argument, by their positions."""
        known = {_key(tensor) for tensor in given if _has_storage(tensor)}
        made = []
        for position, leaf in enumerate(tree_leaves(found)):
            if isinstance(leaf, torch.Tensor) and _has_storage(leaf) and _key(leaf) not in known:
                if _key(leaf) not in self._own:
                    self._own[_key(leaf)] = leaf
                made.append((position, leaf))
        return made

    def record_launch(self, name: str, launch: Callable[[], None]) -> None:
        """Record a launch of this thread; those of others are no part of the graph."""
        if threading.get_ident() != self._thread:
            launch()
            return
        self.calls.append(partial(launch_named, name, launch))
        self.launches += 1

    def is_on_stack(self) -> bool:
        """Return whether the program is between operators: not inside of one, which runs as a whole."""
        return any(mode is self for mode in _get_current_dispatch_mode_stack())

    def record(self, run: Callable[[], None]) -> None:
        """Record a piece of the device's work that is neither an operator nor a kernel."""
        self.calls.append(run)

    def end(self) -> None:
        """Put memory and generators back, and take the values from what was made."""
        for generator, state_before in self._random_states:
            generator.graphsafe_set_state(state_before)
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for storage, before in self._before.values():
                storage.copy_(before)
            for tensor in self._own.values():
                torch.UntypedStorage.fill_(tensor.untyped_storage(), 0xFF)  # type: ignore[attr-defined] # not in its stub
        self._before.clear()


def _has_storage(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_meta


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """Return the tensors that an operator writes to."""
    found: list[Tensor] = []
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = kwargs.get(argument.name, args[index] if index < len(args) else None)
            found += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return found


class CUDAGraph:
    """``torch.cuda.CUDAGraph``: recorded operators and launches.

    Args:
        keep_graph: Whether the graph may be instantiated again; a replay does so by itself otherwise.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._capture: _Capture | None = None
        self._is_capturing = False
        self._pool: tuple[int, int] | None = None
        self._keeps_graph = keep_graph
        self._around: Around | None = None
        self._generators: list[DeviceGenerator] = []

    def __new__(cls, keep_graph: bool = False) -> Self:
        """Make a graph; subclasses of torch's call this with the argument."""
        return super().__new__(cls)

    def capture_begin(
        self,
        pool: tuple[int, int] | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Begin to record what this thread submits.

        Args:
            pool: Kept: each graph owns the memory that it makes.
            capture_error_mode: ``"global"``, ``"thread_local"`` or ``"relaxed"``; other threads go on in any case.
            check_input_liveness: Kept: a graph keeps its inputs alive.

        Raises:
            RuntimeError: A graph is captured in this thread already, or this one has been.
            ValueError: The mode is none of the three.
        """
        if capture_error_mode not in _MODES:
            raise ValueError(
                f"capture_error_mode must be one of {', '.join(map(repr, _MODES))}, but got {capture_error_mode!r}"
            )
        if state.capture is not None:
            raise RuntimeError("capture_begin() must not be called while a graph is captured")
        if self._capture is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph: call reset()"
            )
        self._pool = graph_pool_handle() if pool is None else pool
        capture = state.capture = self._capture = _Capture(self._generators)
        self._is_capturing = True
        self._around, Launches.around = Launches.around, capture.record_launch
        capture.__enter__()  # type: ignore[no-untyped-call, unused-ignore] # torch does not annotate it

    def capture_end(self) -> None:
        """End the recording.

        Raises:
            RuntimeError: It was not begun.
        """
        capture = self._capture
        if capture is None or not self._is_capturing:
            raise RuntimeError("capture_end() must be called after capture_begin()")
        capture.__exit__(None, None, None)  # type: ignore[no-untyped-call, unused-ignore] # as above
        Launches.around = self._around
        state.capture = None
        self._is_capturing = False
        capture.end()

    def instantiate(self) -> None:
        """Do nothing: a recorded graph is ready.

        Raises:
            RuntimeError: Nothing was captured.
        """
        self._captured()

    def _captured(self) -> _Capture:
        if self._capture is None or self._is_capturing:
            raise RuntimeError("a graph must be captured before it is replayed")
        if self._capture.is_broken:
            raise RuntimeError("the graph's capture failed, so it cannot be replayed: call reset()")
        return self._capture

    def replay(self) -> None:
        """Run what was recorded, on the memory of the capture.

        Raises:
            RuntimeError: Nothing was captured, or the capture failed, or another is under way.
        """
        captured = self._captured()
        refuse_in_capture("CUDAGraph.replay()")
        with (
            torch._C._AutoDispatchBelowAutograd(),
            torch._C._ExcludeDispatchKeyGuard(_VERSIONS),  # CUDA writes behind torch's back, too
            torch._C.DisableTorchFunction(),
        ):
            for call in captured.calls:
                call()
        Launches.count += captured.launches

    def reset(self) -> None:
        """Forget the recording, and the memory that it made.

        Raises:
            RuntimeError: It is under way.
        """
        if self._is_capturing:
            raise RuntimeError("reset() must not be called while the graph is captured")
        self._capture = None

    def pool(self) -> tuple[int, int]:
        """Return the handle of the pool that the graph's memory is said to come from.

        Raises:
            RuntimeError: Nothing was captured.
        """
        if self._pool is None:
            raise RuntimeError("pool() must be called after capture_begin()")
        return self._pool

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Keep a generator, whose numbers the capture does not take, and each replay does."""
        found = as_device_generator(generator)
        if found is not None:
            self._generators.append(found)

    def enable_debug_mode(self) -> None:
        """Do nothing: a recording can always be written by :meth:`debug_dump`."""

    def debug_dump(self, debug_path: str) -> None:
        """Write the recorded operators and launches to a file, a line each."""
        lines = [str(getattr(call, "__self__", call)) for call in self._captured().calls]
        with open(debug_path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def raw_cuda_graph(self) -> NoReturn:
        """Refuse: there is no ``cudaGraph_t``."""
        raise NotEmulatedError(
            "CUDAGraph.raw_cuda_graph is not emulated: a graph is a list of calls"
        )

    def raw_cuda_graph_exec(self) -> NoReturn:
        """Refuse: there is no ``cudaGraphExec_t``."""
        raise NotEmulatedError(
            "CUDAGraph.raw_cuda_graph_exec is not emulated: a graph is a list of calls"
        )


_pools = iter(range(1, 1 << 62))


def graph_pool_handle() -> tuple[int, int]:
    """Return a new handle of a memory pool."""
    return (0, next(_pools))


def is_current_stream_capturing() -> bool:
    """Return whether a graph is captured in this thread."""
    return state.capture is not None


def _tolist(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    if emulated_device(args[0]) is not None:
        refuse_in_capture("Tensor.tolist()")
    return follow(func, args, kwargs)


def install() -> None:
    """Let torch's own ``torch.cuda.graph`` and ``make_graphed_callables`` use these graphs."""
    reason = "graphs are lists of calls"
    for owner in (torch.cuda, torch.cuda.graphs):
        replace(owner, "CUDAGraph", CUDAGraph, reason)
        replace(owner, "graph_pool_handle", graph_pool_handle, reason)
        replace(owner, "is_current_stream_capturing", is_current_stream_capturing, reason)
    replace(torch.cuda.graphs.graph, "default_capture_stream", None, "its stream is a dummy")
    HANDLERS[torch.Tensor.tolist] = _tolist
    replace(torch._C, "_host_emptyCache", lambda: None, "torch.cuda.graph calls it")

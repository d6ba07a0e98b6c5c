"""Process group of ``torch.distributed`` over a group of the World."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from emu.accelerator.annotations import Tensor
from emu.accelerator.arrays import Array
from emu.accelerator.device_tags import device_of
from emu.accelerator.distributed import short_forms
from emu.accelerator.distributed.memory import (
    as_flat_array,
    as_reducible_array,
    check_element_count,
    check_same_dtype,
)
from emu.accelerator.distributed.point_to_point import Channels
from emu.accelerator.distributed.splitting import Splitting
from emu.accelerator.distributed.works import (
    JoinedWork,
    Queue,
    QueuedWork,
    Run,
    SentWork,
    Work,
    drop_sends,
)
from emu.accelerator.mode import active
from emu.comm.errors import ArgumentError

Tensors: TypeAlias = Sequence[Tensor]
T = TypeVar("T")

if TYPE_CHECKING:
    from torch._C import _distributed_c10d as c10d

    from emu.comm.world.group import Group

    _Reduction: TypeAlias = c10d.AllreduceOptions | c10d.ReduceOptions | c10d.ReduceScatterOptions

_OPS = {"SUM": "sum", "AVG": "avg", "PRODUCT": "prod", "MIN": "min", "MAX": "max"}
_CALLERS = ("torch.distributed.distributed_c10d",)


_ProcessGroup: Any = dist.ProcessGroup  # its stubs have overloads that are not called for Python


@short_forms.accepted
class WorldProcessGroup(Splitting, _ProcessGroup):  # type: ignore[misc] # its base is Any
    """Collectives and messages of torch tensors between the PEs of a group.

    Tensors are CPU memory tagged with an emulated device, which must be one of the backend's. They must be
    contiguous. All collectives are deferred until their result is needed
    (:mod:`emu.accelerator.distributed.works`).

    Attributes:
        emu_group: Group of the World.
    """

    supports_coalescing = False
    supports_time_estimate = False
    use_pg_for_symm_mem_rendezvous = (
        False  # without effect: the World's own exchange serves both ways
    )

    def __init__(self, backend: str, devices: Sequence[str], group: Group) -> None:
        _ProcessGroup.__init__(self, group.my_pe, group.n_pes)
        self.emu_group = group
        self._backend = backend
        self.device_kinds = tuple(devices)
        self._name, self._description = "", "undefined"
        self._queue = Queue(collective=True)
        self._receives = [Queue(collective=False) for _ in range(group.n_pes)]
        self._channels_made: Channels | None = None
        self._coalesced: list[Work] | None = None

    def _like(self, devices: Sequence[str], group: Group) -> WorldProcessGroup:
        made = type(self).__new__(type(self))  # a subclass may be made of other arguments
        WorldProcessGroup.__init__(made, self._backend, devices, group)
        return made

    # --- identity --------------------------------------------------------------------------

    def getBackendName(self) -> str:
        """Return "nccl" or "hccl"."""
        return self._backend

    def name(self) -> str:
        """Return "nccl" or "hccl"."""
        return self._backend

    def _get_backend_name(self) -> str:
        return self._backend

    @property
    def group_name(self) -> str:
        """Name that torch gave the group."""
        return self._name

    pg_name = group_name

    @property
    def group_desc(self) -> str:
        """Torch's description of the group's purpose."""
        return self._description

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(kind) for kind in self.device_kinds]

    def _get_backend(self, device: torch.device) -> WorldProcessGroup:
        kind = torch.device(device).type
        if kind not in self.device_kinds:
            raise RuntimeError(f"No backend type associated with device type {kind}")
        return self

    def get_hccl_comm_name(self, rank: int, init_comm: bool = True) -> str:
        """Return the name of the communicator: that of the World's group.

        Args:
            rank: A rank of the group.
            init_comm: Ignored: the communicator is always there.

        Raises:
            ArgumentError: ``rank`` is not one of the group's.
        """
        if not 0 <= rank < self.emu_group.n_pes:
            raise ArgumentError(f"rank must be in [0, {self.emu_group.n_pes}), but got {rank}")
        return self.emu_group.name

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return 0

    def set_timeout(self, timeout: timedelta) -> None:
        """Do nothing: the World reports deadlocks itself."""

    _set_default_timeout = set_timeout
    _add_ephemeral_timeout = set_timeout  # by Inductor, when it finds compiled code in its cache

    def _has_hooks(self) -> bool:
        return False

    def shutdown(self) -> None:
        """Run the deferred collectives; ``destroy_process_group`` calls it."""
        self._queue.run_all()
        for queue in self._receives:
            queue.drop()
        if self._channels_made is not None:
            drop_sends(self._channels_made)

    def abort(self) -> None:
        """Drop the deferred collectives."""
        self._queue.drop()
        self._queue = Queue(collective=True)

    # --- deferring ----------------------------------------------------------

    def _check(self, *tensors: Tensor) -> None:
        """Check the tensors' device, for calls through the functions of ``torch.distributed``.

        Torch's C++ code (DistributedDataParallel's reducer) passes buffers of its own, which cannot be tagged,
        and gradients in a backward pass; those calls are not checked.
        """
        caller = sys._getframe(2).f_globals.get("__name__")
        if short_forms.is_ours(caller):
            caller = sys._getframe(3).f_globals.get("__name__")
        if caller not in _CALLERS or not active():
            return
        if torch._C._current_graph_task_id() >= 0:
            return
        for tensor in tensors:
            kind = device_of(tensor).type
            if kind not in self.device_kinds:
                raise RuntimeError(
                    f"No backend type associated with device type {kind}: backend "
                    f"{self._backend!r} takes tensors on {' or '.join(self.device_kinds)}"
                )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is deferred: a call that is waited for may run at once."""
        return self._coalesced is None and self._queue.is_empty

    def _keep(self, run: Run, outputs: Sequence[Tensor]) -> QueuedWork:
        work = self._queue.add(run, list(outputs))
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _start_coalescing(self, device: torch.device) -> None:
        self._get_backend(device)
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> Work:
        works, self._coalesced = self._coalesced or [], None
        return JoinedWork(works)

    # --- collectives -----------------------------------------------------------------------

    def broadcast(self, tensors: Tensors, opts: c10d.BroadcastOptions | None = None) -> Work:
        """Give every member the root's tensor."""
        self._check(*tensors)
        data, root = as_flat_array(_one(tensors)), 0 if opts is None else opts.rootRank
        return self._keep(lambda: self.emu_group.broadcast(data, root, out=data), tensors)

    def allreduce(self, tensors: Tensors, opts: c10d.AllreduceOptions | None = None) -> Work:
        """Combine the members' tensors in place."""
        self._check(*tensors)
        return self._all_reduce(tensors, opts)

    def allreduce_coalesced(
        self, tensors: Tensors, opts: c10d.AllreduceCoalescedOptions | None = None
    ) -> Work:
        """Combine several tensors of each member, each in place."""
        self._check(*tensors)
        return self._all_reduce(tensors, opts)

    def _all_reduce(self, tensors: Tensors, opts: c10d.AllreduceOptions | None) -> Work:
        op = _operation(opts, *tensors)
        arrays = [as_reducible_array(tensor) for tensor in tensors]
        group = self.emu_group

        def run() -> None:
            for data in arrays:
                group.all_reduce(data, op, out=data)

        return self._keep(run, tensors)

    def reduce(self, tensors: Tensors, opts: c10d.ReduceOptions) -> Work:
        """Combine the members' tensors into the root's; the others keep theirs."""
        self._check(*tensors)
        op = _operation(opts, *tensors)
        data, root, group = as_reducible_array(_one(tensors)), opts.rootRank, self.emu_group

        def run() -> None:
            group.all_reduce(data, op, out=data if group.my_pe == root else None)

        return self._keep(run, tensors if group.my_pe == root else [])

    def all_gather_single(
        self, output: Tensor, source: Tensor, opts: c10d.AllgatherOptions | None = None
    ) -> Work:
        """Put the members' tensors one behind another into ``output``."""
        self._check(output, source)
        return self._gather_all([output], [source])

    _allgather_base = all_gather_into_tensor = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Tensors, sources: Tensors, opts: c10d.AllgatherOptions | None = None
    ) -> Work:
        """Run :meth:`all_gather_single` for several pairs."""
        self._check(*outputs, *sources)
        return self._gather_all(outputs, sources)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _gather_all(self, outputs: Tensors, sources: Tensors) -> Work:
        group = self.emu_group
        pairs = []
        for output, source in zip(outputs, sources, strict=True):
            check_same_dtype(output, source)
            check_element_count(output, source.numel() * group.n_pes, "output tensor")
            pairs.append((as_flat_array(output).reshape(group.n_pes, -1), as_flat_array(source)))

        def run() -> None:
            for output, source in pairs:
                group.all_gather(source, out=output)

        return self._keep(run, outputs)

    def allgather(
        self,
        output_lists: Sequence[Tensors],
        sources: Tensors,
        opts: c10d.AllgatherOptions | None = None,
    ) -> Work:
        """Put the members' tensors into a list; they may differ in size."""
        outputs, source = _one(output_lists), _one(sources)
        self._check(*outputs, source)
        self._check_list(outputs, "tensor_list")
        check_same_dtype(source, *outputs)
        arrays, data, group = (
            [as_flat_array(output) for output in outputs],
            as_flat_array(source),
            self.emu_group,
        )
        check_element_count(outputs[group.my_pe], source.numel(), f"tensor_list[{group.my_pe}]")

        def run() -> None:
            if len({array.size for array in arrays}) == 1:
                _deal(group.all_gather(data), arrays)
                return
            for root, array in enumerate(arrays):
                mine = root == group.my_pe
                group.broadcast(data if mine else array, root, out=array)

        return self._keep(run, outputs)

    def allgather_coalesced(
        self,
        output_lists: Sequence[Tensors],
        sources: Tensors,
        opts: c10d.AllgatherOptions | None = None,
    ) -> Work:
        """Run :meth:`allgather` for several tensors: ``output_lists[p][i]`` is member p's i-th."""
        self._check(*sources, *(output for outputs in output_lists for output in outputs))
        columns = list(zip(*output_lists, strict=True))
        pairs = zip(columns, sources, strict=True)
        return JoinedWork([self.allgather([outputs], [source]) for outputs, source in pairs])

    def gather(
        self, output_lists: Sequence[Tensors], sources: Tensors, opts: c10d.GatherOptions
    ) -> Work:
        """Put the members' tensors into a list of the root."""
        source, root, group = _one(sources), opts.rootRank, self.emu_group
        outputs = _one(output_lists) if group.my_pe == root else []
        self._check(*outputs, source)
        if group.my_pe == root:
            self._check_list(outputs, "gather_list")
        check_same_dtype(source, *outputs)
        for i, output in enumerate(outputs):
            check_element_count(output, source.numel(), f"gather_list[{i}]")
        arrays, data = [as_flat_array(output) for output in outputs], as_flat_array(source)

        def run() -> None:
            rows = group.gather(data, root)
            if rows is not None:
                _deal(rows, arrays)

        return self._keep(run, outputs)

    def scatter(
        self, outputs: Tensors, source_lists: Sequence[Tensors], opts: c10d.ScatterOptions
    ) -> Work:
        """Give member ``p`` the ``p``-th of the root's tensors."""
        output, root, group = _one(outputs), opts.rootRank, self.emu_group
        sources = _one(source_lists) if group.my_pe == root else []
        self._check(output, *sources)
        if group.my_pe == root:
            self._check_list(sources, "scatter_list")
        check_same_dtype(output, *sources)
        for i, source in enumerate(sources):
            check_element_count(source, output.numel(), f"scatter_list[{i}]")
        arrays, data = [as_flat_array(source) for source in sources], as_flat_array(output)

        def run() -> None:
            group.scatter(np.stack(arrays) if arrays else None, root, out=data)

        return self._keep(run, outputs)

    def reduce_scatter_single(
        self, output: Tensor, source: Tensor, opts: c10d.ReduceScatterOptions | None = None
    ) -> Work:
        """Combine the members' tensors and give each its part."""
        self._check(output, source)
        return self._reduce_scatter([output], [source], opts)

    _reduce_scatter_base = reduce_scatter_tensor = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, sources: Tensors, opts: c10d.ReduceScatterOptions | None = None
    ) -> Work:
        """Run :meth:`reduce_scatter_single` for several pairs."""
        self._check(*outputs, *sources)
        return self._reduce_scatter(outputs, sources, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(
        self, outputs: Tensors, sources: Tensors, opts: c10d.ReduceScatterOptions | None
    ) -> Work:
        op, group = _operation(opts, *sources), self.emu_group
        pairs = []
        for output, source in zip(outputs, sources, strict=True):
            check_same_dtype(output, source)
            check_element_count(source, output.numel() * group.n_pes, "input tensor")
            pairs.append(
                (as_reducible_array(output), as_reducible_array(source).reshape(group.n_pes, -1))
            )

        def run() -> None:
            for output, source in pairs:
                group.reduce_scatter(source, op, out=output)

        return self._keep(run, outputs)

    def reduce_scatter(
        self,
        outputs: Tensors,
        source_lists: Sequence[Tensors],
        opts: c10d.ReduceScatterOptions | None = None,
    ) -> Work:
        """Combine the ``p``-th tensors of all members for member ``p``; they may differ in size."""
        output, sources = _one(outputs), _one(source_lists)
        self._check(output, *sources)
        self._check_list(sources, "input_list")
        check_same_dtype(output, *sources)
        op, group = _operation(opts, output), self.emu_group
        check_element_count(output, sources[group.my_pe].numel(), "output")
        arrays, data = (
            [as_reducible_array(source) for source in sources],
            as_reducible_array(output),
        )

        def run() -> None:
            if len({array.size for array in arrays}) == 1:
                group.reduce_scatter(np.stack(arrays), op, out=data)
                return
            for root, array in enumerate(arrays):
                group.all_reduce(array, op, out=data if root == group.my_pe else None)

        return self._keep(run, outputs)

    def all_to_all_single(
        self,
        output: Tensor,
        source: Tensor,
        output_splits: Sequence[int] | None,
        input_splits: Sequence[int] | None,
        opts: c10d.AllToAllOptions | None = None,
    ) -> Work:
        """Send rows of the first axis to each member and receive theirs."""
        self._check(output, source)
        check_same_dtype(output, source)
        send = self._splits(source, input_splits, "input")
        receive = self._splits(output, output_splits, "output")
        data, out, group = as_flat_array(source), as_flat_array(output), self.emu_group
        return self._keep(lambda: _exchange(group, data, send, out, receive), [output])

    alltoall_base = all_to_all_single

    def alltoall(
        self, outputs: Tensors, sources: Tensors, opts: c10d.AllToAllOptions | None = None
    ) -> Work:
        """Send the ``p``-th tensor to member ``p`` and receive theirs; they may differ in size."""
        self._check(*outputs, *sources)
        self._check_list(outputs, "output_tensor_list")
        self._check_list(sources, "input_tensor_list")
        check_same_dtype(*outputs, *sources)
        arrays, targets = (
            [as_flat_array(source) for source in sources],
            [as_flat_array(out) for out in outputs],
        )
        send, receive = [a.size for a in arrays], [a.size for a in targets]
        group = self.emu_group

        def run() -> None:
            out = np.empty(sum(receive), targets[0].dtype)
            _exchange(group, np.concatenate(arrays), send, out, receive)
            _deal(np.split(out, list(itertools.accumulate(receive))[:-1]), targets)

        return self._keep(run, outputs)

    def barrier(self, opts: c10d.BarrierOptions | None = None, **_: object) -> Work:
        """Wait for every member."""
        return self._keep(self.emu_group.barrier, [])

    def monitored_barrier(self, *_: object, **__: object) -> None:
        """Raise an error: as with NCCL, only gloo has it."""
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")

    # --- messages --------------------------------------------------------------------------

    @property
    def _channels(self) -> Channels:
        if self._channels_made is None:
            self._channels_made = Channels(self.emu_group)
        return self._channels_made

    def send(self, tensors: Tensors, rank: int, tag: int = 0) -> Work:
        """Send a tensor to member ``rank``; ``tag`` is ignored, as by NCCL."""
        self._check(*tensors)
        self.emu_group.world_pe(rank)
        data, channels = as_flat_array(_one(tensors)), self._channels
        message = channels.send(data, rank)
        work = SentWork(channels, message, rank)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def recv(self, tensors: Tensors, rank: int, tag: int = 0) -> Work:
        """Receive the next tensor that member ``rank`` sends; ``tag`` is ignored, as by NCCL."""
        self._check(*tensors)
        self.emu_group.world_pe(rank)
        data, channels = as_flat_array(_one(tensors)), self._channels
        message = channels.ask(rank)
        work = self._receives[rank].add(
            lambda: channels.receive(message, rank, data), list(tensors), rank
        )
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        """Raise an error: like NCCL, the backend must know the sender."""
        raise RuntimeError(
            f"src must be a rank with backend {self._backend!r}, but got None: a receive from any "
            "source is not supported"
        )

    # --- arguments -------------------------------------------------------------------------

    def _check_list(self, tensors: Tensors, name: str) -> None:
        if len(tensors) != self.emu_group.n_pes:
            raise ArgumentError(
                f"{name} must have {self.emu_group.n_pes} tensors, one for each rank of the group, "
                f"but got {len(tensors)}"
            )

    def _splits(self, tensor: Tensor, splits: Sequence[int] | None, name: str) -> list[int]:
        """Return the number of the flat array's elements for each member."""
        n = self.emu_group.n_pes
        rows = tensor.shape[0] if tensor.dim() else 0
        line = as_flat_array(tensor).size // rows if rows else 0
        if not splits:
            if rows % n:
                raise ArgumentError(
                    f"{name} must have a first axis that {n} ranks divide, but got {rows} rows"
                )
            return [rows // n * line] * n
        if len(splits) != n or sum(splits) != rows or min(splits) < 0:
            raise ArgumentError(
                f"{name}_split_sizes must be {n} numbers that add up to the {rows} rows of {name}, "
                f"but got {list(splits)}"
            )
        return [int(count) * line for count in splits]


def _one(items: Sequence[T]) -> T:
    if len(items) != 1:
        raise ArgumentError(f"tensors must be one per process, but got {len(items)}")
    return items[0]


def _deal(rows: Iterable[Array], arrays: Sequence[Array]) -> None:
    for row, array in zip(rows, arrays, strict=True):
        array[...] = row


def _exchange(group: Group, data: Array, send: list[int], out: Array, receive: list[int]) -> None:
    """Exchange flat arrays, and check that ``receive`` elements have come from each member."""
    if sum(send) < data.size:
        data = data[: sum(send)]
    rows, counts = group.all_to_all_v(data, send)
    if counts.tolist() != receive:
        raise ArgumentError(
            f"output_split_sizes must fit what the ranks sent, {counts.tolist()} elements, but got "
            f"{receive}"
        )
    out[...] = rows


def _operation(opts: _Reduction | None, *tensors: Tensor) -> str:
    """Return the World's name of a reduction.

    Raises:
        ValueError: NCCL has no such reduction, or it is scaled, which is not mapped.
        TypeError: An average of booleans.
    """
    op: Any = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    kind = getattr(op, "op", op).name  # a ReduceOp, or one of the enumeration in it
    name = _OPS.get(kind)
    if name is None:
        raise ValueError(
            f"op must be SUM, AVG, PRODUCT, MIN or MAX with this backend, but got {kind}"
        )
    if name == "avg" and any(t.dtype is torch.bool for t in tensors):
        raise TypeError("op must not be AVG for boolean tensors, but got AVG")
    return name

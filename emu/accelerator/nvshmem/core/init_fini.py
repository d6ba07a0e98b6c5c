"""``nvshmem.core.init_fini``: the begin and the end of NVSHMEM, and who takes part."""

from __future__ import annotations

import operator
import secrets
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from emu.accelerator.device_tags import current_device, resolve
from emu.accelerator.distributed import works
from emu.accelerator.nvshmem import __version__, context
from emu.accelerator.nvshmem.bindings.nvshmem import uniqueid
from emu.accelerator.nvshmem.context import Context, active
from emu.accelerator.nvshmem.core.nvshmem_types import Version
from emu.accelerator.nvshmem.enums import InitStatus
from emu.accelerator.nvshmem.errors import NvshmemError, NvshmemInvalid, check
from emu.kernels.core.messages import shown

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.world import World

__all__ = ["UniqueID", "finalize", "get_unique_id", "get_version", "init", "init_status"]

UniqueID = uniqueid
_METHODS = ("mpi", "uid", "emulated_mpi")


def init(
    device: Any = None,
    uid: uniqueid | None = None,
    rank: int | None = None,
    nranks: int | None = None,
    mpi_comm: Any = None,
    initializer_method: str = "",
) -> None:
    """Initialise NVSHMEM on this PE; every PE calls it, and it waits for all.

    The launch has started the PEs already, so what is given is compared with it. A call when NVSHMEM is initialised
    counts, and so many calls of :func:`finalize` undo it. A process that nobody has launched is the one PE.

    Args:
        device: Device of the tensors: an object with ``device_id``, as ``cuda.core.Device`` has it. Default: torch's
            current device.
        uid: With ``"uid"``: rank 0's unique ID, on every rank.
        rank: Number of this PE. ``"uid"`` needs it.
        nranks: Number of PEs. ``"uid"`` needs it.
        mpi_comm: With the other methods: communicator of all PEs. Default: that of the launch.
        initializer_method: ``"mpi"``, ``"uid"`` or ``"emulated_mpi"``.

    Raises:
        NvshmemInvalid: An argument breaks a rule, is not what the launch has, or the ranks gave different IDs.
        NvshmemError: There is more than one rank, but this process is no PE.
    """
    data, rank, nranks = _said(initializer_method, uid, (rank, nranks), mpi_comm)
    is_by_uid = initializer_method == "uid"
    where = _device(device)
    world = _find_world(is_by_uid, rank, nranks)
    known = context.found()
    if known is not None and device is not None and known.device != where:
        raise NvshmemInvalid(
            f"nvshmem.core.init: device must be that of the first call, {known.device}, but got {where}"
        )
    works.flush_collectives()
    given = world.all_gather(data)
    if (given != given[0]).any():
        different = [pe for pe, each in enumerate(given) if (each != given[0]).any()]
        raise NvshmemInvalid(
            f"nvshmem.core.init: uid must be rank 0's on every rank, but got another one on {different}: broadcast "
            "what get_unique_id() gave there"
        )
    if known is not None:
        known.inits += 1
    else:
        context.begin(Context(world, where, device))


def _said(
    method: Any, uid: Any, ranks: tuple[int | None, int | None], communicator: Any
) -> tuple[Any, int | None, int | None]:
    """Return the bytes of the unique ID, zeros without one, and what the program says of its rank and their number.

    Raises:
        NvshmemInvalid: An argument of the method breaks a rule.
    """
    if method not in _METHODS:
        raise NvshmemInvalid(
            f"nvshmem.core.init: initializer_method must be one of {', '.join(map(repr, _METHODS))}, but got "
            f"{shown(method)}"
        )
    if method == "uid":
        return _identifier(uid), *ranks
    empty = np.zeros(uniqueid.DTYPE.itemsize, np.uint8)
    return (empty, *ranks) if communicator is None else (empty, *_of_communicator(communicator))


def _identifier(uid: Any) -> Any:
    """Return the bytes of a unique ID.

    Raises:
        NvshmemInvalid: It is none, or an empty one.
    """
    data = getattr(uid, "_data", None)
    if not isinstance(data, np.ndarray) or data.nbytes != uniqueid.DTYPE.itemsize:
        raise NvshmemInvalid(
            f"nvshmem.core.init: uid must be one of get_unique_id(), but got {shown(uid)}"
        )
    found = np.frombuffer(data.tobytes(), np.uint8)
    if not found.any():
        raise NvshmemInvalid(
            "nvshmem.core.init: uid must be rank 0's, but got an empty one: broadcast what get_unique_id() gave there"
        )
    return found


def _of_communicator(communicator: Any) -> tuple[int, int]:
    """Return rank and size of a communicator, as mpi4py's have them.

    Raises:
        NvshmemInvalid: It is none.
    """
    try:
        return operator.index(communicator.Get_rank()), operator.index(communicator.Get_size())
    except (AttributeError, TypeError):
        raise NvshmemInvalid(
            "nvshmem.core.init: mpi_comm must be a communicator with Get_rank() and Get_size(), but got "
            f"{shown(communicator)}"
        ) from None


def _find_world(is_by_uid: bool, rank: int | None, nranks: int | None) -> World:
    """Return the World, after comparing it with what the program says.

    Raises:
        NvshmemInvalid: It says something else, or nothing where it is needed.
        NvshmemError: There is none.
    """
    names = ("rank", "nranks") if is_by_uid else ("rank of mpi_comm", "size of mpi_comm")
    given = []
    for name, value in zip(names, (rank, nranks), strict=True):
        if value is None and is_by_uid:
            raise NvshmemInvalid(
                f"nvshmem.core.init: {name} must be given with initializer_method='uid'"
            )
        given.append(None if value is None else check.integer(f"nvshmem.core.init: {name}", value))
    world = context.find_world()
    if world is None:
        if given[1] not in (None, 1):
            raise NvshmemError(
                f"nvshmem.core.init: {names[1]} is {given[1]}, but this process is no PE: run the script with "
                f"`emu run -n {given[1]} script.py`"
            )
        _compare(names, given, (0, 1))
        return context.make_lone_world()
    _compare(names, given, (world.my_pe, world.n_pes))
    return world


def _compare(names: tuple[str, str], given: list[int | None], there: tuple[int, int]) -> None:
    if any(value not in (None, real) for value, real in zip(given, there, strict=True)):
        raise NvshmemInvalid(
            f"nvshmem.core.init: {names[0]} and {names[1]} must be those of the launch, {there[0]} and {there[1]}, but "
            f"got {given[0]} and {given[1]}"
        )


def _device(device: Any) -> torch.device:
    number = getattr(device, "device_id", None)
    if number is None:
        return resolve(torch.device("cuda", current_device("cuda")))
    index = check.integer("nvshmem.core.init: device.device_id", number)
    try:
        return resolve(torch.device("cuda", index) if index >= 0 else index)
    except RuntimeError as error:
        raise NvshmemInvalid(f"nvshmem.core.init: device must be there: {error}") from None


def finalize() -> None:
    """End NVSHMEM on this PE, and free what was not freed; every PE calls it, and it waits for all.

    Raises:
        NvshmemError: NVSHMEM is not initialised.
    """
    here = active("nvshmem.core.finalize")
    here.inits -= 1
    if here.inits:
        return
    here.free_all()
    context.end()


def get_unique_id(empty: bool = False) -> uniqueid:
    """Return a unique ID for :func:`init`: made by rank 0, and sent to the other ranks.

    Args:
        empty: Whether to return one for rank 0's to be written into.
    """
    made = uniqueid()
    if not check.flag("nvshmem.core.get_unique_id: empty", empty):
        made._data["version"] = 1
        made._data["internal"] = np.frombuffer(secrets.token_bytes(124), np.int8)
    return made


def init_status() -> InitStatus:
    """Return whether NVSHMEM is initialised; after :func:`finalize` it is bootstrapped."""
    return context.status()


def get_version() -> Version:
    """Return the versions of what the program talks to."""
    return Version("1.3", __version__, "3.4.5")

"""``launch``: run a function on PEs, of this machine or of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from emu.comm.process.launch import Launch, carry_out, choose, prepare
from emu.comm.process.launch_options import MPI, LaunchFields, LaunchOptions

T = TypeVar("T")


def launch(
    fn: Callable[..., T],
    n_pes: int,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    options: LaunchOptions | None = None,
    **fields: Unpack[LaunchFields],
) -> list[T]:
    """Run ``fn(*args, **kwargs)`` in ``n_pes`` processes and return their results in PE order.

    Inside, :func:`emu.world` gives the World. As with every start of a fresh process, a script
    must call it under ``if __name__ == "__main__":``.

    Args:
        fn: A function that a new process can import. Lambdas, closures and functions of a
            notebook or of ``python -i`` need cloudpickle: ``pip install 'tile-emu[interactive]'``.
        n_pes: Number of PEs, 1 to 1024; more than there are cores is fine.
        args: Positional arguments, the same for every PE.
        kwargs: Keyword arguments. Default: none.
        options: Settings of the launch. Default: those of ``LaunchOptions()``.
        **fields: Fields of :class:`emu.LaunchOptions` (``timeout``, ``heap_size``, ``poison``,
            ``prefix_output``, ``link``, ``preload``, ``stdin``, ``faults``, ``transport``), which take precedence over ``options``.

    Returns:
        The results, in PE order; with ``transport="mpi"`` those of all hosts, on each of them.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was started.
        ExceptionGroup: PEs raised, died or deadlocked. Each exception has the PE's number as ``pe``
            and the remote traceback as a note.
        KeyboardInterrupt: Ctrl-C; all PEs were stopped.
        CheckError: The PEs ended well, and checks have found something.
        CacheFolderError: Others can write into the folder of compiled kernels; nothing was started.
        HostsError: ``transport="mpi"``: MPI is missing, hosts differ, or something is asked for that a World over several
            hosts does not have; nothing was started.
    """
    chosen = choose(options, fields)
    if chosen.transport == MPI:
        from emu.comm.process.hosts import launch_over_mpi

        return launch_over_mpi(fn, n_pes, args, kwargs, chosen)
    world, call, chosen = prepare(Launch, fn, n_pes, args, kwargs, chosen, {})
    return carry_out(world, call, chosen)

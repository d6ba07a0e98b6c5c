"""``emu run --count``: what kernels did, printed when the PEs have ended."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def printed(is_wanted: bool, *, over_hosts: bool = False) -> Iterator[str | None]:
    """Give a folder for the PEs' counts, and print what they have left there, even if one has failed.

    Over hosts the first one prints what all PEs have left; if one has failed, each host what its own have.

    Args:
        is_wanted: Whether anything is counted; else there is no folder.
        over_hosts: Whether the PEs are those of several hosts.
    """
    if not is_wanted:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="emu-count-") as folder:
        try:
            yield folder
            prints = not over_hosts or _fetch_from_hosts(folder)
        except BaseException:
            _print(folder)
            raise
        if prints:
            _print(folder)


def _print(folder: str) -> None:
    from emu.trace.counting.pes import describe, read

    found = read(folder)
    if found:
        sys.stdout.flush()
        sys.stdout.write(f"{describe(found)}\n")


def _fetch_from_hosts(folder: str) -> bool:
    """Put what the PEs of all hosts have left into the first host's folder; return whether this is that host.

    Raises:
        HostsError: A host's files do not come.
    """
    from emu.comm.process import mpi as bootstrap

    mpi = bootstrap.initialise()
    mine = [(path.name, path.read_text()) for path in Path(folder).glob("*.json")]
    everyone = bootstrap.exchange(mpi, mine)
    if mpi.COMM_WORLD.Get_rank():
        return False
    for files in everyone:
        for name, text in files:
            Path(folder, name).write_text(text)
    return True

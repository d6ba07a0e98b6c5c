"""Run one Python script on many PEs: what ``emu run`` does."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.comm.link_model import Link

_SHIMS = Path(__file__).parent / "shims"


def run_script(
    script: str | Path,
    arguments: Sequence[str],
    n_pes: int,
    *,
    timeout: float = 60.0,
    prefix_output: bool = True,
    link: Link | None = None,
) -> None:
    """Run ``script`` as ``__main__`` on every PE and return when all have ended well.

    Each PE sees what ``python script`` would show it: ``sys.argv`` (with the script's absolute path),
    and the script's folder first on ``sys.path``. Behind that folder stands the one with the importable stand-ins (``pypto``), and
    ``emu.world()`` gives the PE's World. Processes that the script starts see the stand-ins too.

    Args:
        script: Path of the script.
        arguments: What follows the script in ``sys.argv``.
        n_pes: How many PEs to start.
        timeout: Seconds without progress after which waiting PEs are declared deadlocked.
        prefix_output: Whether each line a PE prints begins with its number.
        link: Emulated link between each two PEs. Default: none.

    Raises:
        FileNotFoundError: There is no such file.
        ExceptionGroup: At least one PE failed; see ``emu.launch``.
    """
    path = Path(script).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"script must be a file, but got {str(script)!r}")
    from emu.comm.launch import launch

    launch(
        _run_on_pe,
        n_pes,
        args=(str(path), tuple(arguments)),
        timeout=timeout,
        prefix_output=prefix_output,
        link=link,
    )


def _run_on_pe(path: str, arguments: tuple[str, ...]) -> None:
    shims = str(_SHIMS)
    # The script's own folder comes first, as Python has it; a script may shadow a stand-in.
    sys.path[0:0] = [str(Path(path).parent), shims]
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([shims, inherited] if inherited else [shims])
    sys.argv = [path, *arguments]
    runpy.run_path(path, run_name="__main__")

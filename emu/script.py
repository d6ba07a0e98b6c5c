"""Run one Python script on many PEs: what ``emu run`` does."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import socket
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
    devices: int | None = None,
) -> None:
    """Run ``script`` as ``__main__`` on every PE and return when all have ended well.

    Each PE sees what ``python script`` would show it: ``sys.argv`` (with the script's absolute path),
    and the script's folder first on ``sys.path``. Behind that folder stands the one with the importable
    stand-ins (``pypto``, ``torch_npu``, ``triton``), torch has emulated devices as soon as it is imported, the
    environment is the one that ``torchrun`` gives, and ``emu.world()`` gives the PE's World. Processes
    that the script starts see all of this except for the World.

    Args:
        script: Path of the script.
        arguments: What follows the script in ``sys.argv``.
        n_pes: How many PEs to start.
        timeout: Seconds without progress after which waiting PEs are declared deadlocked.
        prefix_output: Whether each line a PE prints begins with its number.
        link: Emulated link between each two PEs. Default: none.
        devices: How many emulated devices of each kind a PE sees, at least 1. Default: the environment's
            ``EMU_DEVICES``, or as many as there are PEs.

    Raises:
        ArgumentError: An argument or ``EMU_DEVICES`` breaks a rule; nothing was started.
        FileNotFoundError: There is no such file.
        ExceptionGroup: At least one PE failed; see ``emu.launch``.
    """
    path = Path(script).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"script must be a file, but got {str(script)!r}")
    environment = _environment(n_pes, _device_count(devices, n_pes))
    from emu.comm.launch import launch

    launch(
        _run_on_pe,
        n_pes,
        args=(str(path), tuple(arguments), environment),
        timeout=timeout,
        prefix_output=prefix_output,
        link=link,
        preload=("torch",) if _names_torch(path) else (),  # a second, once rather than on every PE
    )


def _names_torch(path: Path) -> bool:
    """Say whether the script imports torch, and has none of its own beside it."""
    if path.with_name("torch.py").exists() or path.with_name("torch").exists():
        return False
    imports = rb"^\s*(?:from|import)\b.*\btorch"
    return re.search(imports, path.read_bytes(), re.MULTILINE) is not None


def _device_count(devices: int | None, n_pes: int) -> int:
    from emu.comm.errors import ArgumentError

    if devices is not None:
        if devices < 1:
            raise ArgumentError(f"devices must be at least 1, but got {devices!r}")
        return devices
    text = os.environ.get("EMU_DEVICES")
    if text is None:
        return n_pes
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"EMU_DEVICES must be a whole number of at least 1, but got {text!r}")
    return int(text)


def _environment(n_pes: int, devices: int) -> dict[str, str]:
    """Return what every PE finds in its environment, as with ``torchrun`` on one machine.

    Another launch's values are replaced, but a port is kept: it may have been opened for this one.
    """
    of_all = {
        "WORLD_SIZE": n_pes,
        "LOCAL_WORLD_SIZE": n_pes,
        "ROLE_WORLD_SIZE": n_pes,
        "GROUP_WORLD_SIZE": 1,
        "GROUP_RANK": 0,
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": os.environ.get("MASTER_PORT") or _free_port(),
        "TORCHELASTIC_RUN_ID": f"emu-{os.getpid()}",
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_USE_AGENT_STORE": False,  # there is no agent: rank 0 serves the store
        "EMU_DEVICES": devices,
    }
    # What would be compiled is the work of devices that are not there; it runs eagerly instead.
    for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        of_all[name] = os.environ.get(name, "1")
    return {name: str(value) for name, value in of_all.items()}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _run_on_pe(path: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    from emu.comm.world import world

    os.environ.update(environment)
    os.environ.update(dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(world().my_pe)))
    shims = str(_SHIMS)
    # The script's own folder comes first, as Python has it; a script may shadow a stand-in.
    sys.path[0:0] = [str(Path(path).parent), shims]
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([shims, inherited] if inherited else [shims])
    importlib.import_module("_emu_imports").install()
    # A PE inherits the way in which it was started itself; children of a script start as in plain Python.
    importlib.import_module("multiprocessing").set_start_method(None, force=True)
    sys.argv = [path, *arguments]
    runpy.run_path(path, run_name="__main__")

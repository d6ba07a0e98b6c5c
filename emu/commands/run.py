"""``emu run``: one Python script, or module, on many PEs."""

from __future__ import annotations

import ast
import functools
import importlib
import linecache
import math
import os
import re
import runpy
import socket
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import FrozenImporter, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from emu.commands import stand_ins
from emu.commands.freed_memory import keep_freed_memory
from emu.kernels.core import environment
from emu.kernels.core.messages import shown

if TYPE_CHECKING:
    from emu.comm.check_options import Checks
    from emu.comm.link_model import Link


_TIMEOUT = 60.0


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run.

    Attributes:
        n_pes: Number of PEs.
        timeout: Seconds without progress after which waiting PEs are declared deadlocked.
        prefix_output: Whether each line a PE prints begins with its number.
        link: Emulated link between each two PEs. Default: none.
        devices: Number of emulated devices of each kind that a PE sees, at least 1. Default: the
            environment's ``EMU_DEVICES``, or as many as there are PEs.
        ranks_per_node: How many PEs make up a node, for what asks for its local rank. Default: the environment's
            ``EMU_RANKS_PER_NODE``, or all.
        device_model: Model of GPU that emulated CUDA devices answer as, as ``EMU_DEVICE_MODEL`` names it. Default:
            the environment's.
        stdin: Number of the PE that gets standard input, ``"all"`` or ``"none"``.
        interpret: Whether Python executes the kernels of Triton, statement by statement.
        program: With ``interpret``: number of the one program of each grid that runs, as in ``"3,0"``.
            Default: all.
        check: What is checked as the program runs, as ``EMU_CHECK`` says it. Default: the environment's.
        memory_model: What the program may count on, ``"weak"`` or ``"strong"``. Default: the environment's.
        autotune: Which configurations autotuned kernels take, as ``EMU_AUTOTUNE`` says it. Default: the environment's.
        poison: Whether new symmetric memory, and what ``torch.empty`` and its kin make on emulated devices, is filled
            with NaN, or 0xA5 in every byte.
        fault: What goes wrong on purpose, as ``EMU_FAULT`` says it. Default: the environment's.
        trace: Files that are to say what each PE did, as of ``emu.launch``. Default: none.
        count: Folder for what each PE's kernels did. Default: that is not counted.
        launcher: What starts the PEs, called as ``emu.launch``. Default: that.
    """

    n_pes: int
    timeout: float = _TIMEOUT
    prefix_output: bool = True
    link: Link | None = None
    devices: int | None = None
    ranks_per_node: int | None = None
    device_model: str | None = None
    stdin: int | str = 0
    interpret: bool = False
    program: str | None = None
    check: str | None = None
    memory_model: str | None = None
    autotune: str | None = None
    poison: bool = False
    fault: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()
    count: str | None = None
    launcher: Callable[..., object] | None = None


def run_script(script: str | Path, arguments: Sequence[str], options: RunOptions) -> None:
    """Run ``script`` as ``__main__`` on every PE and return when all have ended well.

    Each PE sees what ``python script`` would show it: ``sys.argv`` (with the script's absolute path),
    and the script's folder first on ``sys.path``. Behind that folder stands the one with the importable
    stand-ins (``nvshmem``, ``pypto``, ``torch_npu``, ``triton``), torch has emulated devices as soon as it is imported, the
    environment is the one that ``torchrun`` gives, and ``emu.world()`` gives the PE's World. Processes
    that the script starts see all of this except for the World.

    Args:
        script: Path of the script.
        arguments: What follows the script in ``sys.argv``.
        options: How to run it.

    Raises:
        ArgumentError: An argument or ``EMU_DEVICES`` breaks a rule; nothing was started.
        CacheFolderError: Others can write into the folder of compiled kernels; nothing was started.
        FileNotFoundError: There is no such file.
        ExceptionGroup: At least one PE failed; see ``emu.launch``.
    """
    try:
        path = Path(script).resolve()
        text = path.read_bytes() if path.is_file() else None
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # a name that no file can have, or a closed one
        reason = getattr(error, "strerror", None) or error
        raise FileNotFoundError(
            f"script must be a file that can be read, but got {shown(str(script))}: {reason}"
        ) from None
    if text is None:
        raise FileNotFoundError(f"script must be a file, but got {shown(str(script))}")
    beside = [path.with_name("torch.py"), path.with_name("torch")]
    program = Program(str(path), str(path.parent), tuple(arguments), is_module=False)
    _run(program, options, _imports_torch(text, beside))


def run_text(text: str, arguments: Sequence[str], options: RunOptions) -> None:
    """Run the text of a program as ``python -`` does, on every PE; else as :func:`run_script`.

    ``sys.argv[0]`` is ``"-"``, and the current folder is first on ``sys.path``.

    Args:
        text: The program.
        arguments: What follows in ``sys.argv``.
        options: How to run it.

    Raises:
        ArgumentError, CacheFolderError, ExceptionGroup: As in :func:`run_script`.
    """
    program = Program(_STDIN, os.getcwd(), tuple(arguments), is_module=False, text=text)
    beside = [Path("torch.py"), Path("torch")]
    _run(program, options, _imports_torch(text.encode(), beside))


_STDIN = "-"


def run_module(module: str, arguments: Sequence[str], options: RunOptions) -> None:
    """Run a module as ``python -m`` does, on every PE; else as :func:`run_script`.

    The current folder is first on ``sys.path``, and ``sys.argv[0]`` is the path of the module's file.

    Args:
        module: Its dotted name; of a package its ``__main__`` is run.
        arguments: What follows the module in ``sys.argv``.
        options: How to run it.

    Raises:
        ModuleNotFoundError: There is no such module; nothing was started.
        ArgumentError, CacheFolderError, ExceptionGroup: As in :func:`run_script`.
    """
    folder = os.getcwd()
    path = _find_module(module, [folder, stand_ins.FOLDER, *sys.path])
    beside = [Path(folder, "torch.py"), Path(folder, "torch")]
    program = Program(module, folder, tuple(arguments), is_module=True)
    _run(program, options, path is not None and _imports_torch(path.read_bytes(), beside))


def can_use_world(script: str | Path) -> bool:
    """Return whether a script might use a World, as far as its source tells.

    Returns:
        False if it imports only what has no World, nothing by a computed name and no module beside it,
        and mentions neither ``distributed`` nor the ranks in the environment; True in case of doubt.
    """
    path = Path(script)
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return True  # the PEs report it
    return any(_may_need_world(node, path) for node in ast.walk(tree))


def _may_need_world(node: ast.AST, script: Path) -> bool:
    """Return whether a node of a script's source imports or names what might have a World."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _RANKS.search(node.value) is not None
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        if node.level:  # a module beside the script
            return True
        modules = [node.module or ""]
        if node.module in ("emu", "torch"):  # of their modules, some have a World
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return not _DOUBTFUL.isdisjoint((getattr(node, "id", None), getattr(node, "attr", None)))
    return any(_may_have_world(module, script) for module in modules)


_RANKS = re.compile(r"WORLD_SIZE|RANK")
_DOUBTFUL = {"distributed", "import_module", "__import__", "exec", "eval", "runpy"}
_WITHOUT_WORLD = sys.stdlib_module_names | {
    *(
        "jax",
        "llvmlite",
        "matplotlib",
        "ml_dtypes",
        "numba",
        "numpy",
        "pandas",
        "scipy",
        "torch",
        "triton",
    )
}
_EMU_WITHOUT_WORLD = (
    "emu.kernels",
    "emu.mlir",
    "emu.sdy",
    "emu.stablehlo",
    "emu.tile",
    "emu.triton",
)


def _may_have_world(module: str, script: Path) -> bool:
    top = module.partition(".")[0]
    if top == "emu":
        return not any(f"{module}.".startswith(f"{name}.") for name in _EMU_WITHOUT_WORLD)
    beside = script.with_name(top)
    own = beside.is_dir() or beside.with_suffix(".py").exists()
    return own or top not in _WITHOUT_WORLD or "distributed" in module


@dataclass(frozen=True)
class Program:
    """The program of a PE: the path of a script, the name of a module or a text, and where that imports from."""

    name: str
    folder: str
    arguments: tuple[str, ...]
    is_module: bool
    text: str | None = None


def _run(program: Program, options: RunOptions, imports_torch: bool) -> None:
    devices = device_count(options.devices, options.n_pes)
    variables = torchrun_environment(options.n_pes, devices, _ranks_per_node(options))
    if devices == 1 and options.devices is None and environment.device_count() is None:
        del variables[
            "EMU_DEVICES"
        ]  # so that processes which the program starts have as many as they are
    variables |= _interpreting(options)
    variables |= _device_model(options)
    checks = _checks(options)
    _check_count(options, checks)
    if options.check is not None:
        variables["EMU_CHECK"] = checks.of_kernels
    variables |= _of_processes(options)
    if options.autotune is not None:
        variables["EMU_AUTOTUNE"] = options.autotune
    if options.poison:
        variables["EMU_POISON"] = "1"
    from emu.comm.fault_options import Faults
    from emu.comm.process.launching import launch

    (options.launcher or launch)(
        _run_on_pe,
        options.n_pes,
        args=(program, variables, options.count),
        timeout=options.timeout,
        prefix_output=options.prefix_output,
        link=options.link,
        stdin=options.stdin,
        poison=options.poison,
        checks=checks,
        faults=Faults(options.fault) if options.fault else None,
        trace=options.trace,
        preload=("torch",) if imports_torch else (),  # a second, once rather than on every PE
    )


def _of_processes(options: RunOptions) -> dict[str, str]:
    """Return the environment variables that hold for PEs which the program starts itself."""
    variables = {}
    if options.link is not None:
        rate = "inf" if math.isinf(options.link.bandwidth) else f"{options.link.bandwidth!r}B/s"
        variables["EMU_LINK"] = f"{rate},{options.link.latency!r}s"
    if options.timeout != _TIMEOUT:
        variables["EMU_TIMEOUT"] = repr(options.timeout)
    if options.trace:
        variables["EMU_TRACED"] = "1"
    return variables


def _ranks_per_node(options: RunOptions) -> int | None:
    """Return how many PEs make up a node; None: all.

    Raises:
        ArgumentError: ``EMU_RANKS_PER_NODE`` is no number.
    """
    from emu.comm.errors import ArgumentError

    try:
        return options.ranks_per_node or environment.ranks_per_node()
    except ValueError as error:
        raise ArgumentError(str(error)) from None


def _check_count(options: RunOptions, checks: Checks) -> None:
    """Check that kernels that are counted are neither checked nor interpreted.

    Raises:
        ArgumentError: They are.
    """
    from emu.comm.errors import ArgumentError

    if options.count is not None and (checks.of_kernels or options.interpret):
        other = "interpret" if options.interpret else f"check={checks.of_kernels!r}"
        raise ArgumentError(
            "count must be given without other ways to run kernels, and so must predict, which counts; "
            f"but got {other}"
        )


def _checks(options: RunOptions) -> Checks:
    """Return what is checked.

    Raises:
        ArgumentError: The options, or the environment, name what there is not.
    """
    from emu.comm.check_options import Checks

    found = Checks.from_environment()
    model = options.memory_model or found.memory_model
    text = found.names if options.check is None else options.check
    return Checks.parse(text, memory_model=model)


def _device_model(options: RunOptions) -> dict[str, str]:
    """Return the environment variable that names the GPU that devices answer as, if the options do.

    Raises:
        ArgumentError: They, or the environment, name none that is known.
    """
    from emu.comm.errors import ArgumentError
    from emu.kernels.core import device_models

    name = options.device_model
    try:
        if name is None:
            environment.device_model()
            return {}
        device_models.find(name)
    except ValueError as error:
        raise ArgumentError(str(error) if name is None else f"device_model {error}") from None
    return {"EMU_DEVICE_MODEL": name}


def _interpreting(options: RunOptions) -> dict[str, str]:
    """Return the environment variables that let Python execute kernels.

    Raises:
        ArgumentError: ``program`` is not the number of a program, or is given without ``interpret``.
    """
    from emu.comm.errors import ArgumentError

    if options.program is not None:
        if not options.interpret:
            raise ArgumentError(
                f"program must only be given with interpret, but got {shown(options.program)} without it"
            )
        try:
            environment.program_number(options.program)
        except ValueError as error:
            raise ArgumentError(str(error)) from None
    if not options.interpret:
        return {}
    return {"TRITON_INTERPRET": "1", "EMU_INTERPRET_PROGRAM": options.program or ""}


def _find_module(name: str, folders: list[str]) -> Path | None:
    """Return the source of the module that ``python -m`` would run, or None if it has none.

    Nothing is imported: packages that contain the module are imported by the PEs.
    """
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ModuleNotFoundError(
            f"No module named {shown(name)}: it must be a dotted name, not a path"
        )
    if parts[0] in sys.builtin_module_names:
        return None
    found = None
    where: list[str] | None = folders
    for number, part in enumerate(parts):
        if where is None:
            package = ".".join(parts[:number])
            raise ModuleNotFoundError(f"No module named {name}; {package} is not a package")
        found = PathFinder.find_spec(part, where)
        if found is None:
            if number == 0 and FrozenImporter.find_spec(part) is not None:
                return None
            raise ModuleNotFoundError(f"No module named {'.'.join(parts[: number + 1])}")
        where = found.submodule_search_locations
    assert found is not None
    if where is not None:  # a package: its __main__ is what runs
        found = PathFinder.find_spec("__main__", where)
        if found is None:
            raise ModuleNotFoundError(
                f"No module named {name}.__main__; {name} is a package and cannot be run directly"
            )
    return Path(found.origin) if found.origin and found.origin.endswith(".py") else None


def _imports_torch(text: bytes, beside: list[Path]) -> bool:
    """Return whether a program imports torch, or a stand-in that does, and has none of its own beside it."""
    if any(own.exists() for own in beside):
        return False
    imports = rb"^\s*(?:from|import)\b.*\b(?:torch|nvshmem)"
    return re.search(imports, text, re.MULTILINE) is not None


def device_count(devices: int | None, n_pes: int) -> int:
    """Return the number of emulated devices: ``devices``, else ``EMU_DEVICES``, else ``n_pes``.

    Raises:
        ArgumentError: It is not a whole number of at least 1.
    """
    from emu.comm.errors import ArgumentError

    if devices is not None:
        if devices < 1:
            raise ArgumentError(f"devices must be at least 1, but got {devices!r}")
        return devices
    try:
        return environment.device_count() or n_pes
    except ValueError as error:
        raise ArgumentError(str(error)) from None


def torchrun_environment(
    n_pes: int, devices: int, ranks_per_node: int | None = None
) -> dict[str, str]:
    """Return the environment variables that every PE gets, as with ``torchrun`` on one machine, or on several.

    Another launch's values are replaced, but a port is kept: it may have been opened for this one.

    Raises:
        ArgumentError: ``ranks_per_node`` does not divide ``n_pes``.
    """
    local = n_pes if ranks_per_node is None else ranks_per_node
    if local < 1 or n_pes % local:
        from emu.comm.errors import ArgumentError

        raise ArgumentError(
            f"ranks_per_node must be a divisor of the number of PEs, {n_pes}, but got {ranks_per_node!r}"
        )
    of_all = {
        "WORLD_SIZE": n_pes,
        "LOCAL_WORLD_SIZE": local,
        "ROLE_WORLD_SIZE": n_pes,
        "GROUP_WORLD_SIZE": n_pes // local,
        "GROUP_RANK": 0,
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": os.environ.get("MASTER_PORT") or _free_port(),
        "TORCHELASTIC_RUN_ID": f"emu-{os.getpid()}",
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_USE_AGENT_STORE": False,  # there is no agent: rank 0 serves the store
        "EMU_DEVICES": devices,
        "TORCHINDUCTOR_COMPILE_THREADS": os.environ.get("TORCHINDUCTOR_COMPILE_THREADS")
        or _compile_threads(n_pes),
    }
    if ranks_per_node is not None:
        of_all["EMU_RANKS_PER_NODE"] = local
    return {name: str(value) for name, value in of_all.items()}


def _ranks(pe: int, ranks_per_node: int) -> dict[str, str]:
    """Return the environment variables of a PE alone."""
    node, local = divmod(pe, ranks_per_node)
    return {
        "RANK": str(pe),
        "ROLE_RANK": str(pe),
        "LOCAL_RANK": str(local),
        "GROUP_RANK": str(node),
    }


def _compile_threads(n_pes: int) -> int:
    """Return the number of processes in which a PE's torch.compile compiles; 1: in the PE itself.

    They take seconds to start, so that a few are no gain.
    """
    share = environment.usable_cores() // n_pes
    return share if share > 2 else 1


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _run_on_pe(program: Program, variables: dict[str, str], count: str | None) -> None:
    from emu.comm.world.current import places_of, world

    me = world().my_pe
    os.environ.update(variables | _ranks(me, int(variables["LOCAL_WORLD_SIZE"])))
    places = places_of(world())
    if places is not None:
        from emu.commands.run_hosts import torchrun_environment_of

        os.environ.update(torchrun_environment_of(me, places))
    keep_freed_memory(world().n_pes)
    stand_ins.install()
    # The program's own folder comes first, as Python has it; it may shadow a stand-in.
    sys.path.insert(0, program.folder)
    # A PE inherits the way in which it was started itself; children of a script start as in plain Python.
    importlib.import_module("multiprocessing").set_start_method(None, force=True)
    sys.argv = [program.name, *program.arguments]
    _poison_tensors()
    _watch_tensors()
    leave_counts = _count_launches(count)
    try:
        if program.is_module:
            runpy.run_module(program.name, run_name="__main__", alter_sys=True)
        elif program.text is not None:
            _run_text(program.text)
        else:
            runpy.run_path(program.name, run_name="__main__")
    finally:
        leave_counts()
        _report_red_zones()


def _count_launches(folder: str | None) -> Callable[[], None]:
    """Count what kernels do, if there is a folder for that; return what writes it there."""
    if folder is None:
        return lambda: None
    from emu.comm.world.current import world
    from emu.trace.counting.pes import Counted

    return functools.partial(Counted(world()).leave, folder)


def _run_text(text: str) -> None:
    """Run a text as the main module; its lines can be looked up, as tracebacks and kernels need them."""
    name = "<stdin>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(text, name, "exec"), vars(main))  # noqa: S102 - the program


def _poison_tensors() -> None:
    """Fill new tensors if the environment says so and torch was loaded before it did, by the fork server."""
    if "emu.accelerator.mode" in sys.modules:
        importlib.import_module("emu.accelerator.poison").install()


def _watch_tensors() -> None:
    """Tell the check of races what operators do, if torch was loaded before this process was a PE."""
    from emu.comm.world.listened_heaps import find_heaps

    if "emu.accelerator.mode" in sys.modules and find_heaps() is not None:
        importlib.import_module("emu.accelerator.heap_operators").start()


def _report_red_zones() -> None:
    """Report what was written outside of tensors; a PE ends without the functions of :mod:`atexit`."""
    red_zones = sys.modules.get("emu.accelerator.red_zones")
    if red_zones is not None:
        red_zones.report_all()

"""The command line: ``emu run``, ``demo``, ``doctor``, ``tiling``, ``trace``, ``predict``, ``calibrate`` and ``sdy``.

Only ``argparse`` is imported at the top, so that ``emu --help`` answers at once; each command
imports what it needs. This module and those it calls for printing are the only ones that print.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emu.commands import option_types
from emu.commands.parsing import make_parser
from emu.commands.predict_arguments import add_calibrate, add_predict
from emu.commands.run_arguments import add_run
from emu.commands.sdy.cost_arguments import add_cost
from emu.commands.trace.arguments import add_trace
from emu.kernels.core.messages import shown

if TYPE_CHECKING:
    from rich.console import Console

    from emu.check import CheckError
    from emu.check.report_files import Found

INTERRUPTED = 130
USAGE = 2
FOUND = 3

_EXAMPLES = """\
examples:
  emu demo                                      a checked program of each system, in a table
  emu run -n 4 script.py                        a script on 4 PEs: Triton, PyPTO, torch, emu.world()
  emu run -n 4 --link 25GB/s,2us script.py      the same over an emulated network
  emu pytest tests                              the tests of a library for GPUs
  emu sdy explain --value %5 program.mlir       why a value of a sharded program is sharded as it is
  emu sdy cost program.mlir                     what its communication costs, and why
  emu predict run.emutrace --device h200        what a recorded run would take on a device
  emu trace convert run.emutrace run.json       a trace of emu run --trace, for other viewers
  emu trace stats run.emutrace                  where the time of a recorded run went
  emu tiling --hex "01 00 00 00 ..."            the bytes of tiling data, field by field
  emu doctor                                    what this machine offers

emu COMMAND --help says more about each.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The command line without the program's name; default ``sys.argv[1:]``.

    Returns:
        The exit status: 0 when all went well, 1 when something failed, 2 for a wrong command line, 3 when the program
        ended well and checks of PEs have found something,
        130 after Ctrl-C, and for ``emu run`` whatever the script asked for.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:2] == ["sdy", "opt"]:  # passes are options there, in an order that counts
        return _sdy_opt(words[2:])
    if words[:1] == ["pytest"]:  # all that follows is pytest's
        from emu.commands.run_pytest import run_pytest

        return run_pytest(words[1:])
    parser = _parser()
    if not words:
        parser.print_help()
        return 0
    options = parser.parse_args(words)
    options.words = words[1:]
    try:
        status: int = options.command(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(
        prog="emu",
        description="Run programs written for many accelerators on this machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_run(commands, _run)
    commands.add_parser(
        "pytest", help="run pytest with emulated devices (emu pytest --help)", add_help=False
    )
    _add_demo(commands)
    doctor = commands.add_parser(
        "doctor", help="print what this machine offers and what is missing"
    )
    doctor.add_argument(
        "--warm", action="store_true", help="then compile every kernel that is not in the cache yet"
    )
    doctor.set_defaults(command=_doctor)
    _add_tiling(commands)
    _add_sdy(commands)
    add_predict(commands, _predict, option_types.count)
    add_calibrate(commands, _calibrate)
    add_trace(commands)
    return parser


class _Version(argparse.Action):
    """Action that prints the version, looked up only then because reading metadata takes a while."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        sys.stdout.write(f"emu {version()}\n")
        parser.exit()


def version() -> str:
    """Return the version of the installed distribution, or ``(not installed)``."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("tile-emu")
    except PackageNotFoundError:
        return "(not installed)"


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="run a checked program of each system",
        description="Runs one program per system (Triton, PyPTO, MC2, torch_npu, Shardy) and a deadlock, checks "
        "each, and prints a table. With --input: the PyPTO programs on your own weights.",
    )
    demo.add_argument(
        "-n",
        dest="n_pes",
        type=option_types.count,
        default=4,
        metavar="N",
        help="number of PEs of the programs that run on several (default: %(default)s)",
    )
    demo.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="run the PyPTO programs on the fp32, fp16 and bf16 matrices of a .npy or .safetensors file",
    )
    demo.set_defaults(command=_demo)


def _add_tiling(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    tiling = commands.add_parser(
        "tiling",
        help="explain the bytes of tiling data, or the macros that declare it",
        description="Prints a buffer field by field. Without --struct it must begin with a "
        "communication message, whose version is detected. Of a text with TILING_DATA_DEF macros "
        "it prints the structs, and the variables that the text fills.",
    )
    source = tiling.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "file", nargs="?", metavar="FILE", help="binary, or text with macros; - is standard input"
    )
    source.add_argument("--hex", metavar="HEX", help="the bytes in hexadecimal; blanks are allowed")
    layout = tiling.add_mutually_exclusive_group()
    layout.add_argument(
        "--version",
        dest="layout_version",
        metavar="V",
        help="the message's version: v1, 128, 112, packed, v2, api or api512 (default: detected)",
    )
    layout.add_argument(
        "--struct", type=Path, metavar="FILE.h", help="the macros that declare what the bytes are"
    )
    tiling.add_argument(
        "--name", metavar="NAME", help="which struct of the macros (default: the last one)"
    )
    tiling.add_argument(
        "--offset",
        type=option_types.offset,
        default=0,
        metavar="N",
        help="offset of the struct in the bytes (default: 0)",
    )
    tiling.add_argument(
        "--emit",
        choices=("c", "cpp", "macros"),
        help="print the struct for a compiler instead of the table",
    )
    tiling.set_defaults(command=_tiling)


def _add_sdy(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sdy = commands.add_parser(
        "sdy",
        help="propagate shardings through StableHLO, and explain them",
        description="Shardy in Python: passes over modules of StableHLO with sdy shardings.",
    )
    tools = sdy.add_subparsers(required=True, metavar="TOOL")
    tools.add_parser("opt", help="run passes on a module (emu sdy opt --help)", add_help=False)
    _add_sdy_explain(tools)
    _add_sdy_run(tools)
    add_cost(tools, _sdy_cost, option_types.count)


def _add_sdy_explain(tools: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    why = tools.add_parser(
        "explain",
        help="print why values are sharded as they are",
        description="For each axis of a value, the steps that brought it; for each axis that was "
        "not taken, the conflict. Without --value: a line for each value.",
    )
    why.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="MLIR; - is standard input"
    )
    why.add_argument(
        "--value",
        action="append",
        default=[],
        metavar="%NAME",
        help="explain this value (repeatable)",
    )
    why.add_argument("--function", metavar="NAME", help="in which function it is (default: main)")
    why.add_argument(
        "--html", type=Path, metavar="OUT.html", help="write a page that shows it step by step"
    )
    why.add_argument(
        "--pipeline", metavar="PASSES", help="what to run (default: sdy-propagation-pipeline)"
    )
    why.set_defaults(command=_sdy_explain)


def _add_sdy_run(tools: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = tools.add_parser(
        "run",
        help="run a sharded program, one PE per device, and compare it with the unsharded one",
        description="Partitions a module, runs its main function on as many PEs as its mesh has "
        "devices, and says what it computed.",
    )
    run.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="MLIR; - is standard input"
    )
    run.add_argument(
        "--inputs",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="the inputs in order: .npy files, or one .npz (default: random numbers)",
    )
    run.add_argument(
        "--seed",
        type=option_types.seed,
        default=0,
        metavar="N",
        help="of the random inputs (default: 0)",
    )
    run.add_argument(
        "--check",
        choices=("outputs", "unsharded"),
        help="compare the results, or every operation, with the program without shardings",
    )
    run.add_argument("--output", type=Path, metavar="OUT.npz", help="write the results there")
    run.add_argument(
        "--pipeline", metavar="PASSES", help="how to partition (default: emu-partition-pipeline)"
    )
    run.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="as of emu run (default: 60)"
    )
    run.add_argument(
        "--mesh", metavar="x=4,y=8", help="other sizes of the mesh's axes (default: the module's)"
    )
    run.add_argument(
        "--reference",
        action="store_true",
        help="compute operation by operation in NumPy: slow, and what defines the meaning",
    )
    run.add_argument(
        "--transport",
        choices=("shm", "mpi"),
        default="shm",
        help="mpi: mpiexec has started this command on several hosts, which share the PEs (default: shm)",
    )
    run.set_defaults(command=_sdy_run)


def _stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def _complain(message: object) -> None:
    _stderr().print(f"emu: {message}", markup=False)


def _run(options: argparse.Namespace) -> int:
    from emu.check import CheckError
    from emu.comm.errors import CommError
    from emu.commands.run_command import run_command
    from emu.commands.run_pytest import pytest_arguments, run_pytest
    from emu.kernels.errors import CacheFolderError
    from emu.trace.errors import TraceError

    if not options.script and not options.module:
        if options.replay is not None:
            return _run_again(options.replay)
        options.fail("one of these is required: SCRIPT, -m MODULE, -")
    of_pytest = pytest_arguments(options)
    if of_pytest is not None:
        return run_pytest(of_pytest)
    _announce_compiling()
    try:
        run_command(options, _complain)
    except ModuleNotFoundError as error:  # as python -m: a message and 1
        _complain(error)
        return 1
    except CheckError as error:
        return _report_findings(error, options.report)
    except (CommError, CacheFolderError, FileNotFoundError, TraceError) as error:
        _complain(error)  # nothing was started
        return USAGE
    except ExceptionGroup as group:
        _write_report(options.report, _found_in(group))
        return _report(group)
    _write_report(options.report, ())
    return 0


def _run_again(replay: str) -> int:
    """Run what an order in a file was found with."""
    from emu.comm.errors import ArgumentError
    from emu.commands.run_orders import recorded_words

    try:
        words = recorded_words(replay)
    except ArgumentError as error:
        _complain(error)
        return USAGE
    again = _parser().parse_args(["run", *words])
    if not again.script and not again.module:
        _complain(f"replay must be a file whose command names a script, but got {shown(replay)}")
        return USAGE
    return main(["run", *words])


def _report_findings(error: CheckError, report: Path | None) -> int:
    """Print what checks have found, and write it to a file if that is asked for; return the exit status."""
    _complain(error)
    _write_report(report, error.reports)
    return FOUND


def _found_in(group: ExceptionGroup[Exception]) -> list[Found]:
    """Return the deadlocks in an error, and what checks have found beside them."""
    from emu.check import CheckError
    from emu.check.deadlock import deadlocks_of

    found: list[Found] = [*deadlocks_of(group)]
    for error in group.exceptions:
        if isinstance(error, CheckError):
            found += error.reports
    return found


def _write_report(path: Path | None, reports: Sequence[Found]) -> None:
    """Write what checks have found, and deadlocks, to a file, if that is asked for."""
    if path is None:
        return
    from emu.check.report_files import write_reports

    try:
        write_reports(path, reports)
    except OSError as error:
        _complain(f"the report could not be written: {error}")


def _announce_compiling() -> None:
    """Print a line when PEs compile kernels, because they wait for it the first time."""
    from emu.comm.watchdog import compiling
    from emu.kernels.core import cache_folder

    def announce() -> None:
        _complain(
            "compiling the kernels that this program calls for this CPU (once; kept in "
            f"{cache_folder.base()})"
        )

    compiling.announce = announce


def _demo(options: argparse.Namespace) -> int:
    from emu.comm.errors import CommError
    from emu.commands.demo import run_demo
    from emu.commands.weights import WeightFileError
    from emu.kernels.errors import CacheFolderError

    _announce_compiling()
    try:
        return run_demo(options.n_pes, options.input)
    except (CommError, CacheFolderError, WeightFileError, OSError) as error:
        _complain(error)
        return USAGE
    except ExceptionGroup as group:
        return _report(group)


def _doctor(options: argparse.Namespace) -> int:
    from emu.commands.doctor import precompile, run_doctor

    status = run_doctor()
    if options.warm and status == 0:
        sys.stdout.write("\n")
        precompile()
    return status


def _tiling(options: argparse.Namespace) -> int:
    from emu.comm.errors import ArgumentError
    from emu.commands.tiling import explain

    try:
        explain(
            options.file,
            hexadecimal=options.hex,
            version=options.layout_version,
            struct=options.struct,
            name=options.name,
            offset=options.offset,
            emit=options.emit,
        )
    except ArgumentError as error:
        _complain(error)
        return 1
    except OSError as error:
        _complain(error)
        return USAGE
    return 0


def _sdy_opt(arguments: list[str]) -> int:
    from emu.commands.sdy.opt import run_opt

    try:
        return run_opt(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def _sdy_explain(options: argparse.Namespace) -> int:
    from emu.commands.sdy.explain import run_explain

    return run_explain(
        options.file,
        values=options.value,
        function=options.function,
        html=options.html,
        passes=options.pipeline,
    )


def _sdy_run(options: argparse.Namespace) -> int:
    from emu.commands.sdy.run import Request, run_program

    return run_program(
        Request(
            options.file,
            inputs=options.inputs,
            seed=options.seed,
            check=options.check,
            output=options.output,
            passes=options.pipeline,
            timeout=options.timeout,
            reference=options.reference,
            mesh=options.mesh,
            transport=options.transport,
        )
    )


def _predict(options: argparse.Namespace) -> int:
    from emu.commands.predict import run_predict

    return run_predict(options)


def _calibrate(options: argparse.Namespace) -> int:
    from emu.commands.calibrate import run_calibrate

    return run_calibrate(options)


def _sdy_cost(options: argparse.Namespace) -> int:
    from emu.commands.sdy.cost import Request, run_cost

    given = [] if options.file is None else [options.file]
    return run_cost(
        Request(
            [*given, *options.compare] or ["-"],
            mesh=options.mesh,
            shardings=options.sharding,
            links=options.link,
            flops=options.flops,
            device=options.device,
            what_if=options.what_if,
            json=options.json,
            limit=options.most,
        )
    )


def _report(group: ExceptionGroup[Exception]) -> int:
    """Print what went wrong on each PE; return the exit status of the first of them, or of a deadlock that was found."""
    from emu.comm.errors import DeadlockError, PEExitError

    is_deadlock = any(isinstance(error, DeadlockError) for error in group.exceptions)
    if is_deadlock:
        _complain(group.message)  # the whole report; each PE's own error only says where it was
    alike: dict[str, list[Exception]] = {}
    for error in group.exceptions:
        if not isinstance(error, PEExitError):  # the PE has printed its message itself
            alike.setdefault(f"{type(error).__name__}: {error}", []).append(error)
    for text, errors in alike.items():
        _complain_of(text, errors)
    return FOUND if is_deadlock else _status(group.exceptions[0])


def _complain_of(text: str, errors: list[Exception]) -> None:
    """Print an error that one or several PEs raised, with the first one's traceback."""
    numbers = [getattr(error, "pe", None) for error in errors]
    pes = ", ".join(str(pe) for pe in numbers if pe is not None)
    _complain(f"PE {pes}: {text}" if pes else text)
    for note in getattr(errors[0], "__notes__", ()):
        _stderr().print(note, markup=False)


def _status(error: Exception) -> int:
    from emu.comm.errors import PEDiedError, PEExitError

    code = 1
    if isinstance(error, PEExitError):
        code = error.code
    elif isinstance(error, PEDiedError) and error.exitcode is not None:
        code = error.exitcode if error.exitcode >= 0 else 128 - error.exitcode
    return code & 0xFF or 1  # a status has eight bits, and a failure must not turn into 0

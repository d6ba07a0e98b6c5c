"""``emu sdy opt``: reads modules, runs passes, prints modules."""

from __future__ import annotations

import re
import sys
from typing import TextIO

from emu.commands.sdy.arguments import HELP, OptArguments, UsageError, parse_arguments, pass_list
from emu.commands.sdy.expected import check_expected
from emu.commands.sdy.files import open_to_write, read_text
from emu.mlir import parse, to_text
from emu.mlir.diagnostics import Diagnostics, MlirError, PassFailed
from emu.mlir.text.lexer import SourceText, render_all
from emu.sdy.passes.base import Session, run_pass

_MARKER = re.compile(r"^// -----[ \t]*$", re.MULTILINE)
_USAGE = 2


def run_opt(
    arguments: list[str], *, stdout: TextIO | None = None, stderr: TextIO | None = None
) -> int:
    """Run the command.

    Args:
        arguments: The command line after ``emu sdy opt``.
        stdout: Stream for modules. Default: standard output.
        stderr: Stream for diagnostics. Default: standard error.

    Returns:
        0 on success, 1 if a module, a pass or an expected diagnostic failed, 2 for an
        invalid command line or an unreadable file.
    """
    out: TextIO = stdout or sys.stdout
    err: TextIO = stderr or sys.stderr
    try:
        options = parse_arguments(arguments)
        if options.help or options.list_passes:
            out.write(HELP if options.help else pass_list())
            return 0
        text = read_text(options.file)
        if options.output is None:
            return _run(text, options, out, err)
        with open_to_write(options.output) as file:
            return _run(text, options, file, err)
    except MlirError as error:
        err.write(f"{error}\n")
        return 1
    except (UsageError, OSError) as error:
        err.write(f"emu sdy opt: {error}\n")
        return _USAGE


def _run(text: str, options: OptArguments, out: TextIO, err: TextIO) -> int:
    parts = split(text) if options.split_input_file else [text]
    failed = False
    warned: set[str] = set()
    for number, part in enumerate(parts):
        if number:
            out.write("// -----\n")
        failed |= not _run_part(part, options, warned, out, err)
    return int(failed)


def split(text: str) -> list[str]:
    """Return the parts between marker lines, each padded so that its line numbers stay."""
    parts = []
    start = 0
    for end in [*(m.span() for m in _MARKER.finditer(text)), (len(text), 0)]:
        parts.append("\n" * text.count("\n", 0, start) + text[start : end[0]])
        start = end[1]
    return parts


def _run_part(text: str, options: OptArguments, warned: set[str], out: TextIO, err: TextIO) -> bool:
    session = Session(Diagnostics(warned), verify_each=options.verify_each)
    emitted = session.diagnostics.emitted
    fine = True
    try:
        module = parse(
            text,
            file=options.file,
            allow_unregistered=options.allow_unregistered,
            diagnostics=session.diagnostics,
        )
        for each in options.passes:
            run_pass(each, module, session)
    except (MlirError, PassFailed):
        fine = False
    if not options.verify_diagnostics:
        source = SourceText(text, options.file)
        if emitted:
            err.write(f"{render_all(emitted, source)}\n")
    if fine:
        out.write(to_text(module, generic=options.generic, locations=options.locations))
    if options.verify_diagnostics:
        wrong = check_expected(text, emitted)
        err.writelines(f"{options.file}:{line}\n" for line in wrong)
        return not wrong
    return fine and not session.diagnostics.errors

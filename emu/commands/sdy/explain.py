"""``emu sdy explain``: explains the shardings of values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from emu.commands.sdy.files import open_to_write, read_text
from emu.mlir.arguments import ArgumentError
from emu.mlir.diagnostics import MlirError, PassFailed
from emu.mlir.text.lexer import SourceText, render_all
from emu.sdy.costs.analysis import cost
from emu.sdy.costs.data import Cost
from emu.sdy.passes.text import parse_pipeline
from emu.sdy.provenance import Explanation, explain


def run_explain(
    file: str,
    *,
    values: list[str],
    function: str | None = None,
    html: Path | None = None,
    passes: str | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run the command.

    Args:
        file: MLIR text; "-" is standard input.
        values: The values to explain; if empty, print one line per value.
        function: Name of the function of the values. Default: see ``Explanation.value``.
        html: File for the HTML page. Default: no page.
        passes: A pipeline as text. Default: ``sdy-propagation-pipeline``.
        stdout: Stream for explanations. Default: standard output.
        stderr: Stream for diagnostics. Default: standard error.

    Returns:
        0 on success, 1 if the module or a pass failed, 2 for a file that cannot be
        read, or an unknown value or pass.
    """
    out: TextIO = stdout or sys.stdout
    err: TextIO = stderr or sys.stderr
    try:
        if function is not None and not values:
            raise ArgumentError(f"--function {function!r} must come with --value")
        text = read_text(file)
        pipeline = None if passes is None else parse_pipeline(passes)
        explanation = explain(text, pipeline, file=file)
        _write(explanation, values, function, out)
        if html is not None:
            with open_to_write(str(html)) as page:
                page.write(explanation.html(cost=_cost(text, file, passes)))
        source = SourceText(text, file)
        if explanation.diagnostics:
            err.write(f"{render_all(explanation.diagnostics, source)}\n")
    except MlirError as error:
        err.write(f"{error}\n")
        return 1
    except (ArgumentError, OSError) as error:
        err.write(f"emu sdy explain: {error}\n")
        return 2
    return 0 if explanation.failure is None else 1


def _cost(text: str, file: str, passes: str | None) -> Cost | str | None:
    """Return the cost for the page, or why there is none; nothing where only some passes were asked for."""
    if passes is not None:
        return None
    try:
        return cost(text, file=file)
    except (MlirError, PassFailed, ArgumentError) as error:
        return f"The cost is not known, since the module cannot be partitioned: {error}"


def _write(
    explanation: Explanation, values: list[str], function: str | None, stdout: TextIO
) -> None:
    if not values:
        stdout.write(str(explanation))
    for name in values:
        stdout.writelines(f"{report}\n" for report in explanation.value(name, function))

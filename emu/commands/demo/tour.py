"""The tour: the stops one after another with a progress bar, then a table of what they gave."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from emu.commands.demo.ahead import compiling_ahead
from emu.commands.demo.result import Result

if TYPE_CHECKING:
    from rich.console import Console

Stop = tuple[str, Callable[[], Result]]

TRY_NEXT = (
    (
        "emu run -n 4 script.py",
        "your own script: Triton, PyPTO, torch for cuda or npu, emu.world()",
    ),
    ("emu sdy explain program.mlir", "why each value of a sharded program is sharded as it is"),
    ("emu doctor --warm", "what this machine offers; compiles every kernel ahead"),
)


def stops(n_pes: int) -> list[Stop]:
    """Return the stops of the tour in their order, each under the name of its system.

    Args:
        n_pes: Number of PEs of the programs that run on several.
    """
    # Each system is imported by its own stop, so that the progress bar stands before anything heavy loads.
    from emu.commands.demo import programs

    return [
        ("Triton", programs.vector_add),
        ("Triton", programs.softmax),
        ("PyPTO", partial(programs.allgather_matmul, n_pes)),
        ("PyPTO", partial(programs.matmul_allreduce_rmsnorm, n_pes)),
        ("MC2", partial(programs.fused_over_a_link, n_pes)),
        ("torch_npu", programs.quant_scatter),
        ("Shardy", programs.sharded_layers),
        ("machine", programs.deadlock),
    ]


def stops_of_file(path: Path, n_pes: int) -> tuple[list[Stop], list[str]]:
    """Return the PyPTO programs on the matrices of a file, and notes on what was cut off or padded.

    Raises:
        WeightFileError: The file is broken, or has no matrix to use.
    """
    from emu.commands.demo import programs, pypto

    cases, notes = pypto.cases_of_file(path, n_pes)
    return [("PyPTO", partial(programs.pypto_case, case)) for case in cases], notes


def run_demo(n_pes: int, file: Path | None = None, console: Console | None = None) -> int:
    """Run the tour and print a table.

    Args:
        n_pes: Number of PEs of the programs that run on several.
        file: Run the PyPTO programs only, on the weights in this file. Default: the whole tour.
        console: Where to print. Default: standard output.

    Returns:
        1 if a result is not what it is checked against, else 0.

    Raises:
        WeightFileError: The file is broken, or has no matrix to use.
        ExceptionGroup: A PE failed.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = console or Console(highlight=False)
    chosen, notes = (stops(n_pes), []) if file is None else stops_of_file(file, n_pes)
    for note in notes:
        console.print(note, markup=False)
    results = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Progress(*columns, console=console, transient=True)
    with compiling_ahead() if file is None else contextlib.nullcontext(), bar as progress:
        task = progress.add_task("", total=len(chosen))
        for system, stop in chosen:
            progress.update(task, description=system)
            results.append(stop())
            progress.update(task, advance=1)
    _print(results, console)
    if file is None:
        console.print("\nTry next:")
        width = max(len(command) for command, _ in TRY_NEXT)
        for command, purpose in TRY_NEXT:
            console.print(f"  [bold]{command:{width}}[/]  {purpose}")
    return 0 if all(result.passed for result in results) else 1


_LEGEND = (
    "max error: largest difference from what the result is checked against, relative to the element or "
    "the mean magnitude, whichever is larger; in brackets, what is allowed. time: of one call, warm; on "
    "several PEs that of the slowest."
)
_WIDE = 120
"""Columns that the whole table needs; a narrower terminal gets what ran in a line of its own."""


def _print(results: list[Result], console: Console) -> None:
    from rich.table import Table

    wide = console.width >= _WIDE
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("system", no_wrap=True)
    if wide:
        table.add_column("what ran", overflow="fold")
    table.add_column("PEs", justify="right", no_wrap=True)
    table.add_column("checked against")
    table.add_column("max error", no_wrap=True)
    table.add_column("time")
    table.add_column("", no_wrap=True)
    for result in results:
        table.add_row(
            result.system,
            *([result.what] if wide else []),
            str(result.n_pes),
            result.reference,
            result.error_text,
            result.time_text,
            "[green]ok[/]" if result.passed else "[red]WRONG[/]",
        )
    if not wide:
        for result in results:
            console.print(f"{result.system:9}  {result.what}", markup=False, soft_wrap=True)
        console.print()
    console.print(table)
    console.print(_LEGEND)
    for result in results:
        if result.report:
            console.print(f"\n{result.report_title}:", markup=False)
            for line in result.report.splitlines():
                console.print(f"  {line}", markup=False, soft_wrap=True)

"""Write what several runs of compare.py measured as one table in Markdown, a column for each CPU and day.

    python asv_benchmarks/columns.py FILE... [--only PATTERN] [--goals]

Each FILE was written by ``compare.py --json``. A cell is the ratio, larger is better for emu, bold where
the row misses its goal; where a row has no peer, its value. Of two runs for one CPU on one day the later file counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="One table of several runs of compare.py.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="what compare.py --json wrote")
    parser.add_argument("--only", metavar="PATTERN", help="rows whose name matches (glob or regex)")
    parser.add_argument("--goals", action="store_true", help="leave out rows that have no goal")
    options = parser.parse_args(arguments)
    columns: dict[str, dict[tuple[str, str], Row]] = {}
    for file in options.files:
        try:
            rows = json.loads(Path(file).read_text("utf-8"))
        except (OSError, ValueError) as error:
            sys.stderr.write(f"{file} must be what compare.py --json wrote, but: {error}\n")
            return 2
        for row in rows:
            head = f"{row.get('cpu', 'unknown')}, {row.get('date', 'no date')}"
            columns.setdefault(head, {})[row["name"], row["peer"]] = row
    sys.stdout.writelines(f"{line}\n" for line in table(columns, options.only, options.goals))
    return 0


def table(
    columns: dict[str, dict[tuple[str, str], Row]], only: str | None, goals: bool
) -> list[str]:
    """Return the lines of the table.

    Args:
        columns: Rows by name and peer, by what stands above them.
        only: Rows whose name matches; ``None``: all.
        goals: Leave out rows that have no goal.
    """
    from compare import chosen

    rows = {key: row for column in columns.values() for key, row in column.items()}
    head = ("row", "peer", "goal", *columns)
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for key, row in rows.items():
        if chosen(key[0], only) and (row["goal"] or not goals):
            cells = [_cell(column.get(key)) for column in columns.values()]
            lines.append(f"| {' | '.join((*key, row['goal'], *cells))} |")
    return lines


def _cell(row: Row | None) -> str:
    if row is None or row["ours"] is None:
        return "-"
    text = f"{row['ours']:.3g} {row['unit']}" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return f"**{text}**" if row["met"] is False else text


if __name__ == "__main__":
    sys.exit(main())

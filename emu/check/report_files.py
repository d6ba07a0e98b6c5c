"""Reports as files: JSON for programs, and one self-contained page for people."""

from __future__ import annotations

import html
import json
import linecache
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emu.check.reports import Access, Race, Report, as_dictionary
from emu.comm.deadlock.report import Deadlock, WaitingPE

Found = Report | Deadlock
"""What a file can have."""

_AROUND = 3
"""Lines of source that are shown before and behind an access."""

_MOST_PLACES = 16
"""PEs of a deadlock whose lines are shown."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin: 0 0 .6rem }
section { border: 1px solid #ccc; border-radius: 8px; padding: 1rem 1.2rem; margin: 1.2rem 0 }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem }
@media (max-width: 50rem) { .sides { grid-template-columns: 1fr } }
pre { background: #f6f6f4; border-radius: 6px; padding: .6rem; overflow-x: auto; font: 13px/1.45 ui-monospace, monospace; margin: .3rem 0 }
mark { background: #ffe08a; display: block } .where { font-size: .9rem; color: #555; overflow-wrap: anywhere }
dt { font-weight: 600 } dd { margin: 0 0 .5rem }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1b1b1b } pre { background: #262626 } mark { background: #6b5200; color: #fff }
section { border-color: #444 } .where { color: #aaa } }
.graph { overflow-x: auto; background: #fff; border-radius: 6px } .graph svg { max-width: 100%; height: auto }
"""


def write_reports(path: Path, reports: Sequence[Found]) -> None:
    """Write reports to a file.

    Args:
        path: The file; a name that ends in ``.html`` or ``.htm`` gets a page, any other JSON.
        reports: What was found, deadlocks included; none of them is a valid report, too. Of those that are the
            same (``pair``) the first one is written.

    Raises:
        OSError: The file cannot be written.
    """
    distinct: dict[object, Found] = {}
    for report in reports:
        distinct.setdefault(report.pair, report)
    reports = tuple(distinct.values())
    if path.suffix.lower() in (".html", ".htm"):
        path.write_text(as_page(reports), encoding="utf-8")
    else:
        data = {"reports": [_as_data(r) | {"text": r.text} for r in reports]}
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _as_data(report: Found) -> dict[str, Any]:
    return report.to_dictionary() if isinstance(report, Deadlock) else as_dictionary(report)


def as_page(reports: Sequence[Found]) -> str:
    """Return a page of HTML that needs nothing else."""
    count = len(reports)
    title = f"{count} problem{'s' * (count != 1)} found" if count else "Nothing found"
    parts = "\n".join(_section(report) for report in reports)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>emu: {title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n{parts}\n</body></html>\n"
    )


def _section(report: Found) -> str:
    if isinstance(report, Deadlock):
        return _deadlock(report)
    if not isinstance(report, Race):
        return f"<section><pre>{html.escape(report.text)}</pre></section>"
    facts = {"Memory": f"{report.array}, {report.elements}, of PE {report.heap}"}
    facts |= {"Why they have no order": report.reason, "What would order them": report.advice}
    rows = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in facts.items())
    sides = "".join(_side(access) for access in (report.first, report.second))
    head = html.escape(report.text.splitlines()[0])
    return f'<section><h2>{head}</h2><div class="sides">{sides}</div><dl>{rows}</dl></section>'


def _side(access: Access) -> str:
    what = f"PE {access.pe}: {access.operation}, {access.verb}"
    return _place(what, f"{access.file}:{access.line}", access.file, access.line)


def _place(what: str, where: str, file: str, at: int) -> str:
    """Return a line of the program with those around it."""
    lines = []
    for number in range(max(1, at - _AROUND), at + _AROUND + 1):
        text = linecache.getline(file, number).rstrip("\n")
        line = html.escape(f"{number:5d}  {text}")
        lines.append(f"<mark>{line}</mark>" if number == at else f"{line}\n")
    source = f"<pre>{''.join(lines)}</pre>" if linecache.getline(file, at) else ""
    head = f'<strong>{html.escape(what)}</strong><div class="where">{html.escape(where)}</div>'
    return f"<div>{head}{source}</div>"


def _deadlock(found: Deadlock) -> str:
    """Return the section of a deadlock: causes, the graph, and the lines at which PEs wait."""
    head = html.escape(found.text.splitlines()[0])
    rows = "".join(
        f"<dt>{html.escape(cause.kind.value)}</dt><dd>{html.escape(cause.text)}<br>"
        f"<em>{html.escape(cause.advice)}</em></dd>"
        for cause in found.causes
    )
    if found.cycle:
        around = " → ".join(f"PE {pe}" for pe in (*found.cycle, found.cycle[0]))
        rows += f"<dt>Each waits for the next</dt><dd>{around}</dd>"
    if found.missing:
        missing = ", ".join(f"PE {pe}" for pe in found.missing)
        rows += f"<dt>Missing, since they have ended</dt><dd>{missing}</dd>"
    places = "".join(_waiting(each) for each in found.waiting[:_MOST_PLACES])
    return (
        f'<section><h2>{head}</h2><dl>{rows}</dl><div class="graph">{found.to_svg()}</div>'
        f'<div class="sides">{places}</div><pre>{html.escape(found.states)}</pre></section>'
    )


def _waiting(each: WaitingPE) -> str:
    file, _, line = each.at.rpartition(":")
    number = int(line) if line.isdecimal() else 0
    return _place(f"PE {each.pe} waits in {each.what}", each.at, file, number)

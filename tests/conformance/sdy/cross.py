"""Every pass on every piece of every lit file of a Shardy checkout, beside jaxlib's.

    python tests/conformance/sdy/cross.py --shardy PATH [--python PY]
        [--pass TEXT] [--only TEXT] [--keep DIR] [-v]

A piece is what stands between two lines ``// -----`` of a file (or between
``//--- name`` lines), whatever the file's own commands say. Both sides run
each pass on it, once with its defaults and once with each option set
otherwise. They agree if the printed modules are the same, byte for byte, and
the same diagnostics were emitted: severity, text and notes. The table at the
end says N of M for each pass; what jaxlib aborts on is not counted in M.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from sdy_comparison import CRASHED, difference, ours
from sdy_oracle import Oracle

from emu.sdy.passes.text import known_passes

ROOT = "shardy/dialect/sdy"
NOT_PASSES_OF_SHARDY = {"strip-debuginfo"}
_MARKER = re.compile(r"^// ?---.*\n", re.MULTILINE)


def pieces(root: Path, only: str) -> Iterator[tuple[str, str]]:
    """The pieces of all files below a folder, each with its name."""
    for path in sorted(root.rglob("*.mlir")):
        name = str(path.relative_to(root))
        if only in name:
            for number, text in enumerate(_MARKER.split(path.read_text(encoding="utf-8"))):
                if text.strip():
                    yield f"{name}#{number}", text


def pipelines(only: str) -> Iterator[str]:
    """Each pass as the text of a pipeline: plain, and with each option set otherwise.

    The first is no pass at all: parsing, verifying and printing.
    """
    yield ""
    for name, kind in sorted(known_passes().items()):
        if only not in name or name in NOT_PASSES_OF_SHARDY:
            continue
        for options in ("", *_options(kind)):
            text = name + (f"{{{options}}}" if options else "")
            yield f"func.func({text})" if kind.anchor == "func.func" else text


def _options(kind: type[object]) -> Iterator[str]:
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # passes are dataclasses
        option = field.name.replace("_", "-")
        if isinstance(field.default, bool):
            yield f"{option}={str(not field.default).lower()}"
        elif isinstance(field.default, Enum):
            others = (m for m in type(field.default) if m is not field.default)
            yield from (f"{option}={other.value}" for other in others)


def main() -> int:
    """Compare, print differences, and the table."""
    parser = argparse.ArgumentParser(prog="cross", description=__doc__)
    parser.add_argument("--shardy", type=Path, help="a checkout of Shardy")
    parser.add_argument("--folder", type=Path, help="instead of that: any folder with MLIR files")
    parser.add_argument("--pipeline", action="append", help="instead of each pass")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with jaxlib")
    parser.add_argument(
        "--pass", default="", dest="only_pass", metavar="TEXT", help="passes whose names hold TEXT"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose paths hold TEXT")
    parser.add_argument("--locations", action="store_true", help="print locations on both sides")
    parser.add_argument(
        "--generic", action="store_true", help="print the generic form on both sides"
    )
    parser.add_argument("-v", action="store_true", help="print all of each difference")
    options = parser.parse_args()
    form = {"locations": options.locations, "generic": options.generic}
    if (options.shardy is None) == (options.folder is None):
        parser.error("one of --shardy and --folder is needed")
    texts = list(pieces(options.folder or options.shardy / ROOT, options.only))
    agreed: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    start = time.perf_counter()
    with Oracle(options.python) as oracle:
        for pipeline in options.pipeline or pipelines(options.only_pass):
            refusal = oracle.ask("", pipeline).text
            if "failed to add `" in refusal:  # jaxlib does not offer this option
                sys.stdout.write(f"{refusal.rstrip()}\n\n")
                continue
            for name, text in texts:
                theirs = oracle.ask(text, pipeline, **form)
                mine = ours(text, pipeline, **form)
                if theirs.aborted:
                    if mine.text.startswith(CRASHED):
                        sys.stdout.write(f"{name}, {pipeline}\n{mine.text}, theirs aborted\n\n")
                    continue
                compared[pipeline] += 1
                lines = difference(mine, theirs)
                agreed[pipeline] += not lines
                if lines:
                    shown = "\n".join(lines if options.v else lines[:8])
                    sys.stdout.write(f"{name}, {pipeline}\n{shown}\n\n")
                    sys.stdout.flush()
    for pipeline, count in compared.items():
        sys.stdout.write(f"{agreed[pipeline]:5} of {count:5}  {pipeline or 'no pass'}\n")
    took = time.perf_counter() - start
    sys.stdout.write(f"{agreed.total():5} of {compared.total():5}  in all, in {took:.0f} s\n")
    return int(agreed != compared)


if __name__ == "__main__":
    sys.exit(main())

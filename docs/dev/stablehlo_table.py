"""Write the tables of docs/stablehlo.md from the code.

    python docs/dev/stablehlo_table.py [--check]

The page keeps its text; what stands between its markers is replaced. With ``--check`` nothing is written,
and the script fails where the page differs from the code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import emu.sdy
import emu.stablehlo.compiled.families  # noqa: F401  # registers the steps
from emu.stablehlo.compiled import collectives, forms, units, views
from emu.stablehlo.compiled.fusion import operations, values
from emu.stablehlo.dialect import SPECS
from emu.stablehlo.reference.scope import HANDLERS

PAGE = Path(__file__).resolve().parents[1] / "stablehlo.md"
OUTSIDE = (
    *("broadcast", "create_token", "cross-replica-sum", "dot", "einsum", "real_dynamic_slice"),
    *("return", "set_dimension_size", "torch_index_select", "unary_einsum"),
)
"""Operations of the dialect that have no chapter in the specification."""

NOTES = {
    "async_start": "computed at once",
    "custom_call": "registered, given, or built in: see below",
    "dynamic_broadcast_in_dim": "the result's type must be static",
    "dynamic_conv": "the result's type must be static",
    "dynamic_gather": "the result's type must be static",
    "dynamic_iota": "the result's type must be static",
    "dynamic_pad": "the result's type must be static",
    "dynamic_reshape": "the result's type must be static",
    "infeed": "takes entries of a queue: see below",
    "outfeed": "puts entries into a list: see below",
    "real_dynamic_slice": "the result's type must be static",
    "recv": "from the host's channels, or from the source of a pair",
    "return": "ends a region",
    "rng": "numbers of NumPy's generator, the same in each run",
    "rng_bit_generator": "Threefry and Philox, bit for bit as XLA",
    "send": "to the host's channels, or to the target of a pair",
    "set_dimension_size": "only the size that the dimension has",
    "uniform_dequantize": "per tensor and per dimension",
    "uniform_quantize": "per tensor and per dimension",
}


def compiled(name: str) -> str:
    """Return how the compiled path computes an operation."""
    ways = [
        ("fused", name in operations.EMITTERS or name in values.FREE or name == "stablehlo.reduce"),
        ("in place", name in views._VIEWS),  # the page is made from the code as it is
        ("step", name in forms.PLANS),
        ("collective", name in collectives.COLLECTIVES),
        ("control flow", name in units.CONTROL or name == "stablehlo.composite"),
        ("with its operation", name == "stablehlo.return"),
    ]
    return ", ".join(way for way, holds in ways if holds) or "by the reference"


def rows(dialect: str) -> list[str]:
    """Return the rows of a dialect's table."""
    names = sorted(name for name in SPECS if name.startswith(f"{dialect}."))
    found = []
    for name in names:
        short = name.removeprefix(f"{dialect}.")
        is_evaluated = name in HANDLERS or name == "stablehlo.return"
        specified = "" if dialect == "chlo" else "no" if short in OUTSIDE else "yes"
        cells = [
            f"`{short}`",
            *([specified] if dialect == "stablehlo" else []),
            "yes",
            "yes" if is_evaluated else "no",
            compiled(name) if is_evaluated else "no",
            NOTES.get(short, "") if dialect == "stablehlo" else "",
        ]
        found.append("| " + " | ".join(cells).rstrip() + " |")
    return found


def table(dialect: str) -> str:
    """Return the table of a dialect, between its markers."""
    heads = ["operation", *(["specified"] if dialect == "stablehlo" else [])]
    heads += ["read and verified", "evaluated", "compiled", "remark"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *rows(dialect)]
    return f"<!-- {dialect} -->\n" + "\n".join(lines) + "\n<!-- end -->"


def page(text: str) -> str:
    """Return the page with its tables made anew."""
    for dialect in ("stablehlo", "chlo"):
        pattern = re.compile(rf"<!-- {dialect} -->.*?<!-- end -->", re.DOTALL)
        made = table(dialect)
        text = pattern.sub(lambda _, made=made: made, text)
    return text


def main() -> int:
    """Write the page, or compare it."""
    text = PAGE.read_text(encoding="utf-8")
    made = page(text)
    if "--check" in sys.argv:
        if made != text:
            sys.stderr.write("docs/stablehlo.md differs: python docs/dev/stablehlo_table.py\n")
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

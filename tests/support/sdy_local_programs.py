"""Programs for tests of the conversion to local shapes."""

from __future__ import annotations

import pytest

import emu.sdy
from emu.mlir import parse

CONVERT = "sdy-convert-global-to-local"


HEAD = 'sdy.mesh @grid = <["r"=2, "c"=2]>\n'


def arg(name: str, type_: str, dims: str = "") -> str:
    sharding = f" {{sdy.sharding = #sdy.sharding<@grid, [{dims}]>}}" if dims else ""
    return f"{name}: {type_}{sharding}"


def program(arguments: str, body: str) -> str:
    return f"{HEAD}func.func @main({arguments}) {{\n{body}\n  return\n}}\n"


ROWS = '{"r"}, {}'


def on(*dims: str) -> str:
    shardings = ", ".join(f"<@grid, [{each}]>" for each in dims)
    return f"{{sdy.sharding = #sdy.sharding_per_value<[{shardings}]>}}"


def refusal(arguments: str, body: str, options: str = "") -> str:
    module = parse(program(arguments, body))
    with pytest.raises(emu.sdy.PassFailed) as caught:
        emu.sdy.run_passes(module, CONVERT + options)
    return str(caught.value)


COLUMNS = '{}, {"c"}'


CUT = arg("%a", "tensor<4x4xf32>", ROWS)

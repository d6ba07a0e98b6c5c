"""From global to local shapes: what is refused, what is warned of, and devices."""

from __future__ import annotations

import pytest
from sdy_local_programs import COLUMNS, CONVERT, CUT, ROWS, arg, on, program, refusal

import emu.sdy
from emu.mlir import parse

ON_ROWS, ON_COLUMNS, ON_NONE = on(ROWS), on(COLUMNS), on("{}, {}")


ON_OTHER_ROWS, ON_VECTOR = on('{"c"}, {}'), on('{"r"}')


ON_COLUMNS_BY_ROW = on('{}, {"r"}')


REFUSED = {
    "a reshard": (
        CUT,
        f"  %0 = sdy.reshard %a <@grid, [{COLUMNS}]> : tensor<4x4xf32>",
        "failed to legalize operation 'sdy.reshard' that was explicitly marked illegal",
    ),
    "another dialect": (
        CUT,
        f"  %0 = chlo.erf %a {ON_ROWS} : tensor<4x4xf32> -> tensor<4x4xf32>",
        "failed to legalize operation 'chlo.erf'",
    ),
    "a slice of what is cut": (
        CUT,
        f"  %0 = stablehlo.slice %a [0:2, 0:4] {ON_ROWS} : (tensor<4x4xf32>) -> tensor<2x4xf32>",
        "dimension 0 is sharded but the slice is not a full slice and requires device",
    ),
    "a slice to other axes": (
        CUT,
        f"  %0 = stablehlo.slice %a [0:4, 0:2] {ON_COLUMNS} : (tensor<4x4xf32>) -> tensor<4x2xf32>",
        'dimension 0 has mismatched sharding axes (["r"] vs []). This requires a reshard',
    ),
    "a sum without a reduction": (
        CUT + ", " + arg("%b", "tensor<4xf32>", '{"r"}'),
        "  %0 = stablehlo.dot %b, %a : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4xf32>",
        "Expected sharded contracting dot to have one user and the user is an sdy.all_reduce.",
    ),
    "a sum with another reduction": (
        CUT + ", " + arg("%b", "tensor<4xf32>", '{"r"}'),
        (
            "  %0 = stablehlo.dot %b, %a : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4xf32>\n"
            '  %1 = sdy.all_reduce {"c"} %0 out_sharding=<@grid, [{}]> : tensor<4xf32>'
        ),
        "The axes of the sdy.all_reduce should match the sharded contracting dimension of the dot",
    ),
    "a sum of ones": (
        arg("%a", "tensor<3x4xf32>", '{}, {"r"}') + ", " + arg("%b", "tensor<4xf32>", '{"r"}'),
        (
            "  %p = stablehlo.constant dense<1.0> : tensor<f32>\n"
            "  %0 = stablehlo.pad %a, %p, low = [0, 0], high = [1, 0], interior = [0, 0] "
            f"{ON_COLUMNS_BY_ROW} : (tensor<3x4xf32>, tensor<f32>) -> tensor<4x4xf32>\n"
            "  %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] "
            ": (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
            '  %2 = sdy.all_reduce {"r"} %1 out_sharding=<@grid, [{}]> : tensor<4xf32>'
        ),
        "Padding value must be zero for sharded contracting dot_general.",
    ),
    "uneven shards": (
        arg("%a", "tensor<5xf32>", '{"r"}'),
        "",
        "Failed to compute local type due to non-divisible sharding: tensor<5xf32>",
    ),
    "joining what is cut there": (
        CUT,
        (
            f"  %0 = stablehlo.concatenate %a, %a, dim = 0 {ON_NONE} "
            ": (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>"
        ),
        "operand 0 is sharded on concatenation dimension 0. This is not supported.",
    ),
    "joining to what is cut there": (
        arg("%a", "tensor<4x4xf32>"),
        (
            f"  %0 = stablehlo.concatenate %a, %a, dim = 0 {ON_ROWS} "
            ": (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>"
        ),
        "dimension 0 is sharded but the concatenation is on this dimension.",
    ),
    "joining with other axes": (
        CUT,
        (
            f"  %0 = stablehlo.concatenate %a, %a, dim = 1 {ON_OTHER_ROWS} "
            ": (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>"
        ),
        'dimension 0 has mismatched sharding axes (["r"] vs ["c"]).',
    ),
    "padding from one to all": (
        arg("%a", "tensor<4xf32>") + ", %p: tensor<f32>",
        (
            "  %0 = stablehlo.pad %a, %p, low = [0], high = [4], interior = [0] "
            f"{ON_VECTOR} : (tensor<4xf32>, tensor<f32>) -> tensor<8xf32>"
        ),
        "the operand is replicated but the result is sharded",
    ),
    "windows over what is cut": (
        CUT + ", %i: tensor<f32>",
        (
            '  %0 = "stablehlo.reduce_window"(%a, %i) <{window_dimensions = array<i64: 2, 1>}> ({\n'
            "  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
            "    stablehlo.return %x : tensor<f32>\n"
            f"  }}) {ON_NONE} : (tensor<4x4xf32>, tensor<f32>) -> tensor<3x4xf32>"
        ),
        "In op stablehlo.reduce_window dimension 0 is sharded but is not a pass-through",
    ),
    "slices of a gather": (
        CUT + ", %i: tensor<1xi64>",
        (
            '  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<'
            "offset_dims = [0, 1], start_index_map = [0]>, slice_sizes = array<i64: 2, 4>}> "
            ": (tensor<4x4xf32>, tensor<1xi64>) -> tensor<2x4xf32>"
        ),
        "dimension 0 of the operand is sharded, but slices have 2 of its 4 elements",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    arguments, body, message = REFUSED[name]
    assert message in refusal(arguments, body)


def test_sub_axes_are_warned_of_once() -> None:
    body = "\n".join(
        f'  %{i} = sdy.all_slice [{{"r":(1)2}}] %a out_sharding=<@line, [{{"r":(1)2}}]> '
        ": tensor<8xf32>"
        for i in range(2)
    )
    text = program("%a: tensor<8xf32>", body) + 'sdy.mesh @line = <["r"=4]>'
    emitted = emu.sdy.run_passes(parse(text), CONVERT + "{fix-sub-axis-offsets=false}")
    assert [("fix-sub-axis-offsets" in each.message) for each in emitted] == [True]
    assert not emu.sdy.run_passes(parse(text), CONVERT)


def test_a_missing_reshard_is_warned_of() -> None:
    text = program(
        "%a: tensor<4xf32>",
        '  %0 = sdy.manual_computation(%a) in_shardings=[<@grid, [{"r"}]>] '
        'out_shardings=[<@grid, [{"r"}]>] manual_axes={"r"} (%m: tensor<2xf32>) {\n'
        "    %1 = stablehlo.negate %m : tensor<2xf32>\n"
        "    sdy.return %1 : tensor<2xf32>\n"
        "  } : (tensor<4xf32>) -> tensor<4xf32>",
    )
    (emitted,) = emu.sdy.run_passes(parse(text), CONVERT)
    assert "a reshard is missing" in emitted.message


def test_shards_of_random_bits_are_not_all_the_same() -> None:
    text = program(
        "%s: tensor<2xui64>",
        "  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT "
        '{sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>, <@grid, [{"r"}]>]>} '
        ": (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)",
    )
    module = parse(text)
    assert not emu.sdy.run_passes(module, CONVERT)
    (bits,) = [op for op in module.walk() if op.name == "stablehlo.rng_bit_generator"]
    assert str(bits.results[1].type) == "tensor<8xui32>"
    (emitted,) = emu.sdy.run_passes(parse(text), CONVERT + "{fix-wrong-results=false}")
    assert "each device makes the same random bits" in emitted.message

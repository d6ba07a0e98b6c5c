"""From global to local shapes: what is refused, what is warned of, and devices."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import emu.sdy
from emu.mlir import parse
from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.dense import element_values
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.floats import FORMATS, value_of
from emu.mlir.types import ComplexType, FloatType, IntegerType
from emu.sdy.dialect.attributes import AxisRef, Mesh, MeshAxis, SubAxisInfo
from emu.sdy.passes.export.local.identities import identity
from emu.sdy.passes.export.local.localization import Localization, Options

CONVERT = "sdy-convert-global-to-local"
HEAD = 'sdy.mesh @grid = <["r"=2, "c"=2]>\n'


def arg(name: str, type_: str, dims: str = "") -> str:
    sharding = f" {{sdy.sharding = #sdy.sharding<@grid, [{dims}]>}}" if dims else ""
    return f"{name}: {type_}{sharding}"


def on(*dims: str) -> str:
    shardings = ", ".join(f"<@grid, [{each}]>" for each in dims)
    return f"{{sdy.sharding = #sdy.sharding_per_value<[{shardings}]>}}"


def program(arguments: str, body: str) -> str:
    return f"{HEAD}func.func @main({arguments}) {{\n{body}\n  return\n}}\n"


def refusal(arguments: str, body: str, options: str = "") -> str:
    module = parse(program(arguments, body))
    with pytest.raises(emu.sdy.PassFailed) as caught:
        emu.sdy.run(module, CONVERT + options)
    return str(caught.value)


ROWS = '{"r"}, {}'
COLUMNS = '{}, {"c"}'
CUT = arg("%a", "tensor<4x4xf32>", ROWS)
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


def scatter(inserted: str, indexed: str, body: str, updates: str) -> str:
    return (
        '  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = '
        f"#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [{inserted}], "
        f"scatter_dims_to_operand_dims = [{indexed}], index_vector_dim = 1>}}> ({{\n"
        f"  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n{body}\n  }}) {ON_NONE} "
        f": (tensor<4x4xf32>, tensor<2x1xi64>, {updates}) -> tensor<4x4xf32>"
    )


def test_scatter_needs_a_reduction() -> None:
    updates = "tensor<2x4xf32>"
    arguments = f"%a: tensor<4x4xf32>, %i: tensor<2x1xi64>, {arg('%u', updates, ROWS)}"
    said = refusal(arguments, scatter("0", "0", "    stablehlo.return %y : tensor<f32>", updates))
    assert "failed to get scatter reduction identity." in said


def test_scatter_beside_a_window() -> None:
    updates = "tensor<2x4xf32>"
    arguments = f"{CUT}, %i: tensor<2x1xi64>, %u: {updates}"
    said = refusal(arguments, scatter("0", "1", "    stablehlo.return %y : tensor<f32>", updates))
    assert "sharding operand dimension 0 that is not indexed but in inserted window" in said


def test_sub_axes_are_warned_of_once() -> None:
    body = "\n".join(
        f'  %{i} = sdy.all_slice [{{"r":(1)2}}] %a out_sharding=<@line, [{{"r":(1)2}}]> '
        ": tensor<8xf32>"
        for i in range(2)
    )
    text = program("%a: tensor<8xf32>", body) + 'sdy.mesh @line = <["r"=4]>'
    emitted = emu.sdy.run(parse(text), CONVERT + "{fix-sub-axis-offsets=false}")
    assert [("fix-sub-axis-offsets" in each.message) for each in emitted] == [True]
    assert not emu.sdy.run(parse(text), CONVERT)


def test_a_missing_reshard_is_warned_of() -> None:
    text = program(
        "%a: tensor<4xf32>",
        '  %0 = sdy.manual_computation(%a) in_shardings=[<@grid, [{"r"}]>] '
        'out_shardings=[<@grid, [{"r"}]>] manual_axes={"r"} (%m: tensor<2xf32>) {\n'
        "    %1 = stablehlo.negate %m : tensor<2xf32>\n"
        "    sdy.return %1 : tensor<2xf32>\n"
        "  } : (tensor<4xf32>) -> tensor<4xf32>",
    )
    (emitted,) = emu.sdy.run(parse(text), CONVERT)
    assert "a reshard is missing" in emitted.message


@pytest.mark.parametrize(
    ("by", "start", "message"),
    [
        ("maximum", "0.0", "partial results of stablehlo.reduce by stablehlo.maximum are added"),
        ("add", "1.5", "each partial sum starts from dense<1.500000e+00>"),
        ("add", "-0.0", ""),
    ],
)
def test_sums_that_are_none_are_warned_of(by: str, start: str, message: str) -> None:
    text = program(
        CUT,
        f"  %s = sdy.constant dense<{start}> : tensor<f32>\n"
        f"  %0 = stablehlo.reduce(%a init: %s) applies stablehlo.{by} across dimensions = [0, 1] "
        ": (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>\n"
        '  %1 = sdy.all_reduce {"r"} %0 out_sharding=<@grid, []> : tensor<f32>',
    )
    asked = CONVERT + "{fix-wrong-results=false}"
    emitted = [each.message for each in emu.sdy.run(parse(text), asked)]
    assert [message in each for each in emitted] == ([True] if message else [])


@pytest.mark.parametrize("by", ["maximum", "minimum", "multiply", "and", "or", "xor"])
def test_partial_results_are_combined_as_the_reduction_does(by: str) -> None:
    element = "i32" if by in {"and", "or", "xor"} else "f32"
    text = program(
        arg("%a", f"tensor<4x4x{element}>", ROWS) + f", %s: tensor<{element}>",
        f"  %0 = stablehlo.reduce(%a init: %s) applies stablehlo.{by} across dimensions = [0, 1] "
        f": (tensor<4x4x{element}>, tensor<{element}>) -> tensor<{element}>\n"
        f'  %1 = sdy.all_reduce {{"r"}} %0 out_sharding=<@grid, []> : tensor<{element}>',
    )
    module = parse(text)
    assert not emu.sdy.run(module, CONVERT)
    (combining,) = [op for op in module.walk() if op.name == "stablehlo.all_reduce"]
    assert [op.name for op in combining.body()] == [f"stablehlo.{by}", "stablehlo.return"]


LARGEST = """\
  %i = stablehlo.iota dim = 0 : tensor<4xi32>
  %j = sdy.all_slice [{"r"}] %i out_sharding=<@grid, [{"r"}]> : tensor<4xi32>
  %0:2 = stablehlo.reduce(%a init: %s), (%j init: %n) across dimensions = [0] : (tensor<4xf32>, \
tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%x: tensor<f32>, %y: tensor<f32>) (%k: tensor<i32>, %l: tensor<i32>)  {
    %2 = stablehlo.compare  GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.select %2, %x, %y : tensor<i1>, tensor<f32>
    %4 = stablehlo.select %2, %k, %l : tensor<i1>, tensor<i32>
    stablehlo.return %3, %4 : tensor<f32>, tensor<i32>
  }
  %5 = sdy.all_reduce {"r"} %0#0 out_sharding=<@grid, []> : tensor<f32>
  %6 = sdy.all_reduce {"r"} %0#1 out_sharding=<@grid, []> : tensor<i32>
"""


def test_results_that_depend_on_each_other_are_reduced_together() -> None:
    """Which element is the greatest: the devices' indices cannot be added up."""
    module = parse(
        program(arg("%a", "tensor<4xf32>", '{"r"}') + ", %s: tensor<f32>, %n: tensor<i32>", LARGEST)
    )
    assert not emu.sdy.run(module, CONVERT)
    names = [op.name for op in module.walk()]
    assert names.count("stablehlo.all_gather") == 2
    assert names.count("stablehlo.reduce") == 2
    assert "stablehlo.all_reduce" not in names
    local, joint = [op for op in module.walk() if op.name == "stablehlo.reduce"]
    assert [str(value.type) for value in joint.operands[:2]] == ["tensor<2xf32>", "tensor<2xi32>"]
    assert [op.name for op in joint.body()] == [op.name for op in local.body()]


def test_shards_of_random_bits_are_not_all_the_same() -> None:
    text = program(
        "%s: tensor<2xui64>",
        "  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT "
        '{sdy.sharding = #sdy.sharding_per_value<[<@grid, [{}]>, <@grid, [{"r"}]>]>} '
        ": (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)",
    )
    module = parse(text)
    assert not emu.sdy.run(module, CONVERT)
    (bits,) = [op for op in module.walk() if op.name == "stablehlo.rng_bit_generator"]
    assert str(bits.results[1].type) == "tensor<8xui32>"
    (emitted,) = emu.sdy.run(parse(text), CONVERT + "{fix-wrong-results=false}")
    assert "each device makes the same random bits" in emitted.message


def slices(sizes: str, dims: str) -> str:
    return program(
        f"{arg('%a', 'tensor<4x8xf32>', dims)}, %i: tensor<i32>",
        f"  %0 = stablehlo.dynamic_slice %a, %i, %i, sizes = [{sizes}] {on(dims)} "
        f": (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<{sizes.replace(', ', 'x')}xf32>",
    )


def test_a_dynamic_slice_takes_the_whole_of_a_dimension_that_is_cut() -> None:
    module = parse(slices("1, 8", COLUMNS))
    assert not emu.sdy.run(module, CONVERT)
    assert "sizes = [1, 4]" in str(module)


def test_a_dynamic_slice_of_a_part_of_a_dimension_that_is_cut_is_refused() -> None:
    with pytest.raises(emu.sdy.PassFailed, match="dimension 1 is sharded but the slice is not"):
        emu.sdy.run(parse(slices("1, 4", COLUMNS)), CONVERT)


def test_a_part_of_a_dimension_that_is_cut_is_updated_as_a_whole() -> None:
    text = program(
        f"{CUT}, %u: tensor<1x4xf32>, %i: tensor<i32>",
        f"  %0 = stablehlo.dynamic_update_slice %a, %u, %i, %i {ON_ROWS} : (tensor<4x4xf32>, "
        "tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>",
    )
    module = parse(text)
    assert not emu.sdy.run(module, CONVERT)
    (update,) = [op for op in module.walk() if op.name == "stablehlo.dynamic_update_slice"]
    assert str(update.result.type) == "tensor<4x4xf32>"
    (emitted,) = emu.sdy.run(parse(text), CONVERT + "{fix-wrong-results=false}")
    assert (
        "each device updates its shard at the place that is meant for the whole" in emitted.message
    )


@st.composite
def meshes_and_axes(draw: st.DrawFn) -> tuple[Mesh, list[AxisRef]]:
    """A mesh, and pieces of its axes of which no two share anything."""
    cuts = draw(st.lists(st.lists(st.integers(2, 3), min_size=1, max_size=3), max_size=3))
    axes = tuple(MeshAxis(f"a{i}", math.prod(sizes)) for i, sizes in enumerate(cuts))
    count = math.prod(axis.size for axis in axes)
    devices = tuple(draw(st.permutations(range(count)))) if axes else ()
    pieces = []
    for i, sizes in enumerate(cuts):
        for place, size in enumerate(sizes):
            sub = SubAxisInfo(math.prod(sizes[:place]), size)
            pieces.append(AxisRef(f"a{i}", sub if len(sizes) > 1 else None))
    return Mesh(axes, devices), draw(st.permutations(pieces))


@given(meshes_and_axes(), st.integers(0, 9))
def test_shards_are_spread_evenly(case: tuple[Mesh, list[AxisRef]], kept: int) -> None:
    mesh, axes = case
    axes = axes[:kept]
    module = parse("")
    state = Localization(module, Options(), Diagnostics())
    indices = state.shard_indices(module, mesh, axes)
    shards = math.prod(axis.size(mesh) for axis in axes)
    assert len(indices) == mesh.total_size
    assert all(indices.count(shard) == mesh.total_size // shards for shard in range(shards))


@given(meshes_and_axes())
def test_devices_of_a_group_have_all_shards_in_order(case: tuple[Mesh, list[AxisRef]]) -> None:
    """What is sliced along axes and gathered along them comes back."""
    mesh, axes = case
    module = parse("")
    state = Localization(module, Options(), Diagnostics())
    indices = state.shard_indices(module, mesh, axes)
    groups, size = state.groups(axes, mesh, mesh)
    assert isinstance(groups, DenseElementsAttr)
    devices = list(element_values(groups))
    if len(devices) == mesh.total_size:
        assert [indices[device] for device in devices] == [*range(size)] * (len(devices) // size)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_least_and_greatest_floats(name: str) -> None:
    """Beyond them in the same direction there is no finite number."""
    if not FORMATS[name].signed:
        return
    width = FORMATS[name].width
    finite = []
    for kind, sign in (("maximum", -1), ("minimum", 1)):
        found = identity(f"stablehlo.{kind}", FloatType(name))
        assert found is not None
        bits = int.from_bytes(found.data, "little")
        value = value_of(bits, name)
        assert isinstance(value, Fraction)
        assert value * sign > 0
        beyond = value_of(bits + 1, name) if (bits + 1) & ((1 << (width - 1)) - 1) else math.inf
        assert not isinstance(beyond, Fraction) or abs(beyond) < abs(value)
        finite.append(value)
    assert finite[0] == -finite[1]


def test_identities() -> None:
    def bits(name: str, element: FloatType | IntegerType | ComplexType) -> int:
        found = identity(f"stablehlo.{name}", element)
        assert found is not None
        return int.from_bytes(found.data, "little")

    assert bits("add", FloatType("f32")) == 0
    assert bits("multiply", FloatType("bf16")) == 0x3F80
    assert bits("multiply", ComplexType(FloatType("f32"))) == 0x3F800000
    assert bits("and", IntegerType(1)) == 1
    assert bits("or", IntegerType(1)) == 0
    assert bits("maximum", IntegerType(8)) == 0x80
    assert bits("minimum", IntegerType(16)) == 0x7FFF
    assert identity("stablehlo.maximum", ComplexType(FloatType("f32"))) is None

"""What is said of wrong texts: the words of Shardy and of MLIR, and the places."""

from __future__ import annotations

import pytest

import emu.sdy.dialect.ops  # noqa: F401  # makes attributes and operations known
from emu.mlir import parse
from emu.mlir.diagnostics import FileLoc, MlirError

DIMS = (
    "failed to parse Sdy_TensorSharding parameter 'dim_shardings' which is to be a "
    "`::llvm::ArrayRef<DimensionShardingAttr>`"
)
SHARDINGS = (
    "failed to parse Sdy_TensorShardingPerValue parameter 'shardings' which is to be a "
    "`::llvm::ArrayRef<TensorShardingAttr>`"
)
NAME = "failed to parse Sdy_AxisRef parameter 'name' which is to be a `::llvm::StringRef`"
AXES = "failed to parse axis list which is expected to be an `ArrayRef<AxisRefAttr>`"
NO_LIST = "failed to parse Sdy_TensorSharding, expected valid named axis list after comma"
MAPPING = (
    "failed to parse Sdy_TensorMapping parameter 'dim_mappings' which is to be a "
    "`::llvm::ArrayRef<DimMappingAttr>`"
)
OPERANDS = (
    "failed to parse Sdy_OpShardingRule parameter 'operand_mappings' which is to be a "
    "`::llvm::ArrayRef<TensorMappingAttr>`"
)
IOTA = (
    "expecting factor indices to be ordered like an iota ([0,1,2,...], e.g. {i=#, j=#, ...}). "
    "Expecting factor index symbol "
)


def said(text: str) -> list[str]:
    with pytest.raises(MlirError) as caught:
        parse(text, verify=False)
    return [each.message for each in caught.value.diagnostics]


def said_of(attribute: str) -> list[str]:
    return said(f'"t.holder"() {{a = {attribute}}} : () -> ()')


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ('<@m, [{"q"}hot]>', ["expecting priority in format 'p<number>', got: hot", DIMS]),
        ('<@m, [{"q"}p]>', ["expecting priority in format 'p<number>', got: p", DIMS]),
        ('<@m, [{"q"}p1a]>', ["expecting priority in format 'p<number>', got: p1a", DIMS]),
        ('<@m, [{"q"}p007]>', ["priorities with leading zeros are not allowed, got: p007", DIMS]),
        (
            '<@m, [{"q"}p9223372036854775808]>',
            ["expecting integer priority, got: p9223372036854775808", DIMS],
        ),
        ('<@m, [{"q" "r"}]>', ["expected ','", DIMS]),
        ('<@m, [{?, "r"}]>', ["expected '}'", DIMS]),
        ("<@m, [{q}]>", ["expected string", NAME, DIMS]),
        (
            "<@m, [], replicated>",
            ["expected '='", "failed to parse Sdy_TensorSharding parameter 'replicated_axes'"],
        ),
        (
            '<@m, [], unreduced=["q"]>',
            ["expected '{'", "failed to parse Sdy_TensorSharding parameter 'unreduced_axes'"],
        ),
        (
            '<@m, [], unreduced=mean{"q"}>',
            ["expected '{'", "failed to parse Sdy_TensorSharding parameter 'unreduced_axes'"],
        ),
        (
            '<@m, [], replicated=max{"q"}>',
            ["expected '{'", "failed to parse Sdy_TensorSharding parameter 'replicated_axes'"],
        ),
        (
            "<@m, [], unreduced={}>",
            [
                "expected string",
                NAME,
                AXES,
                "failed to parse Sdy_TensorSharding parameter 'unreduced_axes'",
            ],
        ),
        ("<@m, [], >", [NO_LIST]),
        ('<@m, [], partial={"q"}>', [NO_LIST]),
        ('<@m, [], replicated={"q"}, replicated={"r"}>', [NO_LIST]),
        (
            "<7, []>",
            [
                "invalid kind of attribute specified",
                "expecting MeshAttr or FlatSymbolRefAttr, got: <<NULL ATTRIBUTE>>",
            ],
        ),
        (
            "<@m::@n, []>",
            [
                "invalid kind of attribute specified",
                "expecting MeshAttr or FlatSymbolRefAttr, got: <<NULL ATTRIBUTE>>",
            ],
        ),
    ],
)
def test_shardings(text: str, messages: list[str]) -> None:
    assert said_of(f"#sdy.sharding{text}") == messages
    assert said_of(f"#sdy.sharding_per_value<[{text}]>") == [*messages, SHARDINGS]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "([h])->([i]) {i=2}",
            ["expecting symbol from 'i' to 'z'. Received: 'h'", MAPPING, OPERANDS],
        ),
        (
            "([i_4])->([i]) {i=2}",
            ["expecting symbol from 'i' to 'z'. Received: '_'", MAPPING, OPERANDS],
        ),
        (
            "([z_])->([i]) {i=2}",
            ["expecting integer after 'z_'. Received: 'z_'", MAPPING, OPERANDS],
        ),
        (
            "([iz_])->([i]) {i=2}",
            ["expecting integer after 'z_'. Received: 'z_'", MAPPING, OPERANDS],
        ),
        (
            "([z_07])->([i]) {i=2}",
            [
                "expecting positive integer without leading zeros. Received: '07'",
                MAPPING,
                OPERANDS,
            ],
        ),
        ("([i j])->([i]) {i=2}", ["expected ']'", OPERANDS]),
        ("()->([i]) {i=2}", ["expected '['", OPERANDS]),
        ("([i])->([i]) {j=2}", [IOTA + "'i', received: 'j'"]),
        ("([i])->([i]) {i=2, k=2}", [IOTA + "'j', received: 'k'"]),
        ("([i])->([i]) {ij=2}", ["expecting single factor symbol: j"]),
        ("([i])->([i]) {i}", ["expected '='"]),
        ("([i])->([i]) {i=x}", ["expected integer value"]),
        ("([i])->([i]) {4=2}", ["expected valid keyword"]),
        ("([i])->([i]) {i=2} reduction{i}", ["expected '='"]),
        ("([i])->([i]) {i=2} reduction={b}", ["expecting symbol from 'i' to 'z'. Received: 'b'"]),
        ("([i])->([i]) {i=2} permutation={i} reduction={i}", ["expected '>'"]),
        ("([i])->([i]) {i=2}, mine", ["expected 'custom'"]),
        (
            "([z_9223372036854775808])->([i]) {i=2}",
            ["expecting symbol index <=2^63-1. Received: '9223372036854775808'"],
        ),
        (
            "([z_9223372036854775808])->([i]) {j=2}",
            [
                "expecting symbol index <=2^63-1. Received: '9223372036854775808'",
                IOTA + "'i', received: 'j'",
            ],
        ),
    ],
)
def test_rules(text: str, messages: list[str]) -> None:
    assert said_of(f"#sdy.op_sharding_rule<{text}>") == messages


MESH_AXES = (
    "custom op 'sdy.mesh' failed to parse Sdy_Mesh parameter 'axes' which is to be a "
    "`::llvm::ArrayRef<MeshAxisAttr>`"
)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ('<["q"=0]>', ["custom op 'sdy.mesh' axis size must be at least 1, got: 0", MESH_AXES]),
        ('<["q" 2]>', ["expected '='", MESH_AXES]),
        (
            '<["q"="r"]>',
            [
                "custom op 'sdy.mesh' expected integer value",
                (
                    "custom op 'sdy.mesh' failed to parse Sdy_MeshAxis parameter 'size' "
                    "which is to be a `int64_t`"
                ),
                MESH_AXES,
            ],
        ),
        ('<["q"=2, "q"=3]>', ["custom op 'sdy.mesh' duplicate axis name: \"q\""]),
        ("<[], device_ids=[-3]>", ["custom op 'sdy.mesh' device id must be non-negative, got: -3"]),
        (
            "<[], device_ids=[0, 1]>",
            ["custom op 'sdy.mesh' axes is empty and device_ids has more than one element"],
        ),
        ('<["q"=2], devices=[1, 0]>', ["custom op 'sdy.mesh' expected 'device_ids'"]),
        (
            '<["q"=2], device_ids=[4, 0]>',
            ["custom op 'sdy.mesh' sorted device ids must be iota(product(axes)), got: 0, 4"],
        ),
        (
            '<["q"=4], device_ids=[1, 0]>',
            [
                (
                    "custom op 'sdy.mesh' total product of axis sizes must match total number of "
                    "device ids, got: 4 != 2"
                )
            ],
        ),
    ],
)
def test_meshes(text: str, messages: list[str]) -> None:
    assert said(f"sdy.mesh @m = {text}") == messages
    # Inside an attribute that is written whole nobody knows of the operation.
    bare = [message.removeprefix("custom op 'sdy.mesh' ") for message in messages]
    assert said_of(f"#sdy.mesh{text}") == bare


EDGES = (
    "failed to parse Sdy_PropagationEdges parameter 'value' which is to be a "
    "`::llvm::ArrayRef<PropagationOneStepAttr>`"
)
ENTRIES = (
    "failed to parse Sdy_PropagationOneStep parameter 'axis_entries' which is to be a "
    "`::llvm::ArrayRef<AxisToPropagationDetailsAttr>`"
)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("<[]>", ["expected '{'", EDGES]),
        ("<[{stop-1 = []}]>", ["expected 'step'", EDGES]),
        (
            (
                '<[{step-1 = [{"q" = result-0 -> [operand-0]}]}, {step-1 = [{"q" = result-0 -> '
                "[operand-0]}]}]>"
            ),
            ["propagation edges have duplicate step index: 1"],
        ),
        (
            '<[{step--2 = [{"q" = result-0 -> [operand-0]}]}]>',
            ["propagation edges have negative step index: -2"],
        ),
        (
            '<[{step-1 = [{"q" = result-0 -> [operand-0, operand-0]}]}]>',
            ["propagation edges have duplicate targets for step index: 1 and axis: q"],
        ),
        (
            '<[{step-1 = [{"q" = result-0 -> [operand-0, result-0]}]}]>',
            ["propagation edges have a source that is the same as a target"],
        ),
        (
            '<[{step-1 = [{"q" = value-0 -> [operand-0]}]}]>',
            [
                "expected ::mlir::sdy::EdgeNodeType to be one of: operand, result",
                (
                    "failed to parse Sdy_EdgeValueRef parameter 'type' which is to be a "
                    "`::mlir::sdy::EdgeNodeType`"
                ),
                (
                    "failed to parse Sdy_AxisToPropagationDetails parameter 'source' which is to be "
                    "a `::mlir::sdy::EdgeValueRefAttr`"
                ),
                ENTRIES,
                EDGES,
            ],
        ),
    ],
)
def test_edges_of_propagation(text: str, messages: list[str]) -> None:
    assert said_of(f"#sdy.propagation_edges{text}") == messages


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sdy.sharding_group %a group_id=x : tensor<4xf32>", "expected attribute value"),
        (
            'sdy.sharding_group %a group_id="x" : tensor<4xf32>',
            "custom op 'sdy.sharding_group' invalid kind of attribute specified",
        ),
        (
            "sdy.propagation_barrier %a allowed_direction=LEFT : tensor<4xf32>",
            (
                "custom op 'sdy.propagation_barrier' expected string or keyword containing one of "
                "the following enum values for attribute 'allowed_direction' "
                "[NONE, FORWARD, BACKWARD, BOTH]"
            ),
        ),
        (
            'sdy.propagation_barrier %a allowed_direction="LEFT" : tensor<4xf32>',
            (
                "custom op 'sdy.propagation_barrier' invalid allowed_direction attribute "
                'specification: "LEFT"'
            ),
        ),
        (
            "sdy.propagation_barrier %a allowed_direction=NONE : i32",
            (
                "custom op 'sdy.propagation_barrier' invalid kind of type specified: "
                "expected builtin.tensor, but found 'i32'"
            ),
        ),
        (
            "sdy.constant array<i32: 4>",
            "custom op 'sdy.constant' invalid kind of attribute specified",
        ),
        (
            "sdy.all_reduce {} %a sharding=<@m, [{}]> : tensor<4xf32>",
            "custom op 'sdy.all_reduce' expected 'out_sharding'",
        ),
        (
            "sdy.return %a, %a : tensor<4xf32>",
            (
                "custom op 'sdy.return' number of operands and types do not match: "
                "got 2 operands and 1 types"
            ),
        ),
    ],
)
def test_operations(line: str, message: str) -> None:
    assert said(f"func.func @f(%a: tensor<4xf32>) {{\n  {line}\n}}")[0] == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#sdy.shading<@m, []>", "unknown attribute `shading` in dialect `sdy`"),
        ("#sdy.shading", "unknown attribute `shading` in dialect `sdy`"),
        ('#sdy<shading"x">', "unknown attribute `shading` in dialect `sdy`"),
        ('#sdy<"x">', "expected valid keyword"),
    ],
)
def test_attributes_that_the_dialect_has_not(text: str, message: str) -> None:
    assert said_of(text) == [message]
    inside = said_of(f"#sdy.sharding_per_value<[{text}]>")
    assert inside == [message, SHARDINGS]


def test_places() -> None:
    with pytest.raises(MlirError) as caught:
        parse('"t.holder"() {a = #sdy.op_sharding_rule<([i  j])->([i])>} : () -> ()', verify=False)
    first, second = caught.value.diagnostics
    # What is missing is missed behind the previous token.
    assert first.location == FileLoc("-", 1, 44)
    assert second.location == FileLoc("-", 1, 46)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ('unreduced=max{"q"}', 'unreduced=max{"q"}'),
        ('unreduced=min{"q":(2)4, "r"}', 'unreduced=min{"q":(2)4, "r"}'),
        ('unreduced=sum{"q"}', 'unreduced={"q"}'),
        # Shardy does not ask for the sign.
        ('unreduced{"q"}', 'unreduced={"q"}'),
        ('unreduced=max{"q"}, replicated={"r"}', 'replicated={"r"}, unreduced=max{"q"}'),
    ],
)
def test_operators_of_unreduced_axes(written: str, printed: str) -> None:
    module = parse(
        f'"t.holder"() {{a = #sdy.sharding<@m, [], {written}>}} : () -> ()', verify=False
    )
    assert f"a = #sdy.sharding<@m, [], {printed}>" in str(module)

"""StableHLO's attributes: text to data and back, and what is said of bad text."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.stablehlo  # noqa: F401  # defines the dialect
from emu.mlir import parse, to_text
from emu.mlir.attributes import ArrayAttr, Attribute, DenseElementsAttr, SymbolRefAttr
from emu.mlir.types import FloatType, IntegerType, TensorType
from emu.stablehlo.attributes import (
    AxisRef,
    ChannelHandle,
    ComparisonDirection,
    ComparisonType,
    ConvDimensionNumbers,
    DotAlgorithm,
    DotDimensionNumbers,
    FftType,
    GatherDimensionNumbers,
    Mesh,
    MeshAxis,
    OutputOperandAlias,
    Precision,
    RaggedDotDimensionNumbers,
    ReplicaGroupMeshAxes,
    ResultAccuracy,
    ResultAccuracyMode,
    RngAlgorithm,
    RngDistribution,
    ScatterDimensionNumbers,
    StructAttribute,
    SubAxisInfo,
    Transpose,
    TypeExtensions,
)
from emu.stablehlo.windows import padding, padding_attribute


def read(text: str) -> Attribute:
    module = parse(f"module attributes {{x.y = {text}}} {{}}")
    return module.attributes["x.y"]


CONV = ConvDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
TF32 = FloatType("tf32")
HALF_BITS = 0x3FE0000000000000
IDS = DenseElementsAttr(
    b"".join(i.to_bytes(8, "little") for i in (1, 0)),
    TensorType((2,), IntegerType(64)),
    splat=False,
)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (Precision("HIGHEST"), "#stablehlo<precision HIGHEST>"),
        (Precision("HIGH", "chlo"), "#chlo<precision HIGH>"),
        (ComparisonDirection("GE"), "#stablehlo<comparison_direction GE>"),
        (ComparisonType("TOTALORDER", "chlo"), "#chlo<comparison_type TOTALORDER>"),
        (FftType("IRFFT"), "#stablehlo<fft_type IRFFT>"),
        (Transpose("ADJOINT"), "#stablehlo<transpose ADJOINT>"),
        (RngAlgorithm("THREE_FRY"), "#stablehlo<rng_algorithm THREE_FRY>"),
        (RngDistribution("NORMAL"), "#stablehlo<rng_distribution NORMAL>"),
        (ResultAccuracyMode("TOLERANCE"), "#stablehlo.result_accuracy_mode<TOLERANCE>"),
        (DotDimensionNumbers(), "#stablehlo.dot<>"),
        (
            DotDimensionNumbers((0,), (1,), (2, 3), (0, 2)),
            (
                "#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], "
                "lhs_contracting_dimensions = [2, 3], rhs_contracting_dimensions = [0, 2]>"
            ),
        ),
        (
            RaggedDotDimensionNumbers(lhs_ragged_dimensions=(0,), rhs_group_dimensions=(0,)),
            "#chlo.ragged_dot<lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>",
        ),
        (
            GatherDimensionNumbers((2,), (0,), (1,), (0,), (0,), 3),
            (
                "#stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], "
                "operand_batching_dims = [1], start_indices_batching_dims = [0], "
                "start_index_map = [0], index_vector_dim = 3>"
            ),
        ),
        (
            ScatterDimensionNumbers(update_window_dims=(1,), scatter_dims_to_operand_dims=(0,)),
            "#stablehlo.scatter<update_window_dims = [1], scatter_dims_to_operand_dims = [0]>",
        ),
        (CONV, "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>"),
        (
            ConvDimensionNumbers(1, 0, (3, 2), 1, 0, (), 0, 1, (2,)),
            "#stablehlo.conv<[f, b, 1, 0]x[o, i]->[b, f, 0]>",
        ),
        (
            ConvDimensionNumbers(0, 0, (1,), 0, 1, (2,), 0, 1, (2,)),
            (
                "#stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 0, "
                "input_spatial_dimensions = [1], kernel_input_feature_dimension = 0, "
                "kernel_output_feature_dimension = 1, kernel_spatial_dimensions = [2], "
                "output_batch_dimension = 0, output_feature_dimension = 1, "
                "output_spatial_dimensions = [2]>"
            ),
        ),
        (
            DotAlgorithm(TF32, TF32, FloatType("f32"), 1, 1, 3, allow_imprecise_accumulation=False),
            (
                "#stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, "
                "accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, "
                "num_primitive_operations = 3, allow_imprecise_accumulation = false>"
            ),
        ),
        (
            OutputOperandAlias((0,), 1, ()),
            (
                "#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 1, "
                "operand_tuple_indices = []>"
            ),
        ),
        (ChannelHandle(5, 1), "#stablehlo.channel_handle<handle = 5, type = 1>"),
        (TypeExtensions((None, 3)), "#stablehlo.bounds<?, 3>"),
        (
            ResultAccuracy(ResultAccuracyMode("TOLERANCE"), 0, HALF_BITS, 2),
            (
                "#stablehlo.result_accuracy<rtol = 5.000000e-01, ulps = 2, "
                "mode = #stablehlo.result_accuracy_mode<TOLERANCE>>"
            ),
        ),
        (
            Mesh((MeshAxis("x", 2), MeshAxis('a"', 1)), IDS),
            (
                '#stablehlo.mesh<axes=[<name = "x", size = 2>, <name = "a\\22", size = 1>], '
                "device_ids=dense<[1, 0]> : tensor<2xi64>>"
            ),
        ),
        (MeshAxis("x", 2), '#stablehlo.mesh_axis<name = "x", size = 2>'),
        (SubAxisInfo(2, 4), "#stablehlo<sub_axis_info(2)4>"),
        (
            ReplicaGroupMeshAxes(
                SymbolRefAttr("m"), ArrayAttr((AxisRef("x"), AxisRef("y", SubAxisInfo(1, 2))))
            ),
            (
                "#stablehlo.replica_group_mesh_axes<mesh = @m, axes = "
                '[#stablehlo.axis_ref<name = "x">, '
                '#stablehlo.axis_ref<name = "y", sub_axis_info = (1)2>]>'
            ),
        ),
    ],
)
def test_attributes_round_trip(attribute: Attribute, text: str) -> None:
    assert str(attribute) == text
    assert read(text) == attribute
    assert pickle.loads(pickle.dumps(attribute)) == attribute


def test_other_spellings_are_read() -> None:
    assert read(
        "#stablehlo.gather<index_vector_dim = 1, offset_dims = [0],>"
    ) == GatherDimensionNumbers(offset_dims=(0,), index_vector_dim=1)
    assert read("#stablehlo.type_extensions<bounds = [?, 3]>") == TypeExtensions((None, 3))
    assert read("#stablehlo.channel_handle<type = 1, handle = 5>") == ChannelHandle(5, 1)
    assert read("#stablehlo.conv<raw output_feature_dimension = 1>").body().startswith("raw ")
    mesh = read('#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>]>')
    assert mesh == Mesh((MeshAxis("x", 2),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#stablehlo<precision LOW>", "to be one of: DEFAULT, HIGH, HIGHEST"),
        ("#stablehlo.dot<lhs = [0]>", "expected one of: `lhs_batching_dimensions`"),
        (
            "#stablehlo.gather<offset_dims = [0], offset_dims = [1]>",
            "duplicated `offset_dims` entry",
        ),
        ("#stablehlo.channel_handle<handle = 1>", "missing required parameter: type"),
        (
            "#stablehlo.conv<[b, 0, 0, f]x[i, o]->[b, f]>",
            "Duplicate entries for spatial dimension 0",
        ),
        ("#stablehlo.conv<[b, -1, f]x[i, o]->[b, f]>", "Unexpected dimension -1"),
        ("#stablehlo.conv<[b, i, f]x[i, o]->[b, f]>", "Unexpected dimension i, expecting f"),
        ("#stablehlo.conv<[b, 0]x[i, o]->[b, f]>", "Expected dimensions f not specified"),
        ("#stablehlo.conv<[b, f, b]x[i, o]->[b, f]>", "Unexpected keyword b"),
        (
            "#stablehlo.conv<[b, f, 2]x[i, o]->[b, f]>",
            "Expected spatial dimensions 0, 1 not specified",
        ),
        ("#stablehlo.result_accuracy<mode = 1 : i32>", "expected a result accuracy mode"),
        ("#stablehlo.mesh<axes = [1 : i32]>", "expected a mesh axis"),
    ],
)
def test_bad_attributes_are_reported(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read(text)


def test_enumerations_check_their_words() -> None:
    with pytest.raises(ValueError, match="precision 'LOW' is not one of DEFAULT, HIGH, HIGHEST"):
        Precision("LOW")


def test_an_encoding_is_part_of_the_type() -> None:
    text = "func.func private @f(tensor<?x4xf32, #stablehlo.bounds<8, ?>>)"
    module = parse(f"module {{\n  {text}\n}}")
    assert text in to_text(module)


DIMS = st.lists(st.integers(0, 9), max_size=3).map(tuple)


@settings(deadline=None)
@given(
    st.one_of(
        st.builds(DotDimensionNumbers, DIMS, DIMS, DIMS, DIMS),
        st.builds(GatherDimensionNumbers, DIMS, DIMS, DIMS, DIMS, DIMS, st.integers(0, 9)),
        st.builds(ScatterDimensionNumbers, DIMS, DIMS, DIMS, DIMS, DIMS, st.integers(0, 9)),
        st.builds(RaggedDotDimensionNumbers, DIMS, DIMS, DIMS, DIMS, DIMS, DIMS),
    )
)
def test_structures_round_trip(attribute: StructAttribute) -> None:
    assert read(str(attribute)) == attribute


@settings(deadline=None)
@given(st.permutations(range(4)), st.permutations(range(3)), st.permutations(range(4)))
def test_convolutions_round_trip(source: list[int], kernel: list[int], target: list[int]) -> None:
    b, f, *spatial = source
    i, o, *window = kernel
    c, g, *result = target
    numbers = ConvDimensionNumbers(b, f, tuple(spatial), i, o, tuple(window), c, g, tuple(result))
    assert "raw" not in str(numbers)
    assert read(str(numbers)) == numbers


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=4))
def test_padding_is_kept(pairs: list[tuple[int, int]]) -> None:
    attribute = padding_attribute(pairs)
    assert padding(attribute) == pairs
    assert read(str(attribute)) == attribute


def test_blanks_before_a_short_attribute_are_read() -> None:
    text = '"t.a"() {x = #stablehlo <precision HIGH>} : () -> ()'
    assert "x = #stablehlo<precision HIGH>}" in to_text(parse(text))
    with pytest.raises(ValueError, match="unknown attribute `accuracy` in dialect `stablehlo`"):
        parse(text.replace("precision", "accuracy"))

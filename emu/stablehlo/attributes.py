"""Attributes of StableHLO (and CHLO) as frozen data; ``str()`` is their text.

Three kinds of text occur:

* Enumerations, ``#stablehlo<precision HIGH>``: the mnemonic and a word.
* Structures, ``#stablehlo.gather<offset_dims = [0], index_vector_dim = 1>``: fields are read in any
  order, and written in the declared order unless they are empty or zero.
* Others have a form of their own, for example
  ``#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>``.

``emu.stablehlo.attribute_parser`` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from emu.mlir.attributes import ArrayAttr, Attribute, FloatAttr, StringAttr
from emu.mlir.types import FloatType, Type

# Enumerations


@dataclass(frozen=True, slots=True)
class EnumAttribute(Attribute):
    """Base of the enumerations.

    Attributes:
        value: One of ``cases``.
        dialect: Name of the dialect; CHLO has some of the same.
    """

    value: str
    dialect: str = "stablehlo"

    mnemonic: ClassVar[str] = ""
    cases: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.value not in self.cases:
            allowed = ", ".join(self.cases)
            raise ValueError(f"{self.mnemonic} {self.value!r} is not one of {allowed}")

    def __str__(self) -> str:
        return f"#{self.dialect}<{self.mnemonic} {self.value}>"


@dataclass(frozen=True, slots=True)
class Precision(EnumAttribute):
    """Precision of a product: ``#stablehlo<precision HIGHEST>``."""

    mnemonic: ClassVar[str] = "precision"
    cases: ClassVar[tuple[str, ...]] = ("DEFAULT", "HIGH", "HIGHEST")


@dataclass(frozen=True, slots=True)
class ComparisonDirection(EnumAttribute):
    """Relation that ``compare`` tests."""

    mnemonic: ClassVar[str] = "comparison_direction"
    cases: ClassVar[tuple[str, ...]] = ("EQ", "NE", "GE", "GT", "LE", "LT")


@dataclass(frozen=True, slots=True)
class ComparisonType(EnumAttribute):
    """Interpretation of the operands of ``compare``."""

    mnemonic: ClassVar[str] = "comparison_type"
    cases: ClassVar[tuple[str, ...]] = ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")


@dataclass(frozen=True, slots=True)
class FftType(EnumAttribute):
    """Kind of a Fourier transform."""

    mnemonic: ClassVar[str] = "fft_type"
    cases: ClassVar[tuple[str, ...]] = ("FFT", "IFFT", "RFFT", "IRFFT")


@dataclass(frozen=True, slots=True)
class Transpose(EnumAttribute):
    """Transposition of the matrix of ``triangular_solve``."""

    mnemonic: ClassVar[str] = "transpose"
    cases: ClassVar[tuple[str, ...]] = (
        "TRANSPOSE_INVALID",
        "NO_TRANSPOSE",
        "TRANSPOSE",
        "ADJOINT",
    )


@dataclass(frozen=True, slots=True)
class RngAlgorithm(EnumAttribute):
    """The generator of ``rng_bit_generator``."""

    mnemonic: ClassVar[str] = "rng_algorithm"
    cases: ClassVar[tuple[str, ...]] = ("DEFAULT", "THREE_FRY", "PHILOX")


@dataclass(frozen=True, slots=True)
class RngDistribution(EnumAttribute):
    """The distribution of ``rng``."""

    mnemonic: ClassVar[str] = "rng_distribution"
    cases: ClassVar[tuple[str, ...]] = ("UNIFORM", "NORMAL")


@dataclass(frozen=True, slots=True)
class ResultAccuracyMode(EnumAttribute):
    """Mode of a ``ResultAccuracy``; the only enumeration that is written with a dot."""

    mnemonic: ClassVar[str] = "result_accuracy_mode"
    cases: ClassVar[tuple[str, ...]] = ("DEFAULT", "HIGHEST", "TOLERANCE")

    def __str__(self) -> str:
        return f"#{self.dialect}.{self.mnemonic}<{self.value}>"


# Structures


def dims_text(dims: tuple[int | None, ...]) -> str:
    """Return ``[0, ?]``; None is a dynamic size."""
    return f"[{', '.join('?' if d is None else str(d) for d in dims)}]"


@dataclass(frozen=True, slots=True)
class RecordAttribute(Attribute):
    """Base of the attributes whose text lists all their fields: ``<handle = 1, type = 0>``."""

    dialect: ClassVar[str] = "stablehlo"
    mnemonic: ClassVar[str] = ""

    def body(self) -> str:
        """Return what stands between the angle brackets."""
        return ", ".join(f"{name} = {_value_text(value)}" for name, value in self._entries())

    def _entries(self) -> list[tuple[str, object]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]

    def __str__(self) -> str:
        return f"#{self.dialect}.{self.mnemonic}<{self.body()}>"


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return dims_text(value)
    return str(StringAttr(value) if isinstance(value, str) else value)


@dataclass(frozen=True, slots=True)
class StructAttribute(RecordAttribute):
    """Base of the structures; every field is a tuple of ints or an int, left out if empty or 0."""

    def _entries(self) -> list[tuple[str, object]]:
        return [
            (field.name, value) for field in fields(self) if (value := getattr(self, field.name))
        ]


@dataclass(frozen=True, slots=True)
class DotDimensionNumbers(StructAttribute):
    """Dimensions that ``dot_general`` batches and contracts."""

    mnemonic: ClassVar[str] = "dot"

    lhs_batching_dimensions: tuple[int, ...] = ()
    rhs_batching_dimensions: tuple[int, ...] = ()
    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RaggedDotDimensionNumbers(StructAttribute):
    """Dimensions of ``chlo.ragged_dot``, the ragged and group dimensions included."""

    dialect: ClassVar[str] = "chlo"
    mnemonic: ClassVar[str] = "ragged_dot"

    lhs_batching_dimensions: tuple[int, ...] = ()
    rhs_batching_dimensions: tuple[int, ...] = ()
    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()
    lhs_ragged_dimensions: tuple[int, ...] = ()
    rhs_group_dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GatherDimensionNumbers(StructAttribute):
    """Meaning of the dimensions of ``gather``'s operands."""

    mnemonic: ClassVar[str] = "gather"

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0


@dataclass(frozen=True, slots=True)
class ScatterDimensionNumbers(StructAttribute):
    """Meaning of the dimensions of ``scatter``'s operands."""

    mnemonic: ClassVar[str] = "scatter"

    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0


# Attributes with a form of their own


@dataclass(frozen=True, slots=True)
class ConvDimensionNumbers(RecordAttribute):
    """Meaning of the dimensions of a convolution's input, kernel and output."""

    mnemonic: ClassVar[str] = "conv"

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: tuple[int, ...]

    def body(self) -> str:
        """Return ``[b, 0, f]x[0, i, o]->[b, 0, f]``, or the raw form.

        Numbers that do not name each dimension exactly once have no short form.
        """
        groups = (
            _layout(
                {"b": self.input_batch_dimension, "f": self.input_feature_dimension},
                self.input_spatial_dimensions,
            ),
            _layout(
                {
                    "i": self.kernel_input_feature_dimension,
                    "o": self.kernel_output_feature_dimension,
                },
                self.kernel_spatial_dimensions,
            ),
            _layout(
                {"b": self.output_batch_dimension, "f": self.output_feature_dimension},
                self.output_spatial_dimensions,
            ),
        )
        if None in groups:
            return f"raw {RecordAttribute.body(self)}"
        return f"{groups[0]}x{groups[1]}->{groups[2]}"


def _layout(letters: dict[str, int], spatial: tuple[int, ...]) -> str | None:
    """Return ``[b, 0, 1, f]``; None where a dimension is named twice or not at all."""
    places = {place: letter for letter, place in letters.items()}
    places.update((place, str(i)) for i, place in enumerate(spatial))
    rank = len(letters) + len(spatial)
    if sorted(places) != list(range(rank)):
        return None
    return f"[{', '.join(places[i] for i in range(rank))}]"


@dataclass(frozen=True, slots=True)
class DotAlgorithm(RecordAttribute):
    """Arithmetic of a dot product."""

    mnemonic: ClassVar[str] = "dot_algorithm"

    lhs_precision_type: Type
    rhs_precision_type: Type
    accumulation_type: Type
    lhs_component_count: int
    rhs_component_count: int
    num_primitive_operations: int
    allow_imprecise_accumulation: bool


@dataclass(frozen=True, slots=True)
class OutputOperandAlias(RecordAttribute):
    """Alias of a custom call's output and one of its operands, which share their memory."""

    mnemonic: ClassVar[str] = "output_operand_alias"

    output_tuple_indices: tuple[int, ...]
    operand_index: int
    operand_tuple_indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChannelHandle(RecordAttribute):
    """``#stablehlo.channel_handle<handle = 1, type = 0>``."""

    mnemonic: ClassVar[str] = "channel_handle"

    handle: int
    type: int


@dataclass(frozen=True, slots=True)
class TypeExtensions(Attribute):
    """The encoding of a bounded tensor type: ``#stablehlo.bounds<4, ?>``."""

    bounds: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"#stablehlo.bounds<{dims_text(self.bounds)[1:-1]}>"


@dataclass(frozen=True, slots=True)
class ResultAccuracy(Attribute):
    """Accuracy that a transcendental function must have.

    Attributes:
        mode: The mode; the numbers matter for TOLERANCE only.
        atol: Absolute error, as the bits of an f64.
        rtol: Relative error, as the bits of an f64.
        ulps: Error in units of the last place.
    """

    mode: ResultAccuracyMode
    atol: int = 0
    rtol: int = 0
    ulps: int = 0

    def __str__(self) -> str:
        parts = [
            f"{n} = {_f64_text(b)}" for n, b in (("atol", self.atol), ("rtol", self.rtol)) if b
        ]
        if self.ulps:
            parts.append(f"ulps = {self.ulps}")
        parts.append(f"mode = {self.mode}")
        return f"#stablehlo.result_accuracy<{', '.join(parts)}>"


def _f64_text(bits: int) -> str:
    return str(FloatAttr(bits, FloatType("f64"))).partition(" : ")[0]


# Meshes, whose axes replica groups can refer to


@dataclass(frozen=True, slots=True)
class MeshAxis(RecordAttribute):
    """An axis of a mesh."""

    mnemonic: ClassVar[str] = "mesh_axis"

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Mesh(Attribute):
    """A mesh of devices, as StableHLO defines it; the sdy dialect has another one."""

    axes: tuple[MeshAxis, ...]
    device_ids: Attribute | None = None

    def __str__(self) -> str:
        ids = "" if self.device_ids is None else f", device_ids={self.device_ids}"
        return f"#stablehlo.mesh<axes=[{', '.join(f'<{axis.body()}>' for axis in self.axes)}]{ids}>"


@dataclass(frozen=True, slots=True)
class SubAxisInfo(Attribute):
    """``(pre)size``: a part of an axis."""

    pre_size: int
    size: int

    def __str__(self) -> str:
        return f"#stablehlo<sub_axis_info({self.pre_size}){self.size}>"


@dataclass(frozen=True, slots=True)
class AxisRef(Attribute):
    """An axis or a part of one."""

    name: str
    sub_axis: SubAxisInfo | None = None

    def __str__(self) -> str:
        sub = self.sub_axis
        part = "" if sub is None else f", sub_axis_info = ({sub.pre_size}){sub.size}"
        return f"#stablehlo.axis_ref<name = {StringAttr(self.name)}{part}>"


@dataclass(frozen=True, slots=True)
class ReplicaGroupMeshAxes(RecordAttribute):
    """Replica groups as axes of a mesh.

    Attributes:
        mesh: A ``Mesh`` or a reference to one.
        axes: Array of ``AxisRef``.
    """

    mnemonic: ClassVar[str] = "replica_group_mesh_axes"

    mesh: Attribute
    axes: ArrayAttr

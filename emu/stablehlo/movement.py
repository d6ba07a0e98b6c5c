"""Operations that make, move, cut and join arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.dialects.constants import print_constant
from emu.mlir.ir import Operation
from emu.mlir.registry import OpDefinition, define
from emu.mlir.types import IntegerType, TensorType, Type
from emu.stablehlo.attributes import RngAlgorithm, RngDistribution
from emu.stablehlo.syntax import (
    ATTRIBUTES,
    RESULT_TYPE,
    SAME_TYPE,
    SIGNATURE,
    Draft,
    Enumeration,
    Form,
    Integer,
    Ints,
    Operands,
    Piece,
    array_of_ints,
    define_form,
    define_pure,
    ints,
)

if TYPE_CHECKING:
    from emu.mlir.assembly import OpParser, OpPrinter

__all__ = ["ELEMENTS", "constant_name"]

# Constants


def constant_name(op: Operation) -> str:
    """``c`` for integers, ``cst`` for all others."""
    type_ = op.results[0].type if op.results else None
    whole = isinstance(type_, TensorType) and isinstance(type_.element, IntegerType)
    return "c" if whole else "cst"


class _Elements(Piece):
    """A constant's value, whose type is that of the result."""

    writes = needs = ("value",)

    def read(self, p: OpParser, draft: Draft) -> None:
        place = p.here()
        value = p.attribute()
        type_ = _type_of(value)
        if type_ is None:
            p.error("expected elements attribute", place)
        draft.properties["value"] = value
        draft.result_types = [type_]

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.attribute(op.properties["value"])


ELEMENTS = _Elements()


def _type_of(value: Attribute) -> Type | None:
    """The type of a constant's value; None where it is not elements."""
    if isinstance(value, DenseElementsAttr):
        return value.type
    return None


def _parse_constant(p: OpParser) -> Operation:
    draft = Draft("stablehlo.constant")
    if not p.accept("("):
        draft.take(p.optional_attr_dict())
        ELEMENTS.read(p, draft)
        return draft.finish(p)
    # The generic form without quotes: MLIR writes it where the value and the
    # result have different types.
    p.expect(")")
    if p.accept("<"):
        draft.take(p.optional_attr_dict())
        p.expect(">")
    draft.take(p.optional_attr_dict())
    p.expect(":")
    draft.take_signature(p.function_type())
    return draft.finish(p)


def _print_constant(w: OpPrinter, op: Operation) -> None:
    value = op.properties.get("value")
    if value is None or len(op.results) != 1:
        w.generic_operation(op)
        return
    print_constant(w, op, _type_of(value))


# Ranges


class _Ranges(Piece):
    """``[0:2, 1:4:2]``: start, limit, and stride if it is not 1."""

    writes = needs = ("start_indices", "limit_indices", "strides")

    def read(self, p: OpParser, draft: Draft) -> None:
        ranges = p.comma_separated("[", "]", lambda: _read_range(p))
        for index, name in enumerate(self.writes):
            draft.properties[name] = array_of_ints(r[index] for r in ranges)

    def write(self, w: OpPrinter, op: Operation) -> None:
        starts, limits, strides = (ints(op.properties[name]) for name in self.writes)
        if not len(starts) == len(limits) == len(strides):
            named = zip(self.writes, (starts, limits, strides), strict=True)
            w.write("[" + ", ".join(f"{n}: {', '.join(map(str, v))}" for n, v in named) + "]")
            return
        texts = [
            f"{start}:{limit}" if stride == 1 else f"{start}:{limit}:{stride}"
            for start, limit, stride in zip(starts, limits, strides, strict=True)
        ]
        w.write(f"[{', '.join(texts)}]")


def _read_range(p: OpParser) -> tuple[int, int, int]:
    start = p.integer()
    p.expect(":")
    limit = p.integer()
    return start, limit, p.integer() if p.accept(":") else 1


_REST = (ATTRIBUTES, " : ", SIGNATURE)


def _define_all() -> None:
    _define_sources()
    for name in (
        "bitcast_convert",
        "reshape",
        "dynamic_reshape",
        "dynamic_update_slice",
        "real_dynamic_slice",
        "dynamic_pad",
    ):
        define_pure(name, " ", Operands(), *_REST)
    _define_broadcasts()
    define_pure("slice", " ", Operands(1), " ", _Ranges(), *_REST)
    sizes = Ints("slice_sizes")
    define_pure("dynamic_slice", " ", Operands(comma=True), " sizes = ", sizes, *_REST)
    dimension = Integer("dimension")
    define_pure("concatenate", " ", Operands(comma=True), " dim = ", dimension, *_REST)
    for name, count in (("get_dimension_size", 1), ("set_dimension_size", 2)):
        define_pure(name, " ", Operands(count), ", dim = ", dimension, *_REST)
    define_pure(
        "pad",
        *(" ", Operands(2), ", low = ", Ints("edge_padding_low")),
        *(", high = ", Ints("edge_padding_high"), ", interior = ", Ints("interior_padding")),
        *_REST,
    )
    define_pure("transpose", " ", Operands(1), ", dims = ", Ints("permutation"), *_REST)
    dims = Ints("dimensions")
    define_pure("reverse", " ", Operands(1), ", dims = ", dims, ATTRIBUTES, " : ", SAME_TYPE)
    _define_generic_only()
    _define_random()


def _define_sources() -> None:
    define(
        OpDefinition(
            "stablehlo.constant",
            ("value",),
            parse=_parse_constant,
            print=_print_constant,
            pure=True,
            constant=True,
            result_name=constant_name,
        )
    )
    dimension = Integer("iota_dimension")
    define_pure("iota", " dim = ", dimension, ATTRIBUTES, " : ", RESULT_TYPE)
    define_pure("dynamic_iota", " ", Operands(1), ", dim = ", dimension, *_REST)


def _define_broadcasts() -> None:
    define_pure("broadcast", " ", Operands(1), ", sizes = ", Ints("broadcast_sizes"), *_REST)
    dims = Ints("broadcast_dimensions")
    define_pure("broadcast_in_dim", " ", Operands(1), ", dims = ", dims, *_REST)
    define_pure(
        "dynamic_broadcast_in_dim",
        *(" ", Operands(2), ", dims = ", dims, *_REST),
        more=("known_expanding_dimensions", "known_nonexpanding_dimensions"),
    )


def _define_generic_only() -> None:
    gather = ("dimension_numbers", "slice_sizes", "indices_are_sorted")
    define(OpDefinition("stablehlo.gather", gather, pure=True))
    dynamic = ("dimension_numbers", "indices_are_sorted")
    define(OpDefinition("stablehlo.dynamic_gather", dynamic, pure=True))
    scatter = ("scatter_dimension_numbers", "indices_are_sorted", "unique_indices")
    define(OpDefinition("stablehlo.scatter", scatter, recursive_effects=True))
    norm = ("epsilon", "feature_index")
    define(OpDefinition("stablehlo.batch_norm_inference", norm, pure=True))
    _define_named("stablehlo.batch_norm_training", norm, ("output", "batch_mean", "batch_var"))
    _define_named("stablehlo.batch_norm_grad", norm, ("grad_operand", "grad_scale", "grad_offset"))
    define(OpDefinition("stablehlo.torch_index_select", ("dim", "batch_dims"), pure=True))


def _define_named(name: str, properties: tuple[str, ...], results: tuple[str, ...]) -> None:
    """Define a generic-only operation whose results have names."""
    define(OpDefinition(name, properties, pure=True, result_name=lambda _: results))


def _define_random() -> None:
    distribution = Enumeration("rng_distribution", RngDistribution)
    pieces = (" ", Operands(3), ", distribution = ", distribution, ATTRIBUTES, " : ", SIGNATURE)
    define_form(Form("stablehlo.rng", *pieces))
    algorithm = Enumeration("rng_algorithm", RngAlgorithm)
    define_form(
        Form(
            "stablehlo.rng_bit_generator",
            *(" ", Operands(1), ", algorithm = ", algorithm, ATTRIBUTES, " : ", SIGNATURE),
        ),
        pure=True,
        result_name=lambda _: ("output_state", "output"),
    )


_define_all()

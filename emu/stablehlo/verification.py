"""Verifiers of StableHLO's operations; importing it registers them.

Five steps, in MLIR's order and with its words: counts and attributes
(`structure`), element types (`elements`), traits that compare types, what is
the operation's own, and the types that it implies (`implied`). The first step
that finds something ends it.

Not everything that StableHLO checks is checked: scatter dimension numbers and
replica groups are believed.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.mlir.diagnostics import Diagnostics
from emu.mlir.ir import Operation
from emu.mlir.registry import extend
from emu.mlir.types import FloatType, IntegerType, TensorType, Type
from emu.stablehlo.elements import ELEMENTS, wrong_element
from emu.stablehlo.elementwise import ACCURATE, BINARY, UNARY
from emu.stablehlo.implied import CHECKED
from emu.stablehlo.inference import (
    Invalid,
    Shape,
    compatible,
    compatible_shapes,
    dot_general_shape,
    dot_shape,
    integer,
    listed,
    same,
    tensor,
)
from emu.stablehlo.structure import SHAPES, verify_structure
from emu.stablehlo.syntax import ints
from emu.stablehlo.windows import convolution_shape

__all__: list[str] = []

Check = Callable[[Operation], None]
"""Raises `Invalid`. A message that starts with "op " gets the name in front."""


# Traits


def _types(op: Operation) -> list[Type]:
    return [value.type for value in (*op._operands, *op.results)]


def _compatible_types(op: Operation) -> None:
    first, *others = _types(op)
    if not all(compatible(first, other) for other in others):
        raise Invalid("op requires compatible types for all operands and results")


def _same_shape(op: Operation) -> None:
    first, *others = _types(op)
    shape = tensor(first).shape
    if not all(compatible_shapes(shape, tensor(other).shape) for other in others):
        raise Invalid("op requires the same shape for all operands and results")


def _elementwise(op: Operation) -> None:
    shapes = [tensor(t).shape for t in _types(op)]
    shapes = [shape for shape in shapes if shape]
    if not all(compatible_shapes(shapes[0], shape) for shape in shapes):
        raise Invalid("op all non-scalar operands/results must have the same shape and base type")


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, TensorType) else type_


def _same_elements(types: list[Type]) -> bool:
    first, *others = map(_element, types)
    return all(other == first or "!quant" in f"{first}{other}" for other in others)


def _same_element_types(op: Operation) -> None:
    if not _same_elements(_types(op)):
        raise Invalid("op requires the same element type for all operands and results")


def _compatible_element_types(op: Operation) -> None:
    if not _same_elements(_types(op)):
        raise Invalid("op requires compatible element types for all operands and results")


def _compatible_operands(op: Operation) -> None:
    if not _same_elements([value.type for value in op.operands]):
        raise Invalid("op requires compatible element types for all operands")


def _same_operand_elements(op: Operation) -> None:
    if not _same_elements([value.type for value in op.operands]):
        raise Invalid("op requires the same element type for all operands")


def _elements(op: Operation) -> None:
    wrong = wrong_element(op)
    if wrong is not None:
        raise Invalid(f"op {wrong}")


def _same_sizes(*names: str) -> Check:
    def check(op: Operation) -> None:
        if len({len(ints(op.properties[name])) for name in names}) > 1:
            raise Invalid(f"op failed to verify that all of {{{', '.join(names)}}} have same size")

    return check


def _pairwise_counts(op: Operation) -> None:
    if len(op.operands) != len(op.results):
        raise Invalid("op requires the same number of operands and results")


def _pairwise_types(op: Operation) -> None:
    _pairwise_counts(op)
    for index, (operand, result) in enumerate(zip(op.operands, op.results, strict=True)):
        if not compatible(operand.type, result.type):
            raise Invalid(f"op requires the same type for operand and result at index {index}")


def _reduce(op: Operation) -> None:
    if not op.operands or len(op.operands) % 2:
        raise Invalid("op expected as many init values as inputs, and at least one")
    rank, dimensions = tensor(op.operands[0].type).rank, ints(op.properties["dimensions"])
    for index, d in enumerate(dimensions):
        if not 0 <= d < rank:
            raise Invalid(f"Out-of-bounds dimension {d}, expected to be in range [0, {rank})")
        if d in dimensions[:index]:
            raise Invalid(f"Duplicate reduction dimension: {d}")


def _reducer(op: Operation) -> None:
    """Check the region of a reduction against its inputs and initial values."""
    has_starts = op.name in ("stablehlo.reduce", "stablehlo.reduce_window")
    count = len(op.operands) // 2 if has_starts else 1
    arguments, last = op.body().arguments, op.body().last
    if len(arguments) != 2 * count:
        raise Invalid(
            f"Reduction-region must take {2 * count} parameters, but takes {len(arguments)} "
            "parameter(s)"
        )
    if last is None or not last.operands:
        raise Invalid("The reduction-region expected to return some value(s)")
    if len(last.operands) != count:
        raise Invalid(
            f"Reduction-region here must produce {count} tensors, but produces "
            f"{len(last.operands)} instead"
        )
    results = [value.type for value in last.operands]
    for type_ in results:
        if not isinstance(type_, TensorType):
            raise Invalid(
                "Reduction-region here must produce tensor-typed result(s), but produces "
                f"'{type_}' instead"
            )
    for index, result in enumerate(results):
        _reducer_types(index, arguments[index].type, result)
        _reducer_types(index + count, arguments[index + count].type, result)
        start = op.operands[index + count].type if has_starts else TensorType((), result)
        if not compatible_shapes(tensor(result).shape, tensor(start).shape):
            raise Invalid(
                f"The shape of reduction-region's result type at index {index} differs from the "
                f"op's corresponding init-value type: '{result}' vs '{start}'"
            )


def _reducer_types(index: int, argument: Type, result: Type) -> None:
    left, right = tensor(argument), tensor(result)
    floats = isinstance(left.element, FloatType) and isinstance(right.element, FloatType)
    elements = floats or _same_elements([left, right])
    if not elements or not compatible_shapes(left.shape, right.shape):
        raise Invalid(
            f"The type of reduction-region's parameter at index {index} is different than the "
            f"corresponding result type: '{argument}' vs '{result}'"
        )


# What is left


def _reshape(op: Operation) -> None:
    source, result = tensor(op.operands[0].type), tensor(op.result.type)
    if source.is_static and result.is_static and source.size != result.size:
        raise Invalid(
            f"number of output elements ({result.size}) doesn't match expected number of "
            f"elements ({source.size})"
        )


def _iota(op: Operation) -> None:
    rank, dimension = tensor(op.result.type).rank, integer(op, "iota_dimension")
    if not rank:
        raise Invalid("does not support scalars.")
    if dimension >= rank:
        raise Invalid("iota dimension cannot go beyond the output rank.")


def _broadcast_in_dim(op: Operation) -> None:
    source, result = tensor(op.operands[0].type), tensor(op.result.type)
    dimensions = ints(op.properties["broadcast_dimensions"])
    if len(dimensions) != source.rank:
        raise Invalid(
            f"broadcast_dimensions size ({len(dimensions)}) does not match operand rank "
            f"({source.rank})"
        )
    if len(set(dimensions)) != len(dimensions):
        raise Invalid("broadcast_dimensions should not have duplicates")
    for index, d in enumerate(dimensions):
        if not 0 <= d < result.rank:
            raise Invalid(
                f"broadcast_dimensions contains invalid value {d} for result with rank "
                f"{result.rank}"
            )
        size = source.shape[index]
        if size != 1 and not same(size, result.shape[d]):
            raise Invalid(
                f"size of operand dimension {index} ({size}) is not equal to 1 or size of result "
                f"dimension {d} ({result.shape[d]})"
            )


def _reverse(op: Operation) -> None:
    rank, dimensions = tensor(op.operands[0].type).rank, ints(op.properties["dimensions"])
    if len(set(dimensions)) != len(dimensions):
        raise Invalid(f"dimensions should be unique. Got: {', '.join(map(str, dimensions))}")
    for d in dimensions:
        if d < 0:
            raise Invalid(f"all dimensions should be non-negative. Got dimension: {d}.")
        if d >= rank:
            raise Invalid(f"all dimensions should be between [0, {rank}). Got dimension: {d}.")


_PRODUCTS: dict[str, Callable[[Operation], Shape | None]] = {
    "stablehlo.convolution": convolution_shape,
    "stablehlo.dot": dot_shape,
    "stablehlo.dot_general": dot_general_shape,
}


def _product(op: Operation) -> None:
    shape = _PRODUCTS[op.name](op)
    if shape is not None and not compatible_shapes(shape, tensor(op.result.type).shape):
        sizes = ", ".join("?" if size is None else str(size) for size in shape)
        raise Invalid(
            f"inferred shape '[{sizes}]' is incompatible with return type of operation "
            f"'{op.result.type}'"
        )


def _all_gather(op: Operation) -> None:
    dimension = integer(op, "all_gather_dim")
    if any(dimension >= tensor(value.type).rank for value in op.operands):
        raise Invalid("all_gather_dim must be a valid index of operand")


def _while(op: Operation) -> None:
    operands = [value.type for value in op.operands]
    condition, body = (region.blocks[0] for region in op.regions)
    last, ends = body.last, condition.last
    if last is None or ends is None:
        raise Invalid("The while body-region expected to have a terminator")
    for what, types in (
        ("condition block arguments", [a.type for a in condition.arguments]),
        ("body block arguments", [a.type for a in body.arguments]),
        ("body block return types", [value.type for value in last.operands]),
    ):
        if len(types) != len(operands) or not all(map(compatible, operands, types)):
            raise Invalid(
                f"expect operands to be compatible with {what} but got {listed(operands)} vs "
                f"{listed(types)}"
            )
    if len(ends.operands) != 1:
        raise Invalid(f"expect condition body returns a single value but got {len(ends.operands)}")
    result = ends.operands[0].type
    if result != TensorType((), IntegerType(1)):
        raise Invalid(
            f"expect condition block return a zero-ranked tensor of i1 but got '{result}'"
        )


_PARTS = ("abs", "imag", "real", "convert", "uniform_dequantize", "uniform_quantize")

TRAITS: dict[str, tuple[Check, ...]] = {
    **{
        name: (_compatible_types,)
        for name in (*UNARY, *ACCURATE, *BINARY, "cross-replica-sum")
        if name not in _PARTS
    },
    "add": (_same_shape, _same_element_types),
    "abs": (_elementwise,),
    "imag": (_elementwise,),
    "real": (_elementwise,),
    "convert": (_same_shape,),
    "uniform_dequantize": (_elementwise,),
    "uniform_quantize": (_elementwise,),
    "reduce_precision": (_elementwise, _compatible_types),
    "compare": (_elementwise, _compatible_operands),
    "complex": (_same_operand_elements, _same_shape),
    "reshape": (_compatible_element_types,),
    "transpose": (_compatible_element_types,),
    "broadcast_in_dim": (_compatible_element_types,),
    "clamp": (_compatible_element_types,),
    "cholesky": (_compatible_element_types,),
    "concatenate": (_same_element_types,),
    "slice": (
        _same_sizes("start_indices", "limit_indices", "strides"),
        _same_element_types,
    ),
    "pad": (
        _same_sizes("edge_padding_low", "edge_padding_high", "interior_padding"),
        _same_element_types,
    ),
    "broadcast": (_same_element_types,),
    "reverse": (_same_element_types,),
    "collective_permute": (_same_element_types,),
    "collective_broadcast": (_same_element_types,),
    "all_gather": (_pairwise_counts,),
    "all_to_all": (_pairwise_counts,),
    **dict.fromkeys(("abs", "imag", "is_finite", "real"), (_elementwise,)),
    "map": (_same_shape,),
    "sort": (_same_shape,),
    "optimization_barrier": (_pairwise_types,),
    "reduce": (_reduce, _reducer),
}
"""By name without ``stablehlo.``: what is checked first."""

LEFT: dict[str, Check] = {
    "reshape": _reshape,
    "iota": _iota,
    "broadcast_in_dim": _broadcast_in_dim,
    "reverse": _reverse,
    "convolution": _product,
    "dot": _product,
    "dot_general": _product,
    "all_gather": _all_gather,
    "all_reduce": _reducer,
    "reduce_scatter": _reducer,
    "reduce_window": _reducer,
    "while": _while,
}
"""What is checked behind that, before types are inferred."""


_SOUND_LIMIT = 1 << 16
_sound: set[tuple[object, ...]] = set()
"""Looks of operations that were found right: layers, and the same module after
each pass, repeat the same few. Constants are left out, so that none lives on here."""


def _looks(op: Operation) -> tuple[object, ...]:
    """All of an operation without regions that is looked at here."""
    return (
        op.name,
        tuple([value.type for value in op._operands]),
        tuple([result.type for result in op.results]),
        tuple(op.properties.items()),
    )


def _verifier(name: str) -> Callable[[Operation, Diagnostics], bool]:
    elements = (_elements,) if name in ELEMENTS else ()
    traits = elements + TRAITS.get(name, ())
    infer, left = CHECKED.get(name), LEFT.get(name)

    def verify(op: Operation, diagnostics: Diagnostics) -> bool:
        if op.regions or not op._operands:
            return check_all(op, diagnostics)
        looks = _looks(op)
        if looks in _sound:
            return True
        fine = check_all(op, diagnostics)
        if fine:
            if len(_sound) >= _SOUND_LIMIT:
                _sound.clear()
            _sound.add(looks)
        return fine

    def check_all(op: Operation, diagnostics: Diagnostics) -> bool:
        if not verify_structure(op, diagnostics):
            return False
        try:
            for check in traits:
                check(op)
            if left is not None:
                left(op)
            if infer is not None and not _inferred(op, infer, diagnostics):
                return False
        except Invalid as invalid:
            _report(op, str(invalid), diagnostics)
            return False
        return True

    return verify


def _inferred(
    op: Operation, infer: Callable[[Operation], list[Type]], diagnostics: Diagnostics
) -> bool:
    results = [result.type for result in op.results]
    try:
        types = infer(op)
        if len(types) == len(results) and all(map(compatible, types, results)):
            return True
        message = (
            f"op inferred type(s) {listed(types)} are incompatible with return type(s) of "
            f"operation {listed(results)}"
        )
    except Invalid as invalid:
        message = str(invalid)
    _report(op, message, diagnostics)
    _report(op, "op failed to infer returned types", diagnostics)
    return False


def _report(op: Operation, message: str, diagnostics: Diagnostics) -> None:
    name = f"'{op.name}' " if message.startswith("op ") else ""
    diagnostics.error(op.location, name + message)


for _name in SHAPES:
    extend(_name if "." in _name else f"stablehlo.{_name}", verify=_verifier(_name))

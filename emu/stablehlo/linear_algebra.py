"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import BoolAttr
from emu.mlir.forms import ATTRIBUTES, SAME_TYPE, SIGNATURE, Draft, Operands, Piece
from emu.mlir.ir import Operation
from emu.mlir.types import Type
from emu.stablehlo.attributes import FftType
from emu.stablehlo.checks import Invalid, is_same_size, operand_tensor, sizes_text
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.kinds import FLOAT_OR_COMPLEX_TENSOR, INEXACT_TENSOR
from emu.stablehlo.spec import OpSpec
from emu.stablehlo.syntax import Enumeration, Ints
from emu.stablehlo.traits import compatible_element_types


class _Lower(Piece):
    """``, lower = true``; false is not written."""

    writes = ("lower",)

    def read(self, p: OpParser, draft: Draft) -> None:
        if p.accept(","):
            p.expect_keyword("lower")
            p.expect("=")
            draft.properties["lower"] = p.attribute()

    def write(self, w: OpPrinter, op: Operation) -> None:
        if op.properties.get("lower") == BoolAttr(True):
            w.write(", lower = true")


def _infer_cholesky(op: Operation) -> list[Type]:
    source = operand_tensor(op)
    shape = sizes_text(source.shape)
    if source.rank < 2:
        raise Invalid(f"argument 'a' must have rank >= 2, got shape {shape}.")
    if not is_same_size(source.shape[-2], source.shape[-1]):
        raise Invalid(f"minor dimensions of 'a' must have equal size, got shape {shape}.")
    return [source]


def _infer_triangular_solve(op: Operation) -> list[Type]:
    return [op.operands[1].type]


define_ops(
    OpSpec(
        name="stablehlo.cholesky",
        pieces=(" ", Operands(1), _Lower(), ATTRIBUTES, " : ", SAME_TYPE),
        operand_kinds=(INEXACT_TENSOR,),
        result_kind=INEXACT_TENSOR,
        traits=(compatible_element_types,),
        infer=_infer_cholesky,
        pure=True,
    ),
    OpSpec(
        name="stablehlo.triangular_solve",
        operands=2,
        required=("left_side", "lower", "unit_diagonal", "transpose_a"),
        infer=_infer_triangular_solve,
        pure=True,
    ),
    OpSpec(
        name="stablehlo.fft",
        pieces=(
            *(" ", Operands(1), ", type = ", Enumeration("fft_type", FftType)),
            *(", length = ", Ints("fft_length"), ATTRIBUTES, " : ", SIGNATURE),
        ),
        operand_kinds=(FLOAT_OR_COMPLEX_TENSOR,),
        result_kind=FLOAT_OR_COMPLEX_TENSOR,
        pure=True,
    ),
)

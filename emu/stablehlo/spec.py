"""``OpSpec``: all that is known of one operation, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from emu.mlir.attributes import Attribute
from emu.mlir.forms import Form, Operands, Piece
from emu.mlir.ir import BlockArgument, Operation
from emu.mlir.registry import ParseOp, PrintOp
from emu.stablehlo.checks import Check, Infer
from emu.stablehlo.constraints import Constraint
from emu.stablehlo.kinds import TensorKind


class AtLeast(NamedTuple):
    """A number of operands with a lower bound only."""

    least: int


ANY_NUMBER = AtLeast(0)


@dataclass(frozen=True, kw_only=True)
class OpSpec:
    """Form, operands, types, checks and effects of one operation.

    Its file says what belongs to the operation; ``dialect.define_ops`` makes a definition with a
    verifier of it. The verifier works through the steps in MLIR's order: numbers and attributes,
    ``operand_kinds`` and ``result_kind``, ``traits``, ``check``, ``infer``. The first error ends it.

    Attributes:
        name: Full name.
        pieces: Pretty form behind the name; empty for the generic form only.
        form_defaults: Values of inherent attributes that pretty forms leave out.
        parse: Reads a pretty form that pieces cannot describe.
        print: Writes it.
        operands: Number of operands. Default: that of the form's ``Operands``, else any.
        results: Number of results; None for any. Default: 1.
        regions: Names of the regions; None for any number. Default: none.
        required: Inherent attributes that must be there, besides those that the form must have.
        optional: Inherent attributes that may be there.
        defaults: Inherent attributes that the generic form gets where it has none.
        constraints: Constraints of inherent attributes that differ from ``CONSTRAINTS``.
        operand_kinds: Kinds of the operands; not checked where empty.
        result_kind: Kind of the only result.
        traits: Checks that compare types.
        check: The operation's own check.
        infer: Infers the types of the results.
        checks_inferred: Whether the verifier compares inferred types with the results'. Traits do
            so otherwise. Default: True.
        pure: Has no effect but its results.
        pure_if: Replaces ``pure`` where that depends on the operation.
        recursive_effects: Has the effects of the operations in its regions.
        constant: Its result is its attribute ``value``.
        terminator: Ends a block.
        isolated: Its regions use no value from outside.
        elementwise: Each element of the result comes from the same element of each operand.
        commutative: Its two operands may be swapped; ``reduce`` can name it (``applies``).
        pointwise: Dimensions of operands and results go with each other one by one; its sharding
            rule says just that.
        needs_no_rule: Sharding propagation handles it without a rule (data flow, barriers), or has
            nothing to propagate (constants, tokens).
        result_name: Returns the printed name of its results.
        argument_name: Printed name of the arguments of its regions, or a function of them.
    """

    name: str
    pieces: tuple[str | Piece, ...] = ()
    form_defaults: Mapping[str, Attribute] = field(default_factory=dict)
    parse: ParseOp | None = None
    print: PrintOp | None = None
    operands: int | AtLeast | None = None
    results: int | None = 1
    regions: tuple[str, ...] | None = ()
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    defaults: tuple[tuple[str, Attribute], ...] = ()
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    operand_kinds: tuple[TensorKind, ...] = ()
    result_kind: TensorKind | None = None
    traits: tuple[Check, ...] = ()
    check: Check | None = None
    infer: Infer | None = None
    checks_inferred: bool = True
    pure: bool = False
    pure_if: Callable[[Operation], bool] | None = None
    recursive_effects: bool = False
    constant: bool = False
    terminator: bool = False
    isolated: bool = False
    elementwise: bool = False
    commutative: bool = False
    pointwise: bool = False
    needs_no_rule: bool = False
    result_name: Callable[[Operation], str | tuple[str, ...] | None] | None = None
    argument_name: str | Callable[[BlockArgument], str | None] | None = None

    # Cached: the verifier asks at every operation, and a frozen spec does not change.
    @cached_property
    def form(self) -> Form | None:
        """Pretty form made of ``pieces``."""
        if not self.pieces:
            return None
        return Form(self.name, *self.pieces, defaults=self.form_defaults)

    @cached_property
    def operand_count(self) -> int | AtLeast:
        """Number of operands."""
        if self.operands is not None:
            return self.operands
        counts = [piece.count for piece in self.pieces if isinstance(piece, Operands)]
        return next((count for count in counts if count is not None), ANY_NUMBER)

    @cached_property
    def properties(self) -> tuple[str, ...]:
        """Names of all inherent attributes."""
        written = self.form.writes if self.form is not None else ()
        return tuple(dict.fromkeys((*written, *self.required, *self.optional)))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """Names of the inherent attributes that must be there, in MLIR's order."""
        needs = self.form.needs if self.form is not None else ()
        return tuple(sorted({*needs, *self.required}))

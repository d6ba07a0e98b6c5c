"""``emu-refine-shapes``: the program of one set of shapes."""

from __future__ import annotations

from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable
from emu.mlir.text.type_parser import parse_type
from emu.mlir.types import Type
from emu.sdy.dialect.functions import function_type, main_function
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.shapes.errors import CannotRefine


class RefineShapes(ModulePass, name="emu-refine-shapes"):
    """Make all shapes static: those of the main function's arguments decide the others.

    Operations that take shapes as operands become those that do not, shape assertions are checked, and functions
    are cloned for the shapes that they are called with.

    Attributes:
        types: Type of each argument: ``tensor<5x16xf32>``. Empty for the types that are written, which
            then must be static.
    """

    types: tuple[str, ...] = ()

    def run(self, op: Operation, session: Session) -> None:
        """Refine a module; raise PassFailed if its shapes do not follow from the arguments'."""
        # It computes with NumPy, which takes longer to import than all passes.
        from emu.sdy.passes.shapes.refinement import refine_shapes

        main = main_function(op, SymbolTable(op), session.diagnostics)
        try:
            types = [_type(text) for text in self.types]
            refine_shapes(op, main, types or function_type(main).inputs)
        except CannotRefine as error:
            session.diagnostics.error(error.location or main.location, str(error))
            raise PassFailed(str(error)) from None


def _type(text: str) -> Type:
    try:
        return parse_type(text)
    except ValueError as error:
        raise CannotRefine(f"types must be types of MLIR, but got {text!r}: {error}") from None

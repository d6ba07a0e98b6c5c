"""``run_passes``: runs passes on a module from Python."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.arguments import check_flag, check_module
from emu.mlir.diagnostics import Diagnostic, PassFailed
from emu.mlir.ir import Operation
from emu.sdy.passes.base import Pass, Session, run_pass
from emu.sdy.passes.text import passes_of


def run_passes(
    module: Operation, passes: str | Pass | Sequence[Pass], *, verify_each: bool = True
) -> list[Diagnostic]:
    """Run passes on a module, in place.

    Args:
        module: A module from ``emu.sdy.parse`` or ``emu.sdy.from_jax``.
        passes: A pipeline as text, ``"sdy-basic-propagate{keep-sharding-rules=true}"``,
            or passes.
        verify_each: Whether to verify the module after each pass. Default: yes.

    Returns:
        Warnings and remarks that the passes emitted.

    Raises:
        PassTextError: The text names an unknown pass or option.
        ArgumentError: An argument has the wrong type.
        PassFailed: A pass failed, or left an invalid module; the message has the
            errors.
    """
    check_module(module)
    check_flag("verify_each", verify_each)
    chosen = passes_of(passes)
    session = Session(verify_each=verify_each)
    for each in chosen:
        try:
            run_pass(each, module, session)
        except PassFailed as failure:
            errors = "\n".join(f"{d.location}: {d.message}" for d in session.diagnostics.errors)
            raise PassFailed(f"{each.name} failed\n{errors}") from failure.__cause__
    return session.diagnostics.emitted

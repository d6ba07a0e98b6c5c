"""Table of the dialect's operations, and their definition in the registry."""

from __future__ import annotations

from emu.mlir.registry import OpDefinition, define
from emu.stablehlo.spec import OpSpec
from emu.stablehlo.verification import make_verifier

SPECS: dict[str, OpSpec] = {}
"""Specs of the operations by full name; each family of operations adds its own."""


def define_ops(*specs: OpSpec) -> None:
    """Define operations; raises ValueError for a name that is defined already."""
    for spec in specs:
        form = spec.form
        define(
            OpDefinition(
                spec.name,
                spec.properties,
                parse=spec.parse if form is None else form.parse,
                print=spec.print if form is None else form.print,
                verify=make_verifier(spec),
                pure=spec.pure,
                pure_if=spec.pure_if,
                recursive_effects=spec.recursive_effects,
                constant=spec.constant,
                terminator=spec.terminator,
                isolated=spec.isolated,
                elementwise=spec.elementwise,
                result_name=spec.result_name,
                argument_name=spec.argument_name,
                defaults=spec.defaults,
            )
        )
        SPECS[spec.name] = spec

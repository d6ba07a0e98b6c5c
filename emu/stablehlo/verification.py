"""Verifiers of StableHLO's operations, made of their specs.

Five steps, in MLIR's order and with its words: numbers and attributes, kinds of types, traits that
compare types, the operation's own check, and the types that it infers. The first error ends it.

Not everything that StableHLO checks is checked: scatter dimension numbers and replica groups are
taken as they are.
"""

from __future__ import annotations

from emu.mlir.diagnostics import Diagnostics
from emu.mlir.ir import Operation
from emu.mlir.registry import VerifyOp
from emu.stablehlo.checks import Infer, Invalid, compatible, quoted_types
from emu.stablehlo.constraints import CONSTRAINTS
from emu.stablehlo.spec import AtLeast, OpSpec

_VERIFIED_LIMIT = 1 << 16

# Fingerprints of operations that were found valid: layers of a model, and the same module after each
# pass, repeat the same few. Constants are not among them, so that none is kept alive here.
_verified: set[tuple[object, ...]] = set()


def _fingerprint(op: Operation) -> tuple[object, ...]:
    """Return all of an operation without regions that its verifier reads."""
    return (
        op.name,
        tuple([value.type for value in op._operands]),
        tuple([result.type for result in op.results]),
        tuple(op.properties.items()),
    )


def make_verifier(spec: OpSpec) -> VerifyOp:
    """Return the verifier of an operation."""
    check_types = bool(spec.operand_kinds) or spec.result_kind is not None
    infer = spec.infer if spec.checks_inferred else None

    def verify(op: Operation, diagnostics: Diagnostics) -> bool:
        if op.regions or not op._operands:
            return check_all(op, diagnostics)
        fingerprint = _fingerprint(op)
        if fingerprint in _verified:
            return True
        valid = check_all(op, diagnostics)
        if valid:
            if len(_verified) >= _VERIFIED_LIMIT:
                _verified.clear()
            _verified.add(fingerprint)
        return valid

    def check_all(op: Operation, diagnostics: Diagnostics) -> bool:
        problem = _structure_problem(op, spec) or (_kind_problem(op, spec) if check_types else None)
        if problem is not None:
            return op.emit_op_error(diagnostics, problem)
        try:
            for trait in spec.traits:
                trait(op)
            if spec.check is not None:
                spec.check(op)
            return infer is None or _verify_inferred(op, infer, diagnostics)
        except Invalid as invalid:
            _report(op, str(invalid), diagnostics)
            return False

    return verify


def _structure_problem(op: Operation, spec: OpSpec) -> str | None:
    """Return what is wrong with numbers, attributes and regions, or None."""
    return (
        _count_problem(op, spec)
        or _missing_attribute(op, spec)
        or _attribute_problem(op, spec)
        or _region_problem(op, spec)
    )


def _count_problem(op: Operation, spec: OpSpec) -> str | None:
    regions, results = spec.regions, spec.results
    if regions is not None and len(op.regions) != len(regions):
        if len(regions) < 2:
            return "requires one region" if regions else "requires zero regions"
        return f"expected {len(regions)} regions"
    if results is not None and len(op.results) != results:
        if results < 2:
            return "requires one result" if results else "requires zero results"
        return f"expected {results} results"
    return _operand_count_problem(spec.operand_count, len(op._operands))


def _operand_count_problem(expected: int | AtLeast, count: int) -> str | None:
    if isinstance(expected, AtLeast):
        if count >= expected.least:
            return None
        return f"expected {expected.least} or more operands, but found {count}"
    if expected == count:
        return None
    if expected < 2:
        return "requires a single operand" if expected else "requires zero operands"
    return f"expected {expected} operands, but found {count}"


def _missing_attribute(op: Operation, spec: OpSpec) -> str | None:
    for name in spec.needed:
        if name not in op.properties:
            return f"requires attribute '{name}'"
    return None


def _attribute_problem(op: Operation, spec: OpSpec) -> str | None:
    for name, value in op.properties.items():
        constraint = spec.constraints.get(name) or CONSTRAINTS.get(name)
        if constraint is not None and not constraint[1](value):
            return f"attribute '{name}' failed to satisfy constraint: {constraint[0]}"
    return None


def _region_problem(op: Operation, spec: OpSpec) -> str | None:
    if not spec.regions:
        return None
    for index, (region, name) in enumerate(zip(op.regions, spec.regions, strict=True)):
        if len(region.blocks) != 1:
            place = f"region #{index} ('{name}')"
            return f"{place} failed to verify constraint: region with 1 blocks"
    return None


def _kind_problem(op: Operation, spec: OpSpec) -> str | None:
    """Return what is wrong with the kinds of operands and result, or None."""
    for index, kind in enumerate(spec.operand_kinds):
        type_ = op._operands[index].type
        if not kind.holds(type_):
            return f"operand #{index} must be {kind}, but got '{type_}'"
    result = spec.result_kind
    if result is not None and not result.holds(op.result.type):
        return f"result #0 must be {result}, but got '{op.result.type}'"
    return None


def _verify_inferred(op: Operation, infer: Infer, diagnostics: Diagnostics) -> bool:
    results = [result.type for result in op.results]
    try:
        types = infer(op)
        if len(types) == len(results) and all(map(compatible, types, results)):
            return True
        message = (
            f"op inferred type(s) {quoted_types(types)} are incompatible with return type(s) of "
            f"operation {quoted_types(results)}"
        )
    except Invalid as invalid:
        message = str(invalid)
    _report(op, message, diagnostics)
    _report(op, "op failed to infer returned types", diagnostics)
    return False


def _report(op: Operation, message: str, diagnostics: Diagnostics) -> None:
    name = f"'{op.name}' " if message.startswith("op ") else ""
    diagnostics.error(op.location, name + message)

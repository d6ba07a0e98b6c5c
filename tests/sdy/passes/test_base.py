"""The registry of passes, and when the module is verified."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sdy_programs import program

from emu.mlir import parse, to_text
from emu.mlir.attributes import UnitAttr
from emu.mlir.diagnostics import Diagnostics, PassFailed
from emu.mlir.ir import Operation
from emu.mlir.types import IntegerType
from emu.mlir.verify import (
    changed_operations,
    concerned_by,
    reordered_operations,
    verified_state,
    verify,
)
from emu.sdy.passes import PartitionPipeline, PropagationPipeline
from emu.sdy.passes.base import ModulePass, Pass, Pipeline, Session, registered, run_pass
from emu.sdy.passes.generic import Canonicalize
from emu.sdy.passes.text import parse_pipeline


def test_passes_are_known_by_name():
    assert {"canonicalize", "cse", "symbol-dce", "strip-debuginfo"} <= set(registered())
    text = "canonicalize{top-down=false enable-patterns=sdy-reshard,sdy-collective}"
    assert parse_pipeline(text) == [
        Canonicalize(top_down=False, enable_patterns=("sdy-reshard", "sdy-collective"))
    ]


def single(each: Pass) -> list[Pass]:
    if not isinstance(each, Pipeline):
        return [each]
    return [one for part in each.passes() for one in single(part)]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from((PropagationPipeline, PartitionPipeline)))
def test_a_pass_after_which_nothing_is_verified_has_changed_nothing(seed, pipeline):
    module, session = parse(program(seed), verify=False), Session(verify_each=False)
    text, state = to_text(module, generic=True), verified_state(module)
    for each in single(pipeline()):
        try:
            run_pass(each, module, session)
        except PassFailed:
            return
        new_text, new_state = to_text(module, generic=True), verified_state(module)
        assert new_state != state or new_text == text
        text, state = new_text, new_state


def states(module: Operation) -> dict[Operation, list[object]]:
    """Return what verifiers read of each operation by itself."""
    return {
        op: [
            *(op.name, op.parent, op.operands, tuple(op.successors), tuple(op.regions)),
            tuple((result, result.type) for result in op.results),
            tuple((tuple(r.blocks), [tuple(b.arguments) for b in r.blocks]) for r in op.regions),
            tuple(a.type for r in op.regions for b in r.blocks for a in b.arguments),
            dict(op.properties),
            dict(op.attributes),
        ]
        for op in module.walk()
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from((PropagationPipeline, PartitionPipeline)))
def test_each_change_of_a_pass_is_marked(seed, pipeline):
    module, session = parse(program(seed)), Session(verify_each=False)
    for each in single(pipeline()):
        for op in module.walk():
            op.changed = False
        before = states(module)
        try:
            run_pass(each, module, session)
        except PassFailed:
            return
        for op, state in states(module).items():
            old = before.get(op)
            assert op.changed or state == old, (each, op)
            if op.changed == "attributes":
                assert old is not None, (each, op)
                assert state[:-2] == old[:-2], (each, op)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from((PropagationPipeline, PartitionPipeline)))
def test_operations_that_no_change_concerns_stay_valid_or_invalid(seed, pipeline):
    """Break one operation: verifying what is concerned says what verifying all says."""
    module, session = parse(program(seed)), Session()
    rng = random.Random(seed)
    for each in single(pipeline()):
        try:
            run_pass(each, module, session)
        except PassFailed:
            return
        assert verify(module, Diagnostics())
        ops = [op for op in module.walk() if op.properties or op.attributes]
        op = rng.choice(ops)
        held = rng.choice([d for d in (op.properties, op.attributes) if d])
        name = rng.choice(sorted(held))
        kept = held[name]
        if rng.randrange(2):
            del held[name]
        else:
            held[name] = rng.choice([UnitAttr(), *rng.choice(ops).properties.values()])
        changed = changed_operations(module)
        assert op in changed or held.get(name) is kept
        concerned, reordered = concerned_by(module, changed), reordered_operations(changed)
        verdicts = [
            verify(module, Diagnostics()),
            verify(module, Diagnostics(), concerned, reordered=reordered),
        ]
        if op.parent_op is None or op.parent_op.name != "builtin.module" or op.name == "func.func":
            assert verdicts[0] == verdicts[1], (each, op, name)
        entries = dict(held)
        held.clear()
        held.update({n: kept if n == name else entries[n] for n in [*entries, name]})


class Break(ModulePass):
    """Change the type of an operation's result to one that it cannot have."""

    name = "test-break"

    def run(self, op: Operation, session: Session) -> None:
        named = next(each for each in op.walk() if each.name == "stablehlo.tanh")
        named.result.type = IntegerType(1)


def test_a_module_is_verified_after_a_pass_that_changed_it():
    text = "func.func @f(%x: tensor<8xf32>) { %0 = stablehlo.tanh %x : tensor<8xf32> return }"
    module, session = parse(text), Session()
    for _ in range(2):
        run_pass(Canonicalize(enable_patterns=("none",)), module, session)
        assert session.verified is not None
        assert not changed_operations(module)
    module = parse(text)
    run_pass(single(PropagationPipeline())[0], module, session)
    with pytest.raises(PassFailed, match="failed to verify after test-break"):
        run_pass(Break(), module, session)
    # Wrong it stays, and is found so again.
    with pytest.raises(PassFailed, match="failed to verify after test-break"):
        run_pass(Break(), module, session)

from __future__ import annotations

import pytest

from emu.mlir.diagnostics import Diagnostics, FileLoc, MlirError, PassFailed, Severity
from emu.mlir.ir import Block, Operation, Region
from emu.sdy.dialect.attributes import DimMapping, OpShardingRule, TensorMapping
from emu.sdy.passes.base import Session
from emu.sdy.passes.base import registered as passes
from emu.sdy.passes.populate import PopulateOpShardingRules
from emu.sdy.rules import (
    RuleBuilder,
    get_or_create,
    identity_rule,
    register,
    registered,
    sharding_rule,
    unregister,
)

OTHER = identity_rule((99,))


@pytest.fixture
def added():
    """Registers rules, and takes them away in the end."""
    names = []

    def add(name, function, **options):
        register(name, **options)(function)
        names.append(name)

    yield add
    for name in names:
        unregister(name)


def reversed_rule(op):
    size = op.results[0].type.static_shape[0]
    return RuleBuilder.of(op).add([0], [1], size).build(custom=True)


def call(make, target, operands=("4x4",), results=("4x4",)):
    return make("stablehlo.custom_call", operands, results, call_target_name=target)


# Rules that users add


def test_a_rule_for_a_custom_call(make, text_of, added):
    added("@my.kernel", reversed_rule)
    assert text_of(call(make, "my.kernel")) == "([i, j])->([k, i]) {i=4, j=1, k=1}, custom"
    assert registered("@my.kernel") is reversed_rule


def test_a_rule_for_an_operation(make, text_of, added):
    added("my.kernel", reversed_rule)
    assert text_of(make("my.kernel", ["4x4"], ["4x4"])) is not None
    # A custom call of that name is something else.
    assert text_of(call(make, "my.kernel")) is None


def test_a_rule_as_decorator(make, text_of):
    @register("@decorated")
    def rule(op):
        return identity_rule(op.results[0].type.static_shape)

    try:
        assert text_of(call(make, "decorated")) == "([i, j])->([i, j]) {i=4, j=4}"
        assert rule(call(make, "decorated")) is identity_rule((4, 4))
    finally:
        unregister("@decorated")


def test_a_rule_may_ask_how_it_is_used(make, text_of, added):
    def rule(op, *, conservative):
        return None if conservative else identity_rule(op.results[0].type.static_shape)

    added("@asks", rule)
    assert text_of(call(make, "asks")) is not None
    assert text_of(call(make, "asks"), conservative=True) is None


def test_names_have_one_rule(make, text_of, added):
    with pytest.raises(ValueError, match=r"'stablehlo.add' has a sharding rule already"):
        register("stablehlo.add")
    added("@mine", reversed_rule)
    with pytest.raises(ValueError, match="'@mine' has a sharding rule already"):
        register("@mine")


def test_a_rule_may_replace_another(make, text_of):
    built_in = registered("stablehlo.add")
    register("stablehlo.add", replace=True)(lambda op: None)
    assert text_of(make("stablehlo.add", ["4"], ["4"])) is None
    unregister("stablehlo.add")
    assert registered("stablehlo.add") is built_in
    assert text_of(make("stablehlo.add", ["4"], ["4"])) == "([i])->([i]) {i=4}"
    with pytest.raises(ValueError, match=r"no sharding rule was registered for 'stablehlo\.add'"):
        unregister("stablehlo.add")


@pytest.mark.parametrize("name", ["", "@", "kernel", ".kernel", "my.", "stablehlo.custom_call"])
def test_names_say_what_they_name(name):
    with pytest.raises(ValueError, match=r"name must be .*'@my_kernel'"):
        register(name)


def broken(**changes):
    values = {
        "factor_sizes": (4, 2),
        "operands": (TensorMapping((DimMapping((0,)), DimMapping((1,)))),),
        "results": (TensorMapping((DimMapping((0,)), DimMapping((1,)))),),
    }
    return OpShardingRule(**{**values, **changes})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (broken(operands=()), "number of operands and mappings must match: 1 != 0"),
        (broken(results=(TensorMapping(()),)), "result - mapping rank must match: 0 != 2"),
        (broken(factor_sizes=(4, 2, 3)), "has factor k=3 that isn't used"),
        (broken(reduction=(0,)), "reduction factor cannot be in result mappings"),
        (broken(permutation=(2,)), "index must be less than 2, got: 2"),
        ("i, j -> i", "requires an OpShardingRule or None, but got str"),
    ],
)
def test_what_a_users_rule_gives_is_verified(make, added, given, message):
    added("@broken", lambda op: given)
    with pytest.raises(MlirError) as caught:
        sharding_rule(call(make, "broken"))
    assert f"'stablehlo.custom_call' op {message}" in str(caught.value)
    assert "in the sharding rule that is registered for '@broken'" in str(caught.value)
    diagnostics = Diagnostics()
    with pytest.raises(PassFailed):
        sharding_rule(call(make, "broken"), diagnostics=diagnostics)
    assert [d.severity for d in diagnostics.emitted] == [Severity.ERROR]


# What is on the operation


def test_a_rule_that_is_there_counts(make):
    op = make("stablehlo.add", ["4"], ["4"])
    op.attributes["sdy.sharding_rule"] = OTHER
    assert get_or_create(op) is OTHER
    assert sharding_rule(op) == identity_rule((4,))


def test_a_new_rule_is_set(make):
    op = make("stablehlo.add", ["4"], ["4"])
    assert get_or_create(op, set_on_op=False) == identity_rule((4,))
    assert not op.attributes
    assert get_or_create(op) == identity_rule((4,))
    assert op.attributes == {"sdy.sharding_rule": identity_rule((4,))}


def test_without_a_rule_nothing_is_set(make):
    op = make("stablehlo.iota", [], ["4"])
    assert get_or_create(op) is None
    assert not op.attributes


# Warnings


def located(op, line):
    op.location = FileLoc("x.mlir", line, 1)
    return op


def test_one_unknown_operation_and_one_unknown_call_are_told(make):
    diagnostics = Diagnostics()
    ops = [
        make("test.first", ["4"], ["4"]),
        make("test.second", ["4"], ["4"]),
        call(make, "one"),
        call(make, "two"),
        make("test.first", ["4"], ["4"]),
    ]
    for line, op in enumerate(ops, 1):
        assert sharding_rule(located(op, line), diagnostics=diagnostics) is None
    assert [(d.severity, str(d.location), d.message) for d in diagnostics.emitted] == [
        (
            Severity.WARNING,
            "x.mlir:1:1",
            "op 'test.first' is unknown to SDY sharding rule registry",
        ),
        (
            Severity.WARNING,
            "x.mlir:3:1",
            "custom call @one is unknown to SDY sharding rule registry",
        ),
    ]
    # Another run warns again.
    again = Diagnostics()
    sharding_rule(ops[1], diagnostics=again)
    assert len(again.emitted) == 1


SILENT = """builtin.module func.call func.func func.return sdy.constant sdy.data_flow_edge
sdy.func_data_flow_edge sdy.manual_computation sdy.mesh sdy.named_computation
sdy.propagation_barrier sdy.reshard sdy.return sdy.sharding_group stablehlo.after_all
stablehlo.case stablehlo.constant stablehlo.create_token stablehlo.get_tuple_element
stablehlo.infeed stablehlo.iota stablehlo.optimization_barrier stablehlo.outfeed
stablehlo.partition_id stablehlo.recv stablehlo.return stablehlo.send stablehlo.while"""


@pytest.mark.parametrize("name", SILENT.split())
def test_silent_operations(make, name):
    diagnostics = Diagnostics()
    assert sharding_rule(make(name, ["4"], ["4"]), diagnostics=diagnostics) is None
    assert not diagnostics.emitted


@pytest.mark.parametrize(
    "target",
    [
        "sdy_testonly",
        "tpu_custom_call",
        "xla_ffi_python_cpu_callback",
        "xla_ffi_python_gpu_callback",
        "xla.debug.Log",
        "xla_python_cpu_callback",
        "xla_python_gpu_callback",
    ],
)
def test_silent_targets(make, target):
    diagnostics = Diagnostics()
    assert sharding_rule(call(make, target), diagnostics=diagnostics) is None
    assert not diagnostics.emitted


# The pass


def module_of(*ops):
    function = Operation("func.func", regions=[Region([Block()])])
    for op in ops:
        function.body().append(op)
    module = Operation("builtin.module", regions=[Region([Block()])])
    module.body().append(function)
    return module, function


def test_the_pass(make):
    assert passes()["sdy-populate-op-sharding-rules"] is PopulateOpShardingRules
    inner = make("stablehlo.add", ["", ""], [""])
    loop = make("stablehlo.while", ["4"], ["4"], [Region([Block()])])
    loop.body().append(inner)
    outer = make("stablehlo.slice", ["8"], ["4"])
    _, function = module_of(loop, outer)
    PopulateOpShardingRules().run(function, Session())
    assert inner.attributes["sdy.sharding_rule"] == identity_rule((), 2)
    assert outer.attributes["sdy.sharding_rule"].blocked_propagation == ()
    assert "sdy.sharding_rule" not in loop.attributes


def test_the_pass_can_be_conservative(make):
    op = make("stablehlo.slice", ["8"], ["4"])
    _, function = module_of(op)
    PopulateOpShardingRules(conservative_propagation=True).run(function, Session())
    assert op.attributes["sdy.sharding_rule"].blocked_propagation == (0,)


def test_the_pass_warns_of_inner_operations_first(make):
    outer = make("test.outer", ["4"], ["4"], [Region([Block()])])
    outer.body().append(make("test.inner", ["4"], ["4"]))
    _, function = module_of(outer)
    session = Session()
    PopulateOpShardingRules().run(function, session)
    assert [d.message for d in session.diagnostics.emitted] == [
        "op 'test.inner' is unknown to SDY sharding rule registry"
    ]


# Sharing


def test_equal_operations_share_a_rule(make):
    def sliced(*sizes, conservative=False, strides=(1, 1)):
        op = make("stablehlo.slice", ["8x8"], [f"{sizes[0]}x{sizes[1]}"], strides=strides)
        return sharding_rule(op, conservative=conservative)

    assert sliced(4, 8) is sliced(4, 8)
    assert sliced(8, 4) != sliced(4, 8)
    assert sliced(4, 8, conservative=True) != sliced(4, 8)
    assert sliced(4, 8, strides=(2, 1)) == sliced(4, 8)


def test_sharing_is_bounded(make, monkeypatch):
    monkeypatch.setattr("emu.sdy.rules.registry._shared", shared := {})
    monkeypatch.setattr("emu.sdy.rules.registry._MOST_SHARED", 3)
    for size in range(1, 9):
        sharding_rule(make("stablehlo.slice", ["9"], [str(size)]))
        assert 1 <= len(shared) <= 3

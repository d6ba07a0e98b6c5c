"""The greedy rewrite driver: its order, what it erases, what it makes of constants."""

from __future__ import annotations

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import UNKNOWN, FileLoc, FusedLoc, fused
from emu.mlir.ir import Operation
from emu.mlir.transforms.rewriting import Pattern, PatternSet, Rewriter, Worklist, rewrite_greedily

NONE = PatternSet([])

CHAIN = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  %1 = "stablehlo.if"(%p) ({
    %3 = stablehlo.sine %0 : tensor<4xf32>
    stablehlo.return %3 : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %2 = stablehlo.cosine %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
""".replace("@f(%x: tensor<4xf32>)", "@f(%x: tensor<4xf32>, %p: tensor<i1>)")


def _func(text: str) -> Operation:
    return parse(text).body().operations[0]


def _visited(*, top_down: bool) -> list[str]:
    seen: list[str] = []

    def look(op: Operation, rewriter: Rewriter) -> bool:
        seen.append(op.name.partition(".")[2])
        return False

    func = _func(CHAIN)
    assert rewrite_greedily(func.regions[0], PatternSet([Pattern(look)]), top_down=top_down)
    return seen


def test_operations_are_met_in_program_order():
    inside = ["sine", "return", "return"]
    assert _visited(top_down=True) == ["tanh", "if", *inside, "cosine", "return"]


def test_or_from_the_end_with_ancestors_behind_the_first_that_is_inside():
    # The `if` is pushed with the sine, so that it comes off before it but
    # after the returns.
    assert _visited(top_down=False) == [
        "return",
        "cosine",
        "return",
        "return",
        "if",
        "sine",
        "tanh",
    ]


def test_a_worklist_holds_each_operation_once_and_where_it_was_pushed_first():
    a, b, c = (Operation(name) for name in ("a.a", "b.b", "c.c"))
    worklist = Worklist()
    for op in (a, b, a, c):
        worklist.push(op)
    worklist.remove(b)
    worklist.remove(b)
    assert a in worklist
    assert b not in worklist
    worklist.reverse()
    assert [worklist.pop(), worklist.pop()] == [a, c]
    assert not worklist


def test_patterns_go_by_benefit_then_name_then_order():
    tried: list[str] = []

    def note(what: str, op: str | None, benefit: int = 1) -> Pattern:
        def apply(op: Operation, rewriter: Rewriter) -> bool:
            tried.append(what)
            return False

        return Pattern(apply, op, benefit)

    patterns = PatternSet(
        [
            note("any", None),
            note("first", "stablehlo.tanh"),
            note("second", "stablehlo.tanh"),
            note("other", "stablehlo.sine"),
            note("better", None, 2),
        ]
    )
    op = Operation("stablehlo.tanh")
    for apply in patterns.of(op):
        apply(op, Rewriter(None))
    assert tried == ["better", "first", "second", "any"]


def test_the_first_pattern_that_applies_is_the_last_that_is_tried():
    func = _func("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                 "  %0 = stablehlo.tanh %x : tensor<4xf32>\n"
                 "  return %0 : tensor<4xf32>\n}")  # fmt: skip

    def bypass(op: Operation, rewriter: Rewriter) -> bool:
        rewriter.replace(op, op.operands)
        return True

    def never(op: Operation, rewriter: Rewriter) -> bool:
        raise AssertionError("another pattern applied")

    patterns = PatternSet([Pattern(bypass, "stablehlo.tanh"), Pattern(never, "stablehlo.tanh")])
    assert rewrite_greedily(func.regions[0], patterns)
    assert [op.name for op in func.body()] == ["func.return"]


def test_users_of_what_is_replaced_are_visited_again():
    func = _func(CHAIN)
    order: list[str] = []

    def apply(op: Operation, rewriter: Rewriter) -> bool:
        order.append(op.name)
        if op.name == "stablehlo.cosine" and op.operands[0].defining_op is not None:
            rewriter.replace_uses(op.operands[0], func.body().arguments[0])
            return True
        return False

    rewrite_greedily(func.regions[0], PatternSet([Pattern(apply)]), top_down=False)
    # The cosine is at once visited again, and then the `if` is dead.
    assert order[:3] == ["func.return", "stablehlo.cosine", "stablehlo.cosine"]
    assert [op.name for op in func.body()] == ["stablehlo.cosine", "func.return"]


def test_rewriting_that_never_ends_is_given_up():
    func = _func("func.func @f() {\n  return\n}")
    rounds = 0

    def again(op: Operation, rewriter: Rewriter) -> bool:
        nonlocal rounds
        rounds += 1
        return True

    assert not rewrite_greedily(func.regions[0], PatternSet([Pattern(again)]), max_iterations=3)
    assert rounds == 3


def test_what_nothing_needs_goes_and_what_has_effects_stays():
    func = _func("""
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  %1 = stablehlo.sine %0 : tensor<4xf32>
  %2 = stablehlo.custom_call @quiet(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = stablehlo.custom_call @loud(%x) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "who.knows"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  sdy.sharding_group %x group_id=0 : tensor<4xf32>
  %5 = stablehlo.while(%y = %x) : tensor<4xf32> cond {
    %6 = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %6 : tensor<i1>
  } do {
    stablehlo.return %y : tensor<4xf32>
  }
  return %x : tensor<4xf32>
}""")
    assert rewrite_greedily(func.regions[0], NONE)
    assert [op.name for op in func.body()] == [
        "stablehlo.custom_call",
        "who.knows",
        "sdy.sharding_group",
        "func.return",
    ]


CONSTANTS = """
func.func @f(%p: tensor<i1>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = "stablehlo.if"(%p) ({
    %2 = stablehlo.constant dense<2.0> : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }, {
    %3 = stablehlo.constant dense<1.0> : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  %4 = stablehlo.constant dense<2.0> : tensor<f32>
  return %0, %1, %4 : tensor<f32>, tensor<f32>, tensor<f32>
}
"""


def test_equal_constants_become_one_at_the_head():
    func = _func(CONSTANTS)
    assert rewrite_greedily(func.regions[0], NONE)
    assert (
        to_text(func)
        == """\
func.func @f(%arg0: tensor<i1>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %0 = "stablehlo.if"(%arg0) ({
    stablehlo.return %cst : tensor<f32>
  }, {
    stablehlo.return %cst_0 : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %cst_0, %0, %cst : tensor<f32>, tensor<f32>, tensor<f32>
}"""
    )
    assert [op.location == UNKNOWN for op in func.body()] == [True, True, False, False]


def test_or_are_left_as_they_are():
    func = _func(CONSTANTS)
    before = to_text(func)
    assert rewrite_greedily(func.regions[0], NONE, unify_constants=False)
    assert to_text(func) == before


def test_constants_in_what_nobody_defined_stay_there():
    func = _func("""
func.func @f() {
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  "who.knows"(%0) ({
    %1 = stablehlo.constant dense<1.0> : tensor<f32>
    "who.ends"(%1) : (tensor<f32>) -> ()
  }) : (tensor<f32>) -> ()
  return
}""")
    before = to_text(func)
    assert rewrite_greedily(func.regions[0], NONE)
    assert to_text(func) == before


def test_where_what_is_made_of_two_is_from():
    a, b = FileLoc("a", 1, 1), FileLoc("b", 2, 2)
    assert fused([a, UNKNOWN]) == a
    assert fused([]) == UNKNOWN
    assert fused([b, a, b]) == FusedLoc((b, a))
    assert fused([FusedLoc((a, b)), b]) == FusedLoc((a, b))
    assert fused([FusedLoc((a,), '"why"'), a]) == FusedLoc((FusedLoc((a,), '"why"'), a))


def test_operands_erased_at_once_keep_the_order_of_uses():
    func = _func("func.func @f(%x: tensor<f32>, %y: tensor<f32>) {\n"
                 '  "who.uses"(%x, %y, %x, %y) : (tensor<f32>, tensor<f32>, tensor<f32>, '
                 "tensor<f32>) -> ()\n  return\n}")  # fmt: skip
    op = func.body().operations[0]
    x, y = func.body().arguments
    op.erase_operands([1, 2])
    assert op.operands == (x, y)
    assert [index for _, index in x.uses] == [0]
    assert [index for _, index in y.uses] == [1]
    op.erase_operands([])
    assert op.operands == (x, y)

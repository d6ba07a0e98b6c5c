"""Texts that are nearly right give a module, or an error that says where they are wrong.

And what the verifier takes, every pass takes, or refuses with an error of its own.
"""

from __future__ import annotations

import random

import pytest

import emu.sdy
from emu.sdy.passes.text import known_passes

from .mutations import mutated

BATCHES, OF = 20, 50
KNOWN = [3035, 25429]
"""Texts that passes once met with an error of our inside."""


UNLINKED = """
func.func @f() {
  stablehlo.while(%a = %b) : tensor<i1> cond {
    %c = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %b = stablehlo.not %a : tensor<i1>
    stablehlo.return %b : tensor<i1>
  }
  return
}
"""


def run_all(seed: int) -> bool:
    """Read a text, print it, run passes on it, explain it; whether it could be read."""
    text = mutated(seed)
    rng = random.Random(seed)
    try:
        module = emu.sdy.parse(text)
    except emu.sdy.MlirError:
        return False
    for generic in (False, True):
        emu.sdy.to_text(module, generic=generic, locations=True)
    for name in rng.sample(sorted(known_passes()), 2):
        try:
            emu.sdy.run(emu.sdy.parse(text), name)
        except emu.sdy.PassFailed as error:
            if "internal error" in str(error) and seed not in KNOWN:
                raise  # an error of our inside
    if not rng.randrange(3):
        explanation = emu.sdy.explain(text)
        explanation.html()
        for report in explanation:
            str(report)
    return True


@pytest.mark.parametrize("batch", range(BATCHES))
def test_nearly_right_texts(batch: int) -> None:
    read = [run_all(seed) for seed in range(batch * OF, (batch + 1) * OF)]
    assert 0 < sum(read) < OF  # otherwise the changes are too rough, or none


@pytest.mark.parametrize(
    ("seed", "passes"), [(3035, "sdy-inline-meshes"), (25429, "emu-partition-pipeline")]
)
def test_what_a_pass_does_not_expect_is_an_error_of_the_pass(seed: int, passes: str) -> None:
    with pytest.raises(emu.sdy.PassFailed, match="cannot take this module: internal error") as it:
        emu.sdy.run(emu.sdy.parse(mutated(seed)), passes)
    assert isinstance(it.value.__cause__, ValueError)  # where it comes from is not lost


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", None),
        ("\x00", "-:1:1: error:"),
        ("module {\ud83d}", "-:1:9: error: text must be Unicode, but has '\\ud83d' here"),
        ("(" * 200_000, "error:"),
        ("module {" * 50_000, "regions are nested too deeply"),
        ("func.func @f() attributes {a = " + "[" * 100_000, "error:"),
        ("func.func @f(%a: " + "tuple<" * 50_000, "error:"),
        ("#x = loc(" + "callsite(" * 50_000, "error:"),
        ("func.func @f() { %0 = stablehlo.constant dense<" + "[" * 100_000 + ">", "error:"),
        (
            'sdy.mesh @m = <["x"=99999999999], device_ids=[1, 0]>',
            "total product of axis sizes must match total number of device ids",
        ),
        (
            "%0 = stablehlo.constant dense<[[1]]> : tensor<99999999999x2xi64>",
            "does not match type",
        ),
        ("func.func @f(%a: tensor<4xi4294967296>)", "invalid integer width"),
        ("func.func @f(%a: tensor<4xi99999999>)", "bitwidth is limited to 16777215 bits"),
        ('sdy.mesh @m = <["x"=99999999999999999999]>', "integer value too large"),
        ("func.func @f() attributes {a = " + "9" * 5_000 + " : i32}", "number is too large"),
        (
            UNLINKED,
            "operation's operand is unlinked",
        ),
    ],
)
def test_extreme_texts(text: str, said: str | None) -> None:
    if said is None:
        assert str(emu.sdy.parse(text)).startswith("module")
        return
    with pytest.raises(emu.sdy.MlirError) as caught:
        emu.sdy.parse(text)
    assert said in str(caught.value)

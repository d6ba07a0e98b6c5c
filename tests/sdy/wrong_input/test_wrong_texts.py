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
            emu.sdy.run_passes(emu.sdy.parse(text), name)
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


def test_what_a_pass_does_not_expect_is_an_error_of_the_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*_: object) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(known_passes()["sdy-close-shardings"], "run", run)
    with pytest.raises(
        emu.sdy.PassFailed, match="cannot take this module: internal error: ValueError: odd"
    ) as it:
        emu.sdy.run_passes(emu.sdy.parse("func.func private @f()"), "sdy-close-shardings")
    assert isinstance(it.value.__cause__, ValueError)  # where it comes from is not lost


MILLION = "9" * 10**6
"""More digits than Python converts."""

LONG = [
    (f'"t.a"() {{x = {MILLION}}} : () -> ()', "1:14: error: integer constant out of range"),
    (f'"t.a"() {{x = dense<{MILLION}> : tensor<i8>}} : () -> ()', "1:20: error: integer constant"),
    (f'"t.a"() {{x = dense<0x{MILLION}> : tensor<f32>}} : () -> ()', "float constant out of range"),
    (f'"t.a"() : () -> tensor<{MILLION}xf32>', "1:24: error: invalid dimension"),
    (f'"t.a"() : () -> tensor<4xi{MILLION}>', "1:26: error: invalid integer width"),
    (f'sdy.mesh @m = <["x"={MILLION}]>', "1:21: error: custom op 'sdy.mesh' integer value too"),
    (f'"t.a"() : () -> () loc("f":{MILLION}:1)', "expected integer line number"),
    (f'%0:{MILLION} = "t.a"() : () -> ()', "1:4: error: expected named operation"),
    (f'"t.a"(%0#{MILLION}) : (i32) -> ()', "1:9: error: invalid SSA value result number"),
    ('"t.a"(%0#999999999) : (i32) -> ()', "1:7: error: use of undeclared SSA value name"),
    (f"#sdy.sharding<@m, [{{}}p{MILLION}]>", "expected operation name in quotes"),
    (
        f'"t.a"() {{x = #sdy.sharding<@m, [{{}}p{MILLION}]>}} : () -> ()',
        "integer priority, got: p9",
    ),
    ('"t.a"() {x = "' + "a" * 10**7, "expected '\"' in string literal"),
    ('"t.a"() {x = "' + "a" * 10**7 + '"} : () -> () bad', "custom op 'bad' is unknown"),
    ("x" * 10**7, " as well)"),
    ('"t.a"() {' + "k" * 10**6 + ", " + "k" * 10**6 + "}", "duplicate key 'kkkk"),
    ("module {\n" + " \n" * 10**5, "1:9: error: expected operation name in quotes"),
    (
        '"t.a"(' + ", ".join([f"%{i}" for i in range(10**4)]) + ") : "
        "(" + ", ".join(["i8"] * 10**4) + ") -> ()",
        "and 9900 more",
    ),
]
"""Texts that are wrong in a long line, or by a long number."""


@pytest.mark.parametrize(("text", "said"), LONG, ids=range(len(LONG)))
def test_messages_about_long_texts_are_short(text: str, said: str) -> None:
    with pytest.raises(emu.sdy.MlirError) as caught:
        emu.sdy.parse(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 100_000


def test_the_place_in_a_long_line_is_shown() -> None:
    text = '"t.a"() {x = "' + "a" * 1000 + '", y = ] , z = "' + "b" * 1000 + '"} : () -> ()'
    with pytest.raises(emu.sdy.MlirError) as caught:
        emu.sdy.parse(text)
    _, line, caret = str(caught.value).split("\n")
    assert line.startswith("…a")
    assert line.endswith("b…")
    assert line[: caret.index("^")].endswith(", y =")
    assert len(line) < 500


@pytest.mark.parametrize("size", [2**63, 2**64, 10**40])
def test_a_dimension_beyond_64_bits_is_refused(size: int) -> None:
    with pytest.raises(emu.sdy.MlirError, match="1:24: error: invalid dimension"):
        emu.sdy.parse(f'"t.a"() : () -> tensor<{size}xf32>')
    emu.sdy.parse(f'%0 = "t.a"() : () -> tensor<{2**63 - 1}xf32>')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", None),
        ("\x00", "-:1:1: error:"),
        ("module {\ud83d}", "-:1:9: error: text must be Unicode, but has '\\ud83d' here"),
        ("(" * 200_000, "error:"),
        ("module {" * 50_000, "nested too deeply"),
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
        ("func.func @f() attributes {a = " + "9" * 5_000 + " : i32}", "out of range"),
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

"""The text of PTX as statements."""

from __future__ import annotations

import pytest

from emu.triton.language.assembly.text import (
    Address,
    Declaration,
    Immediate,
    Instruction,
    Label,
    Pair,
    Register,
    Scope,
    Vector,
    parse,
)


def test_white_space_and_comments_do_not_count() -> None:
    text = "/* two\nlines */ add.rn.f32   $0 ,$1,\n  $2 ; // the end"
    assert parse(text) == parse("add.rn.f32 $0 , $1, $2;")
    (found,) = parse("add.rn.f32 $0, $1, $2")
    assert isinstance(found, Instruction)
    assert (found.name, found.suffixes) == ("add", ("rn", "f32"))
    assert found.operands == (Register("$0"), Register("$1"), Register("$2"))


def test_a_vector_is_its_components() -> None:
    text = (
        ".reg .v2 .b32 %a, b; mov.v2.b32 %a, b; add.s32 %a.x, b.g, b.y; ld.global.v2.u32 b, [%a];"
    )
    declared, moved, added, loaded = parse(text)
    assert declared == Declaration("b32", ("%a.x", "%a.y", "b.x", "b.y"))
    first, second = (Vector((Register(f"{name}.x"), Register(f"{name}.y"))) for name in ("%a", "b"))
    assert isinstance(moved, Instruction)
    assert moved.operands == (first, second)
    assert isinstance(added, Instruction)
    assert added.operands == (Register("%a.x"), Register("b.y"), Register("b.y"))
    assert isinstance(loaded, Instruction)
    assert loaded.operands[0] == second


def test_statements_of_every_kind() -> None:
    text = (
        "{ .reg .pred %p<2>; .reg .b32 a, b; again: @!%p1 bra again; setp.eq.s32 a|b, !%p0, -4; }"
    )
    scope, pairs, words, label, branch, compare, end = parse(text)
    assert (scope, end) == (Scope(opens=True), Scope(opens=False))
    assert pairs == Declaration("pred", ("%p0", "%p1"))
    assert words == Declaration("b32", ("a", "b"))
    assert label == Label("again")
    assert isinstance(branch, Instruction)
    assert branch.guard == Register("%p1", negated=True)
    assert isinstance(compare, Instruction)
    assert compare.operands == (
        Pair(Register("a"), Register("b")),
        Register("%p0", negated=True),
        Immediate(-4),
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("12", 12), ("0x1F", 31), ("0b101", 5), ("017", 15), ("7U", 7), ("-0x10", -16), ("0", 0)],
        *[("0f3F800000", 1.0), ("0d4000000000000000", 2.0), ("1.5", 1.5), ("-2e3", -2000.0)],
    ],
)
def test_numbers(text: str, value: float) -> None:
    (found,) = parse(f"mov.b32 $0, {text};")
    assert isinstance(found, Instruction)
    assert found.operands[1] == Immediate(value)


def test_vectors_and_addresses() -> None:
    load, plain = parse("ld.global.v2.u32 {$0, $1}, [$2+16]; st.global.u32 [ $2 ], $0;")
    assert isinstance(load, Instruction)
    assert load.operands == (
        Vector((Register("$0"), Register("$1"))),
        Address(Register("$2"), 16),
    )
    assert isinstance(plain, Instruction)
    assert plain.operands[0] == Address(Register("$2"), 0)


@pytest.mark.parametrize("text", ["mov.b32 $0, a-b;", "ld.global.u32 $0, [$1+$2];"])
def test_operands_outside_the_subset_are_named(text: str) -> None:
    with pytest.raises(NotImplementedError, match=r"of the instruction '.*' is not in the subset"):
        parse(text)

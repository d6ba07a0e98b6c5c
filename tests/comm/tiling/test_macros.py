"""The reader of TILING_DATA_DEF text."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.comm.errors import ArgumentError
from emu.comm.tiling import (
    MacroError,
    TilingData,
    layout_of,
    macro_text,
    read_macros,
    uint8,
    uint32,
)

LISTING = Path(__file__).with_name("seed_listing.txt").read_text(encoding="utf-8")
SETTINGS = bytes({0: 1, 83: 1, 88: 3, 89: 4}.get(i, 0) for i in range(96))


def declare(body, name="S"):
    return f"BEGIN_TILING_DATA_DEF({name})\n{body}\nEND_TILING_DATA_DEF;\n"


A = declare("TILING_DATA_FIELD_DEF(uint8_t, a);", "A")


def test_the_listing_as_it_stands_yields_its_bytes():
    read = read_macros(LISTING)
    assert list(read.structs) == ["Mc2Msg", "AllGatherMatmulCustomTilingData"]
    assert read.registered == {"Mc2MsgOp": read.structs["Mc2Msg"]}
    assert read.instances["tiling"].to_bytes() == SETTINGS
    assert read.unread == []


def test_prose_and_other_languages_around_the_listing_do_not_matter():
    around = (
        'Don\'t 下载 中文\n• 0、一 "x1": [\n{"op": "AllGather", "type": ["float16"]}]\n# title\n'
    )
    assert read_macros(around + LISTING + around).instances["tiling"].to_bytes() == SETTINGS
    assert read_macros(LISTING.replace("\n", "\r\n")).instances["tiling"].to_bytes() == SETTINGS


def test_blanks_breaks_comments_and_missing_semicolons():
    read = read_macros(
        "/* a\n b */ BEGIN_TILING_DATA_DEF ( S ) // begin\n"
        " TILING_DATA_FIELD_DEF\n(\nuint32_t /* first */ ,\n x // name\n)\n"
        "TILING_DATA_FIELD_DEF_ARR(std::uint16_t,3,arr)TILING_DATA_FIELD_DEF(float, f);;\n"
        "END_TILING_DATA_DEF\n"
        "BEGIN_TILING_DATA_DEF(T) TILING_DATA_FIELD_DEF_STRUCT (S , s ) END_TILING_DATA_DEF;"
    )
    assert read.structs["T"].offsets() == {"s.x": 0, "s.arr": 4, "s.f": 12}


def test_what_stands_in_comments_and_strings_is_no_macro():
    read = read_macros(
        f'// {LISTING.splitlines()[1]}\n/* {A} */ const char *s = "BEGIN_TILING_DATA_DEF(X)";\n'
        "#define BEGIN_TILING_DATA_DEF(name) \\\n  class name { \\\n  public:\n" + A
    )
    assert list(read.structs) == ["A"]


def test_structs_are_read_inside_namespaces_and_used_with_their_names():
    read = read_macros(
        "#include <x.h>\nnamespace optiling {\n" + A + "REGISTER_TILING_DATA_CLASS(Op, A)\n}\n"
        "int f() { optiling::A tiling; tiling.set_a(5); return tiling.GetDataSize(); }"
    )
    assert read.registered == {"Op": read.structs["A"]}
    assert read.instances["tiling"].a == 5


def test_lengths_may_be_named_constants():
    body = "TILING_DATA_FIELD_DEF_ARR(uint32_t, {}, a);"
    head = "#define CORES 8 // of them\nconstexpr uint32_t KINDS = 0x2, MORE = KINDS + 1;\n"
    for text, count in [
        ("CORES", 8),
        ("KINDS * CORES", 16),
        ("(CORES - 1) << 1", 14),
        ("MORE", 3),
        ("010", 8),
        ("1'0u", 10),
        ("CORES / 3", 2),
        ("static_cast<uint8_t>(5)", 5),
        ("(uint32_t)6", 6),
        ("uint32_t(7)", 7),
    ]:
        struct = read_macros(head + declare(body.format(text))).structs["S"]
        assert layout_of(struct).by_name["a"].size == 4 * count, text
    given_ = read_macros(declare(body.format("N")), constants={"N": 3}).structs["S"]
    assert given_.size == 16


def test_structs_of_another_text_can_be_nested():
    first = read_macros(A)
    second = read_macros(declare("TILING_DATA_FIELD_DEF_STRUCT(A, a);"), structs=first.structs)
    assert list(second.structs) == ["S"]
    assert second.structs["S"].offsets() == {"a.a": 0}


def test_a_struct_may_be_declared_twice_if_it_is_the_same():
    assert list(read_macros(A + A).structs) == ["A"]


FILL = declare(
    "TILING_DATA_FIELD_DEF(uint32_t, n); TILING_DATA_FIELD_DEF_ARR(int16_t, 3, arr);\n"
    "TILING_DATA_FIELD_DEF(float, f); TILING_DATA_FIELD_DEF(bool, b);\n"
    "TILING_DATA_FIELD_DEF_STRUCT(A, a);"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S t; t.set_n(0x10u);", {"n": 16}),
        ("S t; t.set_n( 'A' );", {"n": 65}),
        ("S t{}; t.n = 3;", {"n": 3}),
        ("S t = {}; t . a . set_a (7);", {"a": {"a": 7}}),
        ("S u, t; u.set_n(1); t.set_n(2);", {"n": 2}),
        ("S t; t.set_f(-1.5e1f); t.set_b(true);", {"f": -15.0, "b": True}),
        ("S t; int16_t v[3] = {10, -2, 0x8}; t.set_arr(v);", {"arr": [10, -2, 8]}),
        ("S t; S *p = &t; p->set_n(4);", {"n": 4}),
        ("S t; S &r = t; r.a.set_a(1); ", {"a": {"a": 1}}),
        ("S u; u.set_n(4); S t = u; u.set_n(5);", {"n": 4}),
        ("void f(S &t, int n) { t.set_n(4); }", {"n": 4}),
        ("const uint32_t k = 3; S t; t.set_n(k);", {"n": 3}),
        ("S t; t.set_n(1); t.set_n(2); t.get_n();", {"n": 2}),
        ("S t; t.set_n(1 + 2 * (3 - -4 % 3));", {"n": 9}),
    ],
)
def test_variables_are_filled_by_their_setters(text, expected):
    read = read_macros(A + FILL + text)
    assert read.instances["t"] == read.structs["S"](**expected)
    assert read.unread == []


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("S t;\nt.set_n(coreNum);", (2, "t.n = coreNum")),
        ("uint32_t k = 3; S t; t.set_n(k);", (1, "t.n = k")),
        ("S t; t.set_n(f(1, 2));", (1, "t.n = f(1,2)")),
        ("S t; int16_t v[3] = {1, 2, 3}; v[0] = x; t.set_arr(v);", (1, "t.arr = v")),
        ("S t; int16_t v[3] = {1, 2, 3}; fill(v); t.set_arr(v);", (1, "t.arr = v")),
        ("S t; t.arr[1] = 5;", (1, "t.arr[1]=5")),
        ("S t = make(1);", (1, "t = make(1)")),
        ("S t; t.set_n(1 << 99);", (1, "t.n = 1<<99")),
        ("S t; t.set_n(1 / 0);", (1, "t.n = 1/0")),
    ],
)
def test_values_that_the_text_does_not_tell_are_listed(text, unread):
    read = read_macros(A + FILL.replace("\n", " ") + text)
    base = A.count("\n")
    assert [(item.line - base, item.text) for item in read.unread] == [unread]
    assert read.instances["t"] == read.structs["S"]()


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (declare("\nTILING_DATA_FIELD_DEF(uint24_t, x);"), 3, r"type of field S.x must be one of .*, but got uint24_t"),
        (declare("TILING_DATA_FIELD_DEF(unsigned int, x);"), 2, "but got unsigned int"),
        (declare("TILING_DATA_FIELD_DEF(uint8_t, x);\nTILING_DATA_FIELD_DEF(uint8_t, x);"), 3, "field S.x must be declared once"),
        (declare("TILING_DATA_FIELD_DEF_STRUCT(A, a);") + A, 2, r"struct of field S.a must be declared before \(so far: none\), but got A"),
        (declare("TILING_DATA_FIELD_DEF_STRUCT(S, a);"), 2, "must be declared before"),
        (A + "REGISTER_TILING_DATA_CLASS(Op, B)", 4, r"struct of operator Op must be declared before \(so far: A\), but got B"),
        ("\nBEGIN_TILING_DATA_DEF(S)\nTILING_DATA_FIELD_DEF(uint8_t, x);\n", 2, "struct S must end with END_TILING_DATA_DEF, but the text ends"),
        ("BEGIN_TILING_DATA_DEF(S)\n" + A, 1, "struct S must end with END_TILING_DATA_DEF before line 2"),
        ("BEGIN_TILING_DATA_DEF(S)\nREGISTER_TILING_DATA_CLASS(Op, S)", 1, "must end with .* before line 2"),
        (A + "END_TILING_DATA_DEF;", 4, "must follow BEGIN_TILING_DATA_DEF, but no struct has begun"),
        ("TILING_DATA_FIELD_DEF(uint8_t, x);", 1, "must stand between .*, but no struct has begun"),
        (declare("TILING_DATA_FIELD_DEF(uint8_t);"), 2, r"must be followed by \(type, name\), but got \(uint8_t\)"),
        (declare("TILING_DATA_FIELD_DEF(uint8_t, x, y);"), 2, r"\(type, name\), but got \(uint8_t, x, y\)"),
        (declare("TILING_DATA_FIELD_DEF(uint8_t, );"), 2, r"must be followed by \(type, name\)"),
        (declare("TILING_DATA_FIELD_DEF uint8_t x;"), 2, r"must be followed by \(type, name\), but got 'uint8_t'"),
        (declare("TILING_DATA_FIELD_DEF(uint8_t, x\nTILING_DATA_FIELD_DEF(uint8_t, y)"), 2, r"must be followed by \(type, name\)"),
        (declare("TILING_DATA_FIELD_DEF(uint8_t, 3);"), 2, "name of a field of S must be a name, but got '3'"),
        (declare("TILING_DATA_FIELD_DEF_ARR(uint8_t, 0, x);"), 2, "length of field S.x must be a known whole number of at least 1, but got 0"),
        (declare("TILING_DATA_FIELD_DEF_ARR(uint8_t, N, x);"), 2, "length of field S.x must be .*, but got N"),
        (declare("TILING_DATA_FIELD_DEFF(uint8_t, x);"), 2, r"struct S \(line 1\) must hold field macros only, but got 'TILING_DATA_FIELD_DEFF'"),
        (declare("#if X\nTILING_DATA_FIELD_DEF(uint8_t, x);\n#endif"), 2, "must hold field macros only, but got '#if X'"),
        (declare(""), 1, "struct S must have fields, but has none"),
        (A + A.replace("uint8_t", "int8_t"), 4, "struct A must be declared once, but differs from an earlier one"),
        ("x\n/* y", 2, r"comment must end with \*/"),
        (A + "A t;\nt.set_a(300);", 5, r"field A.a must be in \[0, 255\], but got 300"),
        (A + "A t;\nt.set_b(3);", 5, "field of A must be one of a, but got 'b'"),
        (A + "A t;\nt.set_b(n);", 5, "field of A must be one of a, but got 'b'"),
        (A + "A t;\nt.x.set_a(3);", 5, "t.x.a must lead through structs, but A has no struct x"),
        (declare("TILING_DATA_FIELD_DEF(uint8_t, _memory);"), 1, "must be an identifier of C"),
    ],
)  # fmt: skip
def test_errors_name_the_line_and_the_cause(text, line, message):
    with pytest.raises(MacroError, match=message) as caught:
        read_macros(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}: ")
    assert isinstance(caught.value, ArgumentError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_what_is_written_is_read_again():
    inner = TilingData.define("Inner", [("x", uint8), ("arr", uint32, 3)])
    outer = TilingData.define("Outer", [("a", uint8), ("inner", inner), ("b", "double")])
    read = read_macros(macro_text(outer))
    assert layout_of(read.structs["Outer"]) == layout_of(outer)


def attempt(text):
    """What was read, or the error."""
    try:
        return read_macros(text)
    except MacroError as error:
        return error


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_without_macros_is_read_as_nothing(text):
    read = attempt(text)
    if isinstance(read, MacroError):
        assert "comment must end" in str(read)
    else:
        assert (read.structs, read.instances) == ({}, {})


@settings(deadline=None)
@given(st.integers(0, len(LISTING)), st.integers(0, 40))
def test_a_listing_with_a_hole_is_read_or_refused_with_a_line(start, length):
    read = attempt(LISTING[:start] + LISTING[start + length :])
    assert not isinstance(read, MacroError) or read.line > 0

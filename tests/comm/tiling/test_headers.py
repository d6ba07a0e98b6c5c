"""Headers for compilers, and random structs beside those that a compiler lays out."""

import ctypes
import math
import shutil
import struct as packing
import subprocess

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from emu.comm.errors import ArgumentError
from emu.comm.tiling import (
    Array,
    Layout,
    Mc2Msg92,
    Mc2Msg112,
    Mc2Msg128,
    Mc2MsgV1,
    TilingData,
    Version,
    c_header,
    cpp_header,
    layout_of,
    macro_text,
    read_macros,
    struct_of,
    structs_of,
    uint8,
    uint16,
    uint32,
    uint64,
)
from emu.comm.tiling.mc2msg import ApiInit, ApiTask, ServerConfig, V2Task

# On the machine of a user there may be none; CI's has both.
GCC, GXX = shutil.which("gcc") or shutil.which("cc"), shutil.which("g++") or shutil.which("c++")
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wpadded"]  # padded: by the compiler, not by us
needs_c = pytest.mark.skipif(GCC is None, reason="no C compiler here")
needs_cpp = pytest.mark.skipif(GXX is None, reason="no C++ compiler here")

BOUNDS = {f"int{b}": (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64)}
BOUNDS |= {f"uint{b}": (0, 2**b - 1) for b in (8, 16, 32, 64)}
CODES = dict(zip(BOUNDS, "bhiqBHIQ", strict=True))
CODES |= {"float32": "f", "float64": "d", "boolean": "?", "char": "c"}
# The types of the macros often, ours beyond them too.
TYPES = st.sampled_from([*BOUNDS, "float32"] * 3 + ["float64", "boolean", "char"])


def members(depth):
    """Lists of (type, count or None); the type is such a list for a nested struct."""
    field = st.tuples(TYPES, st.none() | st.integers(1, 9))
    if depth:
        field |= st.tuples(members(depth - 1), st.none())
    return st.lists(field, min_size=1, max_size=8)


def build(name, fields):
    """Declare the struct of such a list; nested ones are called name_0, name_1, …"""
    declared = []
    for i, (kind, count) in enumerate(fields):
        kind = build(f"{name}_{i}", kind) if isinstance(kind, list) else kind
        declared.append((f"f{i}", kind) if count is None else (f"f{i}", kind, count))
    return TilingData.define(name, declared)


def scalars(name):
    if name in BOUNDS:
        return st.integers(*BOUNDS[name])
    if name == "boolean":
        return st.booleans()
    if name == "char":
        return st.integers(1, 126).map(lambda code: bytes([code]))
    return st.floats(width=32 if name == "float32" else 64, allow_nan=False)


def values(struct):
    """Dictionaries with a value for every field."""
    result = {}
    for name, item in layout_of(struct).by_name.items():
        if isinstance(item.type, Layout):
            result[name] = values(structs_of(struct)[name])
        elif isinstance(item.type, Array):
            count, element = item.type.count, item.type.element.name
            many = st.lists(scalars(element), min_size=count, max_size=count)
            result[name] = many.map(b"".join) if element == "char" else many
        else:
            result[name] = scalars(item.type.name)
    return st.fixed_dictionaries(result)


@st.composite
def filled(draw, name="S"):
    struct = build(name, draw(members(2)))
    return struct, draw(values(struct))


def reference(layout, given):
    """The bytes by the rules of the layout, one at a time, with the struct module."""
    data = b""
    for item in layout.fields:
        value = given[item.name]
        if isinstance(item.type, Layout):
            data += bytes(-len(data) % 8) + reference(item.type, value)
            continue
        scalar = item.type.element if isinstance(item.type, Array) else item.type
        elements = value if isinstance(item.type, Array) else [value]
        if scalar.name == "char":
            elements = [value[i : i + 1] for i in range(len(value))]
        data += bytes(-len(data) % packing.calcsize(CODES[scalar.name]))
        data += b"".join(packing.pack(f"<{CODES[scalar.name]}", one) for one in elements)
    return data + bytes(-len(data) % 8)


def c_literal(name, value):
    if name in {"float32", "float64"}:
        if math.isinf(value):
            return "INFINITY" if value > 0 else "-INFINITY"
        return value.hex() + ("f" if name == "float32" else "")
    if name == "boolean":
        return "true" if value else "false"
    if name == "char":
        return str(value[0] if isinstance(value, bytes) else value)
    return "INT64_MIN" if value == -(2**63) else f"{value}{'ULL' if value >= 2**63 else 'LL'}"


def c_initialiser(layout, given):
    parts = []
    for item in layout.fields:
        value = given[item.name]
        if isinstance(item.type, Layout):
            text = c_initialiser(item.type, value)
        elif isinstance(item.type, Array):
            inner = (c_literal(item.type.element.name, one) for one in value)
            text = f"{{{', '.join(inner)}}}"
        else:
            text = c_literal(item.type.name, value)
        parts.append(f".{item.name} = {text}")
    return f"{{{', '.join(parts)}}}"


def c_aligned(layout, suffix):
    """The struct without padding members, every struct aligned to 8: the compiler places it all."""
    inner = "".join(
        c_aligned(item.type, suffix) for item in layout.fields if isinstance(item.type, Layout)
    )
    lines = []
    for i, item in enumerate(layout.fields):
        align = "" if i else "_Alignas(8) "
        if isinstance(item.type, Layout):
            lines.append(f"{align}{item.type.name}{suffix} {item.name};")
        elif isinstance(item.type, Array):
            lines.append(f"{align}{item.type.element} {item.name}[{item.type.count}];")
        else:
            lines.append(f"{align}{item.type} {item.name};")
    return f"{inner}typedef struct {{ {' '.join(lines)} }} {layout.name}{suffix};\n"


def run(*arguments):
    done = subprocess.run(arguments, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    return done.stdout


def compile_c(folder, text, *options):
    source = folder / "program.c"
    source.write_text(text)
    run(GCC, "-std=c11", "-O0", *options, str(source), "-o", str(folder / "program"))
    return run(str(folder / "program"))


class Matrix(TilingData):
    mmVar: uint16
    mmArr: uint16[3]


class Sample(TilingData):
    blkDim: uint32
    totalSize: uint32
    splitTile: uint32
    arrSample: uint16[3]
    mm: Matrix


class Packed(TilingData, pack=1):
    a: uint8
    b: uint64
    mm: Matrix


def random_structs(how_many):
    """Draw structs with values, all of different names, from hypothesis."""
    drawn = []

    @settings(
        max_examples=how_many,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def collect(data):
        drawn.append(data.draw(filled(f"S{len(drawn)}")))

    collect()
    return drawn


@given(filled())
@settings(deadline=None)
def test_random_structs_have_the_bytes_of_the_rules(drawn):
    struct, given_values = drawn
    made = struct(**given_values)
    data = made.to_bytes()
    assert data == reference(layout_of(struct), given_values)
    assert struct.from_bytes(data, strict=True) == made
    assert made.to_dict() == given_values
    assert np.frombuffer(data, struct.dtype()).tobytes() == data
    covered = sorted((row.offset, row.size) for row in struct.layout().rows())
    ends = [start + size for start, size in covered]
    assert [start for start, _ in covered] == [0, *ends[:-1]]
    assert ends[-1] == struct.size == struct.dtype().itemsize


@given(filled())
@settings(deadline=None)
def test_the_macro_text_of_random_structs_is_read_again(drawn):
    struct, _ = drawn
    read = read_macros(macro_text(struct)).structs[struct.__name__]
    assert layout_of(read) == layout_of(struct)


@needs_c
def test_random_structs_have_the_bytes_that_a_c_compiler_gives_them(tmp_path):
    drawn = random_structs(80)
    parts, body, expected = [], [], b""
    for i, (struct, given_values) in enumerate(drawn):
        layout = layout_of(struct)
        initial = c_initialiser(layout, given_values)
        parts.append(c_header(struct))
        parts.append(
            '#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored "-Wpadded"\n'
            f"{c_aligned(layout, '_aligned')}#pragma GCC diagnostic pop\n"
        )
        for suffix in ("", "_aligned"):
            name = f"{layout.name}{suffix}"
            parts += [
                f'_Static_assert(offsetof({name}, {item.name}) == {item.offset}, "");'
                for item in layout.fields
            ]
            parts.append(f"static {name} value{i}{suffix} = {initial};")
            body.append(f"fwrite(&value{i}{suffix}, 1, sizeof value{i}{suffix}, stdout);")
            expected += struct(**given_values).to_bytes()
    program = "#include <math.h>\n#include <stdio.h>\n" + "\n".join(parts)
    program += "\nint main(void) {\n" + "\n".join(body) + "\nreturn 0;\n}\n"
    assert compile_c(tmp_path, program, *WARNINGS) == expected
    assert len(drawn) == 80


@pytest.mark.slow
@needs_cpp
def test_a_cpp_compiler_accepts_the_headers_of_random_structs(tmp_path):
    header = tmp_path / "structs.cpp"
    header.write_text(cpp_header(*(struct for struct, _ in random_structs(40)), namespace="a::b"))
    run(GXX, "-std=c++11", *WARNINGS, "-fsyntax-only", str(header))


def c_plain(layout, name):
    """The fields alone, as they would be written in C."""
    members = []
    for item in layout.fields:
        array = isinstance(item.type, Array)
        kind, count = (item.type.element, f"[{item.type.count}]") if array else (item.type, "")
        members.append(f"{kind} {item.name}{count};")
    return f"struct {name} {{ {' '.join(members)} }};"


@needs_cpp
def test_a_cpp_compiler_gives_the_messages_the_same_offsets_from_their_fields_alone(tmp_path):
    structs = (Mc2MsgV1, Mc2Msg128, Mc2Msg112, ServerConfig, V2Task, ApiInit, ApiTask)
    lines = [
        "#include <cstddef>",
        "#include <cstdint>",
        *(c_plain(layout_of(struct), struct.__name__) for struct in structs),
        "#pragma pack(push, 1)",
        c_plain(layout_of(Mc2Msg92), "Mc2Msg92"),
        "#pragma pack(pop)",
    ]
    for struct in (*structs, Mc2Msg92):
        name = struct.__name__
        lines.append(f'static_assert(sizeof({name}) == {struct.size}, "");')
        lines += [
            f'static_assert(offsetof({name}, {field}) == {offset}, "");'
            for field, offset in struct.offsets().items()
        ]
    source = tmp_path / "messages.cpp"
    source.write_text("\n".join(lines))
    run(GXX, "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(source))


@needs_c
@needs_cpp
def test_compilers_accept_the_headers_of_all_messages(tmp_path):
    versions = [(version, 1) for version in Version] + [(Version.V2, 3), (Version.API_512, 8)]
    messages = [struct_of(version, n) for version, n in versions]
    for compiler, standard, text in (
        (GCC, "c11", c_header(*messages)),
        (GXX, "c++11", cpp_header(*messages)),
    ):
        source = tmp_path / f"messages.{'c' if compiler == GCC else 'cpp'}"
        source.write_text(text)
        run(compiler, f"-std={standard}", *WARNINGS, "-fsyntax-only", str(source))


@needs_c
def test_a_packed_struct_is_packed_in_c_too(tmp_path):
    packed = Packed(a=1, b=2**64 - 2, mm={"mmVar": 3, "mmArr": [4, 5, 6]})
    program = (
        "#include <stdio.h>\n"
        + c_header(Packed)
        + "static Packed v = {.a = 1, .b = -2ULL, .mm = {.mmVar = 3, .mmArr = {4, 5, 6}}};\n"
        + "int main(void) { return fwrite(&v, 1, sizeof v, stdout) != sizeof v; }\n"
    )
    assert Packed.size == 17
    assert compile_c(tmp_path, program, *WARNINGS) == packed.to_bytes()


@needs_c
def test_a_header_whose_layout_were_wrong_would_not_compile(tmp_path):
    wrong = c_header(Sample).replace("uint8_t mmPH[6];", "uint8_t mmPH[8];")
    assert wrong != c_header(Sample)
    source = tmp_path / "wrong.c"
    source.write_text(wrong)
    done = subprocess.run(
        [GCC, "-std=c11", "-fsyntax-only", str(source)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0


def test_plain_c_differs_in_the_tail_only():
    kind = TilingData.define("Nine", [(f"f{i}", uint32) for i in range(9)])
    plain = type("Nine", (ctypes.Structure,), {"_fields_": [("f", ctypes.c_uint32 * 9)]})
    assert (ctypes.sizeof(plain), kind.size) == (36, 40)
    assert "uint8_t NinePH[4];" in c_header(kind)


def test_the_text_of_the_c_header():
    assert c_header(Matrix) == (
        "#ifndef MATRIX_TILING_H\n"
        "#define MATRIX_TILING_H\n"
        "\n"
        "#include <stdbool.h>\n"
        "#include <stddef.h>\n"
        "#include <stdint.h>\n"
        "\n"
        "typedef struct Matrix {\n"
        "    uint16_t mmVar;\n"
        "    uint16_t mmArr[3];\n"
        "} Matrix;\n"
        '_Static_assert(sizeof(Matrix) == 8, "size of Matrix");\n'
        '_Static_assert(offsetof(Matrix, mmVar) == 0, "offset of Matrix.mmVar");\n'
        '_Static_assert(offsetof(Matrix, mmArr) == 2, "offset of Matrix.mmArr");\n'
        "\n"
        "#endif  // MATRIX_TILING_H\n"
    )


def test_the_text_of_the_cpp_header():
    text = cpp_header(Sample, namespace="optiling")
    assert "#ifndef OPTILING_SAMPLE_TILING_HPP\n" in text
    assert text.index("namespace optiling {") < text.index("struct Matrix {")
    assert text.index("struct Matrix {") < text.index("struct Sample {")
    assert "    uint8_t mmPH[6];\n    Matrix mm;\n" in text
    assert 'static_assert(offsetof(Sample, mm) == 24, "offset of Sample.mm");' in text


def test_the_text_of_the_macros():
    assert macro_text(Sample) == (
        "BEGIN_TILING_DATA_DEF(Matrix)\n"
        "    TILING_DATA_FIELD_DEF(uint16_t, mmVar);\n"
        "    TILING_DATA_FIELD_DEF_ARR(uint16_t, 3, mmArr);\n"
        "END_TILING_DATA_DEF;\n"
        "\n"
        "BEGIN_TILING_DATA_DEF(Sample)\n"
        "    TILING_DATA_FIELD_DEF(uint32_t, blkDim);\n"
        "    TILING_DATA_FIELD_DEF(uint32_t, totalSize);\n"
        "    TILING_DATA_FIELD_DEF(uint32_t, splitTile);\n"
        "    TILING_DATA_FIELD_DEF_ARR(uint16_t, 3, arrSample);\n"
        "    TILING_DATA_FIELD_DEF_STRUCT(Matrix, mm);\n"
        "END_TILING_DATA_DEF;\n"
    )


@needs_c
def test_a_field_named_like_padding_gets_along_with_it(tmp_path):
    kind = TilingData.define("Odd", [("b", uint8), ("aPH", uint8), ("a", uint32), ("OddPH", uint8)])
    source = tmp_path / "odd.c"
    source.write_text(c_header(kind))
    assert "uint8_t aPH_[2];" in source.read_text()
    run(GCC, "-std=c11", *WARNINGS, "-fsyntax-only", str(source))


def test_what_a_compiler_would_refuse_is_refused():
    other = TilingData.define("Matrix", [("a", uint8)])
    outer = TilingData.define("Outer", [("a", Matrix), ("b", other)])
    with pytest.raises(
        ArgumentError, match="must have different names, but got two different Matrix"
    ):
        c_header(outer)
    with pytest.raises(ArgumentError, match="must be none of C and C\\+\\+, but got 'class'"):
        cpp_header(TilingData.define("Odd", [("class", uint8)]))
    with pytest.raises(
        ArgumentError, match="namespace must be names joined by '::', but got 'a b'"
    ):
        cpp_header(Matrix, namespace="a b")
    with pytest.raises(ArgumentError, match="structs must be at least one"):
        c_header()
    with pytest.raises(ArgumentError, match="must not be packed"):
        macro_text(Packed)
    with pytest.raises(ArgumentError, match="must have fields, but has none"):
        c_header(TilingData)

"""Wrong arguments to everything public of tiling data: a clear error that changes nothing, never a raw one."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import Fuzzer, Target

from emu.comm import tiling
from emu.comm.errors import ArgumentError
from emu.comm.tiling import Array, Mc2Msg, TilingData, Version
from emu.commands import main

SEED = 20261122
LISTING = Path(__file__).with_name("seed_listing.txt").read_text()
MACROS = """
constexpr uint32_t CORES = 4;
BEGIN_TILING_DATA_DEF(Inner)
    TILING_DATA_FIELD_DEF(uint16_t, a);
    TILING_DATA_FIELD_DEF_ARR(uint32_t, CORES * 2, b);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(Outer)
    TILING_DATA_FIELD_DEF(float, scale);
    TILING_DATA_FIELD_DEF_STRUCT(Inner, inner);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Op, Outer)
Outer t; t.set_scale(1.5); t.inner.set_a(CORES); t.inner.b = {1, 2};
"""
RECORDS = {"Detected", "Field", "Layout", "Line", "MacroText", "Row", "Unread"}
"""What the library makes and callers only read."""
ENUMS = {
    name
    for name in tiling.__all__
    if name.endswith(("Alg", "Order", "Policy", "Position", "Type", "Op"))
}
ENUMS |= {"HcclCommand", "HcclDataType", "Version"}
"""Python's own enumerations; a value that none has is Python's ValueError."""


class Inner(TilingData):
    a: tiling.uint16
    b: tiling.uint32[3]  # type: ignore[valid-type] # a field with a length
    name: tiling.char[8]  # type: ignore[valid-type] # a field with a length


class Outer(TilingData):
    scale: tiling.float32
    real: tiling.float64
    ok: tiling.boolean
    letter: tiling.char
    sign: tiling.int8
    inner: Inner


class Kit:
    """What targets use, and what errors must leave as it was."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.value = Outer(scale=1.5, inner={"a": 7})
        self.message = Mc2Msg(commAlg=1, recvArgIndex=3)
        self.buffer = bytearray(b"\xee" * 128)

    def state(self) -> Any:
        return self.value.to_bytes(), self.message.to_bytes(), bytes(self.buffer)

    def extra(self) -> Iterator[Any]:
        yield from (
            Outer,
            Inner,
            Outer(),
            Inner(),
            TilingData,
            Mc2Msg,
            Mc2Msg(),
            tiling.Mc2Msg128(),
            tiling.layout_of(Outer),
        )
        yield from (
            tiling.uint8,
            tiling.char,
            tiling.uint8[3],
            "uint32_t",
            "uint16_t[3]",
            "float",
            "Outer",
            *Version,
        )
        yield from (
            "96",
            "v1",
            "api",
            "v2",
            bytes(96),
            bytes(128),
            bytes(92),
            bytearray(112),
            b"\2\0\0\0\1\0\0\0" + bytes(400),
        )
        yield from (
            b"d\0\0\0\1\0\0\0" + bytes(700),
            np.zeros((4, 96), np.uint8)[:, ::2],
            np.zeros(96, np.uint8),
            memoryview(bytes(96)),
        )
        yield from (
            [("a", "uint8_t")],
            [("a", "uint8_t", 2), ("a", "int8_t")],
            [("a", Outer)],
            [("1a", "uint8_t")],
            {"a": 1},
            {"Outer": Outer},
        )
        yield from (
            {"N": 3},
            {"N": "x"},
            [1, 2, 3],
            [1, 2, -1],
            MACROS,
            MACROS[:200],
            LISTING,
            "optiling::x",
            "int",
            "class",
        )
        yield from (
            tiling.HcclDataType.FP16,
            tiling.CommAlg.FULL_MESH,
            3.4e38,
            3.5e38,
            255,
            256,
            65536,
            -129,
        )


def targets(kit: Kit) -> list[Target]:
    """Return a target for every public function and method."""
    made: list[Target] = []

    def add(
        name: str,
        function: Callable[..., Any],
        /,
        *positional: str,
        also: Any = None,
        **values: Any,
    ) -> None:
        def arguments() -> dict[str, Any]:
            kit.reset()
            return {
                k: v() if getattr(v, "__name__", "") == "<lambda>" else v for k, v in values.items()
            }

        words = {name: ("field", *((also or {}).get(name, ()))) for name in values}
        made.append(
            Target(
                name=name, function=function, arguments=arguments, positional=positional, also=words
            )
        )

    _add_structs(add, kit)
    _add_messages(add, kit)
    _add_types(add)
    return made


def _add_structs(add: Any, kit: Kit) -> None:
    add("TilingData.define", TilingData.define, name="S", fields=lambda: [("a", "uint8_t"), ("b", Inner), ("c", tiling.int16, 3)],
        pack=8, module="m", also={"fields": ("elements", "name", "length")})  # fmt: skip
    add(
        "TilingData",
        Outer,
        scale=2.0,
        real=3.0,
        ok=True,
        letter=b"x",
        sign=-3,
        inner=lambda: Inner(a=3),
    )
    add("TilingData of a dictionary", Inner, a=3, b=[1, 2, 3], name="abc")
    for field, value in (("scale", 2.0), ("real", 2.0), ("ok", True), ("letter", "x"), ("sign", 3)):
        add(
            f"TilingData.set_{field}",
            lambda v, field=field: getattr(kit.value, f"set_{field}")(v),
            v=value,
        )
    add(
        "TilingData.__setattr__",
        lambda name, v: setattr(kit.value.inner, str(name), v),
        name="b",
        v=[1, 2, 3],
    )
    add(
        "TilingData.__setattr__ of a struct",
        lambda v: setattr(kit.value, "inner", v),
        v=lambda: Inner(a=3),
    )
    add(
        "ArrayView.__setitem__",
        lambda index, v: kit.value.inner.b.__setitem__(index, v),
        index=1,
        v=3,
        also={"index": ("index",), "v": ("index",)},
    )
    add("ArrayView.__getitem__", lambda index: kit.value.inner.b[index], index=1)
    add("TilingData.from_bytes", Outer.from_bytes, buffer=bytes(Outer.size), offset=0, strict=False,
        also={"offset": ("buffer",), "strict": ("buffer",)})  # fmt: skip
    add("TilingData.save_to_buffer", lambda buffer, capacity: kit.value.save_to_buffer(buffer, capacity),
        buffer=lambda: kit.buffer, capacity=128, also={"buffer": ("capacity",)})  # fmt: skip
    for name in ("layout", "offsets", "dtype"):
        add(f"TilingData.{name}", getattr(Outer, name))
    for name in ("to_bytes", "to_dict", "table", "copy", "__copy__"):
        add(f"TilingData.{name}", lambda name=name: getattr(kit.value, name)())
    for name in ("layout_of", "structs_of"):
        add(name, getattr(tiling, name), struct=Outer)
    add(
        "annotate",
        tiling.annotate,
        struct=Outer,
        buffer=bytes(Outer.size),
        also={"struct": ("buffer",)},
    )
    for name in ("c_header", "macro_text"):
        add(
            name,
            getattr(tiling, name),
            "one",
            "two",
            one=Inner,
            two=Outer,
            also=dict.fromkeys(("one", "two"), ("struct",)),
        )
    add(
        "cpp_header",
        tiling.cpp_header,
        "one",
        one=Outer,
        namespace="a::b",
        also={"one": ("struct",), "namespace": ("struct",)},
    )
    add("read_macros", tiling.read_macros, text=MACROS, structs=lambda: {"X": Inner}, constants=lambda: {"N": 3},
        also={"text": ("line",)})  # fmt: skip


def _add_messages(add: Any, kit: Kit) -> None:
    add("convert", tiling.convert, message=lambda: kit.message, version="128")
    add("write_mc2msg", tiling.write_mc2msg, message=lambda: kit.message, buffer=lambda: kit.buffer, version="128", capacity=128,
        also={"buffer": ("capacity",), "version": ("capacity", "message")})  # fmt: skip
    for name in ("detect", "read_mc2msg"):
        add(name, getattr(tiling, name), buffer=lambda: kit.message.to_bytes(), offset=0, expected="v1",
            also={"buffer": ("message", "tasks"), "offset": ("message", "tasks"), "expected": ("message", "tasks", "version")})  # fmt: skip
        add(f"{name} of any", getattr(tiling, name), buffer=lambda: kit.message.to_bytes(),
            also={"buffer": ("message", "tasks")})  # fmt: skip
    add(
        "make_mc2msg",
        tiling.make_mc2msg,
        version="v1",
        n_tasks=1,
        commAlg=2,
        also={"n_tasks": ("tasks",), "version": ("tasks",)},
    )
    add("make_mc2msg of tasks", tiling.make_mc2msg, version="v2", n_tasks=2, task1=lambda: {"opType": 3},
        also={"n_tasks": ("tasks",), "version": ("tasks",)})  # fmt: skip
    add(
        "struct_of",
        tiling.struct_of,
        version=Version.V2,
        n_tasks=2,
        also={"n_tasks": ("tasks",), "version": ("tasks",)},
    )
    add("version_of", tiling.version_of, message=lambda: kit.message)


def _add_types(add: Any) -> None:
    add("Array", Array, element=tiling.uint8, count=3, also={"count": ("length",)})
    for name in (
        "boolean",
        "char",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ):
        kind = getattr(tiling, name)
        add(f"{name}.__getitem__", kind.__getitem__, "count", count=3, also={"count": ("length",)})
        memory = memoryview(bytearray(16))  # of the struct itself; a user has no part in it
        write = functools.partial(kind.write, memory, 8, where="S.a")
        add(f"Scalar.write of {name}", write, value=b"c" if name == "char" else 1)
    add("HcclDataType.from_numpy", tiling.HcclDataType.from_numpy, dtype=np.float32)


def test_wrong_arguments_end_in_clear_errors() -> None:
    kit = Kit()
    Fuzzer(targets(kit), (ArgumentError,), seed=SEED, state=kit.state, extra=kit.extra).run(
        8000
    ).check()


def test_every_public_name_is_fuzzed() -> None:
    bare = {target.name.split(" of ")[0].split(".")[0] for target in targets(Kit())} | {"Scalar"}
    classes = {n for n in tiling.__all__ if isinstance(getattr(tiling, n), type)}
    errors = {n for n in classes if issubclass(getattr(tiling, n), Exception)}
    structs = {n for n in classes if issubclass(getattr(tiling, n), TilingData)}
    missing = set(tiling.__all__) - bare - errors - structs - RECORDS - ENUMS
    assert not missing, "a target is missing"
    methods = {
        n
        for n, m in vars(TilingData).items()
        if not n.startswith("_") and inspect.isroutine(getattr(TilingData, n)) and m
    }
    fuzzed = {
        target.name.split(".")[1].split(" of ")[0]
        for target in targets(Kit())
        if target.name.startswith("TilingData.")
    }
    assert not methods - fuzzed, "a target is missing"


# --- texts and bytes ------------------------------------------------------------------------------

PIECES = (
    *("(", ")", ",", ";", "{", "}", "[", "]", "=", ".", "->", "::", "#", "\\", "\n", "/*", "*/", "//", '"', "'", "0x", "1e999", "-", "~"),
    *("9" * 30, "1 << 63", "1 / 0", "1 % 0", "uint32_t", "float", "char", "bool", "std::", "BEGIN_TILING_DATA_DEF", "CORES", "\0", "é"),
    *("END_TILING_DATA_DEF", "TILING_DATA_FIELD_DEF", "TILING_DATA_FIELD_DEF_ARR", "TILING_DATA_FIELD_DEF_STRUCT", "set_", "Outer t", "t"),
    *("#define X 3", "constexpr int X[] = {1, 2};", "(((((", "((uint8_t)", "static_cast<int>(", "9 ** 9", "__init__", "Inner", "a", "b", "inner"),
)  # fmt: skip


def mutated(text: str, rng: random.Random) -> str:
    """Return a text with a few pieces cut out, doubled, moved or put in."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((0, 0, 1, 1, 3, 10, 60)))
        piece = rng.choice((rng.choice(PIECES), text[at:end] * 2, "", chr(rng.randrange(32, 127))))
        text = text[:at] + piece + text[end:]
    return text


@pytest.mark.parametrize("text", [MACROS, LISTING], ids=["macros", "listing"])
def test_mutated_macros_are_read_or_refused(text: str) -> None:
    rng, refused = random.Random(SEED), 0
    for _ in range(1500):
        changed = mutated(text, rng)
        try:
            found = tiling.read_macros(changed)
            for struct in found.structs.values():
                tiling.annotate(struct)
        except ArgumentError:
            refused += 1
    assert refused > 100


def test_deeply_nested_expressions_are_refused() -> None:
    for value in (
        "(" * 100_000,
        "-" * 100_000 + "1",
        "+".join("1" * 50_000),
        "9" * 10_000,
        "1" + "*(1" * 3000 + ")" * 3000,
    ):
        text = MACROS.replace("CORES * 2", value)
        with pytest.raises(ArgumentError):
            tiling.read_macros(text)


def random_messages(rng: random.Random) -> bytes:
    """Return bytes near to a message: of any version, some changed, cut or longer."""
    version = rng.choice(list(Version))
    data = bytearray(tiling.make_mc2msg(version).to_bytes())
    for _ in range(rng.choice((0, 1, 3, 20))):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 3, 100, 255, rng.randrange(256)))
    cut = rng.choice((len(data), len(data), rng.randrange(len(data) + 1)))
    return bytes(data[:cut]) + bytes(rng.choice((0, 0, 1, 8, 32, 300)))


def test_random_bytes_are_detected_or_refused() -> None:
    rng, refused = random.Random(SEED), 0
    for _ in range(1000):
        data = random_messages(rng)
        try:
            message = tiling.read_mc2msg(data, expected=rng.choice((None, None, *Version)))
            tiling.annotate(message)
            back = tiling.convert(message, rng.choice(list(Version)))
            assert tiling.version_of(back)
        except ArgumentError:
            refused += 1
    assert refused > 100


# --- the command line -----------------------------------------------------------------------------


def run_tiling(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run ``emu tiling``; return its status and what it wrote to standard error."""
    try:
        status = main.main(["tiling", *arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    return status, capsys.readouterr().err


def test_the_command_line_complains_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    macros, data, folder = tmp_path / "m.h", tmp_path / "d.bin", tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "empty").write_bytes(b"")
    unreadable = tmp_path / "none" / "x"
    values: dict[str, list[str]] = {
        "--version": ["v1", "128", "", "nonsense", "-1", "é", "api"],
        "--struct": [str(macros), str(data), str(folder), str(unreadable), "", "x" * 5000],
        "--name": ["Outer", "t", "", "nobody", "é"],
        "--offset": ["0", "4", "-1", "99999999999999999999", "x", "0x10", ""],
        "--emit": ["c", "cpp", "macros", "rust", ""],
        "--hex": ["00" * 96, "0x01, 02", "0", "zz", "", "é"],
    }
    files = [
        str(macros),
        str(data),
        str(folder),
        str(unreadable),
        str(tmp_path / "empty"),
        "",
        "x" * 5000,
    ]
    statuses = set()
    for _ in range(400):
        macros.write_bytes(
            mutated(rng.choice((MACROS, LISTING)), rng).encode() + rng.choice((b"", b"", b"\xff"))
        )
        data.write_bytes(random_messages(rng))
        arguments = [] if rng.random() < 0.2 else [rng.choice(files)]
        for option in rng.sample(sorted(values), rng.choice((0, 1, 1, 2, 3))):
            arguments += [option, rng.choice(values[option])]
        status, errors = run_tiling(arguments, capsys)
        statuses.add(status)
        assert status in {0, 1, 2}, (arguments, errors)
        assert "Traceback" not in errors, (arguments, errors)
        assert (status == 0) or errors.strip(), arguments
    assert statuses == {0, 1, 2}

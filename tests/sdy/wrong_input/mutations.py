"""MLIR texts that are nearly right: valid ones with a few random changes.

The same seed gives the same text. What stands between ``// -----``, ``// CASE``
and ``// GIVES`` lines of the golden files counts as one text.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

__all__ = ["corpus", "mutated"]

_ROOTS = [Path(__file__).resolve().parents[2] / room for room in ("sdy", "stablehlo")]
_CUT = re.compile(r"^// (?:-----|CASE|PASSES|GIVES).*\n", re.MULTILINE)
_TOKEN = re.compile(r'"[^"\n]*"|[%@#!^]?[\w.$-]+|\s+|.', re.DOTALL)
_WORDS = (
    *[
        "0",
        "1",
        "2",
        "3",
        "8",
        "-1",
        "-0",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
    ],
    *[
        "1000000007",
        "99999999999999999999999999",
        "0x",
        "0xFF",
        "1.5",
        "-1e400",
        "nan",
        "1e-400",
        "inf",
    ],
    *[
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        ",",
        ":",
        ";",
        "=",
        "->",
        "::",
        "?",
        "*",
        "x",
        "xx",
        ".",
        "..",
        "@",
        "%",
        "#",
        "!",
        "^",
        '"',
        "'",
        "/",
        "//",
        "\\",
        "",
    ],
    *[
        "i0",
        "i1",
        "i32",
        "ui8",
        "f32",
        "bf16",
        "f7",
        "index",
        "none",
        "tuple<>",
        "tensor<*xf32>",
        "tensor<?xf32>",
    ],
    *["tensor<4xf32>", "tensor<0xf32>", "tensor<-1xf32>", "tensor<4x>", "tensor<4xcomplex<f32>>"],
    *["tensor<99999999999x99999999999xf32>", "memref<4xf32>", "vector<4xf32>", "!x.y", "#x.y"],
    *[
        "sdy.mesh",
        "sdy.sharding",
        "#sdy.sharding<@mesh,[{}]>",
        "@mesh",
        "@other",
        "@grid",
        "{?}",
        '{"x"}',
    ],
    *["sdy.all_reduce", "sdy.reshard", "sdy.manual_computation", "sdy.return", "sdy.constant"],
    *["stablehlo.add", "stablehlo.dot_general", "stablehlo.while", "stablehlo.return", "func.func"],
    *[
        "dense<1.0>",
        "dense<[1,2]>",
        'dense<"0x">',
        "array<i64:1,2>",
        "loc(unknown)",
        'loc("a":1:1)',
    ],
    *[
        "true",
        "false",
        "unit",
        "affine_map<(d0)->(d0)>",
        "%0",
        "%1",
        "%arg0",
        "%a",
        "%x#1",
        "^bb0",
        "é",
        "\x00",
        "��",
    ],
)


@cache
def corpus() -> tuple[str, ...]:
    """The valid texts."""
    texts = []
    for file in sorted(file for root in _ROOTS for file in root.rglob("*.mlir")):
        texts += [part for part in _CUT.split(file.read_text(encoding="utf-8")) if part.strip()]
    return tuple(texts)


def mutated(seed: int) -> str:
    """A text with one to four changes; every other seed changes it gently."""
    rng = random.Random(seed)
    tokens = _TOKEN.findall(rng.choice(corpus()))
    change = _change_gently if seed % 2 else _change
    for _ in range(rng.randint(1, 2 if seed % 2 else 4)):
        change(rng, tokens)
    return "".join(tokens)


def _change_gently(rng: random.Random, tokens: list[str]) -> None:
    """So that it can mostly be parsed: a token for another one of its kind, a line more or less."""
    kind = rng.randrange(4)
    if kind == 0:
        _swap_numbers(rng, tokens)
    elif kind < 3:
        at = rng.randrange(len(tokens))
        alike = [token for token in tokens if _kind(token) == _kind(tokens[at])]
        tokens[at] = rng.choice(alike)
    else:
        lines = [i for i, token in enumerate(tokens) if token.startswith("\n")]
        if len(lines) > 2:
            at = rng.randrange(len(lines) - 1)
            line = tokens[lines[at] : lines[at + 1]]
            place = lines[rng.randrange(len(lines))]
            if rng.randrange(2):
                tokens[lines[at] : lines[at + 1]] = []
            else:
                tokens[place:place] = line


def _kind(token: str) -> str:
    """What can stand in the same places, roughly."""
    if not token or token.isspace():
        return "space"
    head = token[0]
    if head in '%@#!^"':
        return head
    if "." in token:
        return "operation"
    return "number" if head.isdigit() else "word" if head.isalpha() else token


def _change(rng: random.Random, tokens: list[str]) -> None:
    at = rng.randrange(len(tokens) + 1)
    span = tokens[at : at + rng.choice((1, 1, 1, 2, 5, 20))]
    kind = rng.randrange(8)
    if kind == 0:
        del tokens[at : at + len(span)]
    elif kind == 1:
        tokens[at:at] = span
    elif kind == 2:
        tokens[at : at + 1] = [rng.choice(_WORDS)]
    elif kind == 3:
        tokens[at:at] = [rng.choice(_WORDS)]
    elif kind == 4:  # one of its own words in another place
        tokens[at : at + 1] = [rng.choice(tokens)] if tokens else []
    elif kind == 5:  # a piece of another text
        other = _TOKEN.findall(rng.choice(corpus()))
        start = rng.randrange(len(other))
        tokens[at:at] = other[start : start + rng.randint(1, 30)]
    elif kind == 6:
        _swap_numbers(rng, tokens)
    else:
        del tokens[at:]


def _swap_numbers(rng: random.Random, tokens: list[str]) -> None:
    """Another number for one of the numbers, also inside a word."""
    places = [i for i, token in enumerate(tokens) if re.search(r"\d", token)]
    if places:
        at = rng.choice(places)
        number = rng.choice(("0", "1", "2", "3", "5", "7", "64", "-1", "4294967296", ""))
        tokens[at] = re.sub(r"\d+", number, tokens[at], count=1)

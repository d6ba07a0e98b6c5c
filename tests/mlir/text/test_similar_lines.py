"""Lines that differ in names only give what they give when each is split and read by itself."""

from __future__ import annotations

import random

import pytest

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import MlirError
from emu.mlir.text import token_reader
from emu.mlir.text.lexer import coarse_tokens, is_line, line_tokens

LAYER = """\
  %a{i} = stablehlo.add %x{i}, %w : tensor<4xf32>
  %b{i} = stablehlo.tanh %a{i} {{t.note = "%a"}} : tensor<4xf32>
  %c{i} = stablehlo.multiply %b{i}, %b{i} : tensor<4xf32> loc(#loc{l})
  %d{i}:2 = "t.two"(%c{i}, %w) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, i32)
  %e{i} = "t.one"(%d{i}#1, %d{i}#0) : (i32, tensor<4xf32>) -> tensor<4xf32> // %a
  %z{i} = stablehlo.constant dense<0.0> : tensor<f32>
  %r{i} = stablehlo.reduce(%e{i} init: %z{i}) applies stablehlo.add across dimensions = [0] \
: (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %s{i} = call @g(%r{i}, %w) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %x{n} = stablehlo.add %s{i}, %x{i} : tensor<4xf32> loc("here":{n}:1)
"""


def program(layers: int) -> str:
    body = "".join(LAYER.format(i=i, n=i + 1, l=i % 3) for i in range(layers))
    return (
        "func.func private @g(tensor<f32>, tensor<4xf32>) -> tensor<4xf32>\n"
        f"func.func @f(%x0: tensor<4xf32>, %w: tensor<4xf32>) {{\n{body}  return\n}}\n"
        '#loc0 = loc(unknown)\n#loc1 = loc("a")\n#loc2 = loc("b")\n'
    )


def mutated(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(rng.randrange(3)):
        here, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        line = lines[here]
        place = rng.randrange(len(line) + 1)
        lines[here] = rng.choice(
            [
                line[:place] + rng.choice('%#"<>{}()[],:=@!^ 0x\t-') + line[place:],
                line[:place] + line[place + 1 :],
                line[:place],
                lines[other],
                f"{line} {lines[other]}",
                f"{line}\n{lines[other]}",
                line.replace("%w", rng.choice(["%x0", "%a0", "%d0#1", "%nothing"])),
                line + rng.choice([" // c", " loc(#loc1)", " {", "\n\n"]),
            ]
        )
    return "\n".join(lines)


def read(text: str) -> object:
    """Return all that a text gives, or its error."""
    try:
        module = parse(text)
    except MlirError as error:
        return str(error)
    ops = list(module.walk())
    places = [str(op.location) for op in ops]
    uses = [[(user.name, n) for user, n in value.uses] for op in ops for value in op.results]
    return to_text(module, generic=True, locations=True), places, uses


def plain_tokens(text: str) -> tuple[list[str], list[int]]:
    return coarse_tokens(text, 0, len(text))


@pytest.mark.parametrize("seed", range(8))
def test_lines_give_what_their_tokens_give(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    texts = [program(4), *(mutated(program(4), rng) for _ in range(60))]
    found = [read(text) for text in texts]
    assert any(isinstance(each, str) for each in found)
    monkeypatch.setattr(token_reader, "line_tokens", plain_tokens)
    assert found == [read(text) for text in texts]


def test_lines_are_tokens() -> None:
    tokens, starts = line_tokens(program(2))
    lines = [token for token in tokens if is_line(token)]
    assert len(lines) == 16  # of 9 a layer, all but that with two results
    assert all(
        program(2)[start:].startswith(token) for token, start in zip(tokens, starts, strict=True)
    )

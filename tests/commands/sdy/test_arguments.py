"""The command line of ``emu sdy opt``."""

from __future__ import annotations

import pytest

from emu.commands.sdy.arguments import OptArguments, UsageError, parse_arguments


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-sdy-basic-propagat"], "did you mean -sdy-basic-propagate"),
        (["-sdy-basic-propagate=keep=true"], "has no option 'keep' (it has: keep-sharding-rules"),
        (
            ["-sdy-basic-propagate=keep-sharding-rules=maybe"],
            "must be true or false, but got 'maybe'",
        ),
        (["-split-input-file=2"], "'-split-input-file=2' must be true or false"),
        (["--pass"], "'--pass' needs a value"),
        (["--pass", "close"], "no pass is called 'close'"),
        (["--pipeline", "propagation{x=1}"], "sdy-propagation-pipeline has no option 'x'"),
        (["--pass-pipeline=builtin.module(symbol-dce"], "a ')' is missing"),
        (["--pass-pipeline=nothing.known(symbol-dce)"], "'nothing.known' holds no passes"),
        (["a.mlir", "b.mlir"], "one file is read, but got a.mlir and b.mlir"),
    ],
)
def test_a_wrong_line_is_refused_by_name(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arguments(words)
    assert said in str(caught.value)


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_values_follow_their_option_or_an_equals_sign(dashes: str) -> None:
    assert parse_arguments([]) == OptArguments(file="-")
    for words in (["o", "out"], ["o=out"]):
        assert parse_arguments([dashes + words[0], *words[1:]]).output == "out"
    assert parse_arguments([f"{dashes}o="]).output == ""
    for word, value in (
        ("", True),
        ("=true", True),
        ("=1", True),
        ("=False", False),
        ("=0", False),
    ):
        assert parse_arguments([f"{dashes}split-input-file{word}"]).split_input_file is value


def test_words_behind_two_dashes_are_files() -> None:
    assert parse_arguments(["--", "-o"]).file == "-o"
    assert parse_arguments(["-"]).file == "-"
    with pytest.raises(UsageError, match="but got -o and x"):
        parse_arguments(["--", "-o", "x"])


def test_passes_keep_the_order_and_options_of_the_line() -> None:
    words = [
        "-sdy-close-shardings",
        "--pipeline=propagation",
        "--pass",
        "sdy-basic-propagate{keep-sharding-rules=true}",
        "-sdy-basic-propagate=conservative-propagation=true",
    ]
    close, pipeline, braces, plain = parse_arguments(words).passes
    assert [p.name for p in (close, pipeline)] == [
        "sdy-close-shardings",
        "sdy-propagation-pipeline",
    ]
    assert (braces.keep_sharding_rules, braces.conservative_propagation) == (True, False)
    assert (plain.keep_sharding_rules, plain.conservative_propagation) == (False, True)

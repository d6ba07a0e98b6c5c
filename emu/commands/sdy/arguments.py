"""Parser of the command line of ``emu sdy opt``, which follows MLIR's ``opt`` tools.

It does not use ``argparse``, which has no means for passes as options whose order
matters (``-sdy-close-shardings -sdy-drop-sharding-rules``), with one dash or two.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from emu.sdy.passes.base import Pass
from emu.sdy.passes.text import (
    PassTextError,
    known_passes,
    make_pass,
    parse_options,
    parse_pipeline,
)

HELP = """\
usage: emu sdy opt [OPTIONS] [PASSES] [FILE]

Reads MLIR (StableHLO with sdy shardings) from FILE or standard input, runs the
passes in the order given, and prints the module.

passes:
  -NAME, -NAME='option=value option=value'
                        a pass or a pipeline by Shardy's name, as in
                        -sdy-propagation-pipeline or
                        -sdy-basic-propagate='conservative-propagation=true'
  --pass NAME[{option=value …}]
  --pipeline NAME[{…}]  the same, spelt out; import, propagation and export
                        stand for sdy-import-pipeline and so on, and partition
                        for emu-partition-pipeline: the program of one device
  --pass-pipeline='builtin.module(func.func(a),b)'
  --list-passes         print the passes and their options

options:
  -o FILE               write there instead of to standard output
  -split-input-file     the text is cut at lines of "// -----"; each part is a module
  -verify-diagnostics   check the diagnostics against the comments
                        "// expected-error {{…}}" of the text
  -allow-unregistered-dialect=false
                        refuse operations of unknown dialects
  -mlir-print-op-generic
                        print the generic form
  -mlir-print-debuginfo print locations
  -verify-each=false    do not verify the module after each pass
  -h, --help            print this and exit
"""

_SHORT = {
    "import": "sdy-import-pipeline",
    "propagation": "sdy-propagation-pipeline",
    "export": "sdy-export-pipeline",
    "partition": "emu-partition-pipeline",
}
_FLAGS = {
    "split-input-file": "split_input_file",
    "verify-diagnostics": "verify_diagnostics",
    "allow-unregistered-dialect": "allow_unregistered",
    "mlir-print-op-generic": "generic",
    "mlir-print-debuginfo": "locations",
    "verify-each": "verify_each",
    "list-passes": "list_passes",
    "help": "help",
    "h": "help",
}


class UsageError(ValueError):
    """An invalid command line."""


@dataclass(slots=True)
class OptArguments:
    """A parsed command line."""

    file: str = "-"
    output: str | None = None
    passes: list[Pass] = field(default_factory=list)
    split_input_file: bool = False
    verify_diagnostics: bool = False
    allow_unregistered: bool = True
    generic: bool = False
    locations: bool = False
    verify_each: bool = True
    list_passes: bool = False
    help: bool = False


def parse_arguments(arguments: list[str]) -> OptArguments:
    """Parse a command line.

    Raises:
        UsageError: An option, a pass or a value is unknown; the text names it.
    """
    found = OptArguments()
    rest = list(arguments)
    files: list[str] = []
    try:
        while rest:
            _take(rest.pop(0), rest, found, files)
    except PassTextError as error:
        raise UsageError(str(error)) from None
    if len(files) > 1:
        raise UsageError(f"one file is read, but got {' and '.join(files)}")
    found.file = files[0] if files else "-"
    return found


def _take(word: str, rest: list[str], found: OptArguments, files: list[str]) -> None:
    if word == "--":  # the words after it are not options
        files += rest
        rest.clear()
        return
    if word == "-" or not word.startswith("-"):
        files.append(word)
        return
    name, equals, text = word.lstrip("-").partition("=")
    value = text if equals else None  # "-o=" gives an empty value, "-o" takes the next word
    if name in _FLAGS:
        setattr(found, _FLAGS[name], _switch(word, "true" if value is None else value))
    elif name == "o":
        found.output = _value(word, value, rest)
    elif name in {"pass", "pipeline"}:
        text = _value(word, value, rest)
        head = re.split(r"[{=]", text, maxsplit=1)[0]
        if name == "pipeline":
            text = _SHORT.get(head, head) + text[len(head) :]
        found.passes += parse_pipeline(text)
    elif name == "pass-pipeline":
        found.passes += parse_pipeline(_value(word, value, rest))
    elif name in known_passes():
        found.passes.append(make_pass(name, parse_options(text)))
    else:
        near = difflib.get_close_matches(name, [*known_passes(), *_FLAGS], 3)
        hint = f"; did you mean {' or '.join('-' + n for n in near)}?" if near else ""
        raise UsageError(f"no option or pass is called {word!r}{hint}")


def _switch(word: str, value: str) -> bool:
    if value.lower() not in {"true", "false", "0", "1"}:
        raise UsageError(f"{word!r} must be true or false")
    return value.lower() in {"true", "1"}


def _value(word: str, value: str | None, rest: list[str]) -> str:
    if value is not None:
        return value
    if not rest:
        raise UsageError(f"{word!r} needs a value")
    return rest.pop(0)


def pass_list() -> str:
    """Return the help on all passes, a few lines each: name, purpose, options."""
    import dataclasses

    lines = []
    for name, kind in sorted(known_passes().items()):
        summary = (kind.__doc__ or "").strip().partition("\n")[0]
        lines.append(f"-{name}\n    {summary}")
        for each in dataclasses.fields(kind):
            default = getattr(each.default, "value", each.default)
            shown = str(default).lower() if isinstance(default, bool) else repr(default)
            lines.append(f"    {each.name.replace('_', '-')}={shown}")
    return "\n".join(lines) + "\n"

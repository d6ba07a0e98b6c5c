"""Clues in what layers above have published: communication servers, PyPTO's ops, loops of Triton kernels."""

from __future__ import annotations

import re

from emu.comm.deadlock.report import Cause, Kind
from emu.comm.watchdog.waits import Wait

_DETAILS: tuple[tuple[str, Kind, str], ...] = (
    # What emu.pypto.hangs says; tests/pypto/test_hangs.py holds both together.
    ("signalled in other tiles", Kind.OTHER_TILES, "set the same tile shape on both sides"),
    (
        "has passed",
        Kind.OVERTAKEN,
        "wait for the sum of all ADDs, or clear the slot before it is used again",
    ),
    ("took the signal", Kind.CLEARED, "wait for a signal before it is cleared, and once only"),
    ("SET replaces", Kind.SET_NOT_ADD, "signal with sig_op=ADD where a wait counts"),
    (
        "signals are still missing",
        Kind.TOO_FEW,
        "count the senders: the value is the sum of what they add",
    ),
    (
        "signalled in a neighbouring slot",
        Kind.OTHER_INDEX,
        "let sender and receiver use one src_pe",
    ),
    ("signalled at other offsets", Kind.OTHER_INDEX, "let both sides take the same view"),
    ("signalled with another shape", Kind.OTHER_INDEX, "let both sides take the same view"),
    ("signalled on another tensor", Kind.OTHER_ARRAY, "let both sides use one tensor"),
    ("look at target_pe", Kind.OTHER_PE, "signal on the PE that waits"),
    ("which is not", Kind.OTHER_VALUE, "let sender and receiver agree on the value"),
    (
        "no PE has signalled these slots",
        Kind.NO_PREDECESSOR,
        "signal each tile that is waited for, and before a wait of the sender's own",
    ),
)
_TURN = re.compile(r"ranks \[[\d, ]+\] to (prepare|release|fetch)")


def named_clues(wait: Wait) -> list[Cause]:
    """Return what a wait's own description says about its cause."""
    description = wait.description
    found = _of_details(wait, [str(line) for line in description.get("details", ())])
    text = str(description.get("text", ""))
    turn = _TURN.search(text)
    if "server" in description and turn is not None:
        found.append(
            Cause(
                Kind.TASK_NOT_PREPARED,
                (wait.pe,),
                f"PE {wait.pe} waits in {wait.call} for {text}",
                "prepare the same tasks on every rank of the communicator, and commit and wait for each of them",
            )
        )
    if "programs have not begun" in text:
        found.append(
            Cause(
                Kind.LATER_PROGRAM,
                (wait.pe,),
                f"in {wait.call}, a program waits for {text}",
                "let programs wait for earlier ones only, or launch no more of them than can run at once",
            )
        )
    return found


def _of_details(wait: Wait, lines: list[str]) -> list[Cause]:
    best: list[Cause] = []
    for line in lines:
        for phrase, kind, advice in _DETAILS:
            if phrase in line:
                best.append(Cause(kind, (wait.pe,), f"PE {wait.pe}: {line.strip()}", advice))
                break
    order = [kind for _, kind, _ in _DETAILS]
    best.sort(key=lambda cause: order.index(cause.kind))
    return best[:2]

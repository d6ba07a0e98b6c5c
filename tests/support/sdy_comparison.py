"""What our passes say to a module, and how that differs from what the oracle says."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from unittest import mock

from sdy_oracle import Answer, Oracle

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import MlirError, PassFailed
from emu.mlir.transforms import inlining
from emu.sdy.passes.base import Pass, Session, run_pass
from emu.sdy.passes.export.local.conversion import ConvertGlobalToLocal
from emu.sdy.passes.export.pipeline import ExportPipeline
from emu.sdy.passes.export.unreduced_axes import VerifyUnreducedAxes
from emu.sdy.passes.text import parse_pipeline

PARTITION = (
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true}),canonicalize,"
    "func.func(sdy-reshard-to-collectives),canonicalize"
)
PIPELINES = (
    "sdy-propagation-pipeline",
    "sdy-import-pipeline",
    (
        "sdy-add-data-flow-edges,sdy-apply-sharding-constraints,sdy-sharding-group-import,"
        "sdy-basic-propagate,func.func(sdy-sink-data-flow-edges)"
    ),
    "sdy-add-data-flow-edges,sdy-aggressive-propagate",
    "sdy-add-data-flow-edges,sdy-op-priority-propagate{keep-sharding-rules=true}",
    "sdy-add-data-flow-edges,sdy-user-priority-propagate{conservative-propagation=true}",
    f"sdy-propagation-pipeline,{PARTITION}",
    f"sdy-propagation-pipeline{{dedup-functions-fully=true}},{PARTITION}",
)

__all__ = ["CRASHED", "difference", "ours"]

_ADDED = (
    "see current operation",
    "Available dialects",
    "for more info on dialect",
)  # MLIR's own notes
_ONCE = (  # said once a process
    "is unknown to SDY sharding rule registry",
    "we need to clone the function body for each call",
)
_ONLY_OURS = (  # where Shardy's are wrong
    "the collectives for this reshard end at",
    "offsets of shards along sub-axes are computed",
    "partial results of ",
    "each partial sum starts from ",
    "each device makes the same random bits",
    "each device updates its shard at the place",
)
CRASHED = "crashed"


def ours(text: str, pipeline: str, *, locations: bool = False, generic: bool = False) -> Answer:
    """What our passes say, in the words of the oracle."""
    session = Session()
    inlinable = inlining.INLINABLE
    # jaxlib leaves out how operations of func are inlined, so ours must not be either.
    inlining.INLINABLE = inlinable - {"func"}
    try:
        module = parse(text, diagnostics=session.diagnostics)
        # jaxlib 0.10.2 does not have that pass yet.
        with mock.patch.object(VerifyUnreducedAxes, "run", return_value=None):
            for each in parse_pipeline(pipeline):
                run_pass(_as_of_jaxlib(each), module, session)
        answer = [True, to_text(module, locations=locations, generic=generic)]
    except (MlirError, PassFailed) as error:
        crashed = "internal error: " in str(error)  # what a pass did not expect
        answer = [False, f"{CRASHED}: {error}" if crashed else str(error)]
    except Exception as error:  # noqa: BLE001  # a crash is a difference, with its piece
        answer = [False, f"{CRASHED}: {type(error).__name__}: {error}"]
    finally:
        inlining.INLINABLE = inlinable
    messages = [
        (d.severity.value, d.message, [n.message for n in d.notes])
        for d in session.diagnostics.emitted
    ]
    return Answer(bool(answer[0]), str(answer[1]), messages)


def _as_of_jaxlib(each: Pass) -> Pass:
    """A pass with what jaxlib 0.10.2 does where Shardy was repaired since."""
    if isinstance(each, ConvertGlobalToLocal):
        return replace(each, fix_sub_axis_offsets=False, fix_wrong_results=False)
    if isinstance(each, ExportPipeline):
        return replace(each, inline_meshes=False)
    return each


def difference(mine: Answer, theirs: Answer) -> list[str]:
    """Lines that tell how two answers differ; none if they agree."""

    def lines(answer: Answer) -> list[str]:
        said = []
        for severity, text, notes in answer.messages:
            if text.endswith(_ONCE) or text.startswith(_ONLY_OURS):
                continue
            shown = [note for note in notes if not note.startswith(_ADDED)]
            said.append(f"{severity}: {'; '.join([text, *shown])}")
        if answer.ok:
            return [*said, *answer.text.rstrip().splitlines()]
        return [*said, "failed" if said else f"failed: {answer.text}"]

    return list(
        difflib.unified_diff(lines(theirs), lines(mine), "theirs", "ours", lineterm="", n=1)
    )


# Shardy adds the edges of a user's named computations twice, and then refuses them.
_TWO_EDGES = "expected input of sdy.data_flow_edge to not be defined by an SdyDialect op"
# Shardy asks which of two operations is first even if their blocks are not the
# same; what comes of it, its own verifier may refuse.
_MISPLACED = "does not dominate this use"


@dataclass(frozen=True, slots=True)
class Difference:
    """A seed and a pipeline for which the two sides differ."""

    seed: int
    pipeline: str
    lines: list[str]

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.pipeline}\n" + "\n".join(self.lines[:40])


def compare(seed: int, text: str, pipeline: str, oracle: Oracle) -> Difference | str | None:
    """A difference, None if both sides agree, or why there is nothing to compare."""
    theirs = oracle.ask(text, pipeline)
    mine = ours(text, pipeline)
    if theirs.aborted:
        if not mine.text.startswith(CRASHED):
            return "aborted by the oracle"
        return Difference(seed, pipeline, [mine.text])
    if mine.ok and any(
        message.endswith(_MISPLACED) or _TWO_EDGES in message for _, message, _ in theirs.messages
    ):
        return "spoilt by the oracle"
    lines = difference(mine, theirs)
    return Difference(seed, pipeline, lines) if lines else None

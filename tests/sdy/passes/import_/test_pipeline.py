"""The import pipeline."""

from __future__ import annotations

from emu.sdy.passes.import_.pipeline import ImportPipeline


def test_passes_of_the_pipeline() -> None:
    def names(**options: bool) -> list[str]:
        return [each.name for each in ImportPipeline(**options).passes()]

    assert names()[-1] == "sdy-add-data-flow-edges"
    assert names(dedup_functions_fully=True) == [
        *names(),
        "sdy-apply-sharding-constraints",
        "sdy-sharding-group-import",
    ]

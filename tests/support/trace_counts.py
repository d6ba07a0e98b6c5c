"""Counts of a kernel as a trace has them: the form of ``Counts.to_json()``, version 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def counts_json(
    *,
    programs: int,
    dot: Mapping[str, int] | None = None,
    vector: Mapping[str, int] | None = None,
    special: int = 0,
    tensors: Sequence[tuple[int, int]] = (),
    **more: Any,
) -> dict[str, Any]:
    """Return the counts of one launch whose programs all do the same; the last tensor, (moved, unique), is stored, the others are loaded."""
    last = len(tensors) - 1
    rows = [
        {
            "name": f"x{number}",
            "element": "f16",
            "loaded": 0 if number == last else moved,
            "stored": moved if number == last else 0,
            "atomic": 0,
            "unique_loaded": 0 if number == last else unique,
            "unique_stored": unique if number == last else 0,
            "unique": unique,
            "lanes": moved // 2,
            "masked_off": 0,
        }
        for number, (moved, unique) in enumerate(tensors)
    ]
    return {
        "version": 1,
        "name": "kernel",
        "file": "program.py",
        "line": 1,
        "launches": 1,
        "programs": programs,
        "operations": 10 * programs,
        "work": {
            "dot": dict(dot or {}),
            "vector": dict(vector or {}),
            "special": {"f32": special},
            "address": {"ptr": 7},
        },
        "dots": [],
        "tensors": rows,
        "atomics": {},
        "unique": sum(unique for _, unique in tensors),
        "by_program": [
            {
                "programs": programs,
                "operations": 10,
                "flops": 1,
                "loaded": 1,
                "stored": 1,
                "is_uniform": True,
            }
        ],
        **more,
    }

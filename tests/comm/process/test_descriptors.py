"""The limit of open files is raised as far as a launch needs it."""

from __future__ import annotations

import resource

import pytest

from emu.comm.process.descriptors import allow_descriptors


@pytest.mark.parametrize(
    ("n_pes", "soft", "hard", "becomes"),
    [
        (4, 1 << 16, 1 << 20, None),
        (1024, 1024, 1 << 20, range(8 * 1024 + 128, 8 * 1024 + 4096)),
        (1024, 1024, 2048, range(2048, 2049)),
        (1024, resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
        (1024, 1024, resource.RLIM_INFINITY, range(8 * 1024 + 128, 8 * 1024 + 4096)),
    ],
)
def test_the_limit(
    n_pes: int, soft: int, hard: int, becomes: range | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.append(both))
    allow_descriptors(n_pes)
    if becomes is None:
        assert limits == []
    else:
        ((new, kept),) = limits
        assert new in becomes
        assert kept == hard

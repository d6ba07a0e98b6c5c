"""Huge pages of the fork server: asked for where Linux can, and memory stays what it was."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from emu.comm.process import huge_pages


def test_memory_stays_as_it_is() -> None:
    held = np.arange(1 << 20)
    found = huge_pages.join_pages()
    assert found >= 0
    assert (held == np.arange(1 << 20)).all()


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_nothing_is_asked_for(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert huge_pages.join_pages() == 0


def test_without_procfs_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise FileNotFoundError(args)

    monkeypatch.setattr("builtins.open", refuse)
    assert huge_pages.join_pages() == 0

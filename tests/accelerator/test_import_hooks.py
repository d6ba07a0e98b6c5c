"""Changes to modules that are made when a script imports them."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from emu.accelerator import patches
from emu.accelerator.import_hooks import after_import, while_imported

NAME = "emu_tests_imported_late"


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Calls of the hook: the module's name and what it held by then."""
    (tmp_path / f"{NAME}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    monkeypatch.setattr(patches.LEDGER, "_made", [])
    return []


def test_a_module_is_changed_once_after_its_own_code_has_run(seen: list[tuple[str, int]]) -> None:
    def change(module: ModuleType) -> None:
        seen.append((module.__name__, module.value))
        module.value = 2

    after_import(NAME, change)
    assert seen == []
    assert importlib.import_module(NAME).value == 2
    del sys.modules[NAME]
    assert importlib.import_module(NAME).value == 1  # a second import is the script's own
    assert seen == [(NAME, 1)]
    after_import(NAME, change)  # loaded already
    assert seen == [(NAME, 1)] * 2
    patches.undo_all()


def test_undoing_leaves_later_imports_alone(seen: list[tuple[str, int]]) -> None:
    finders = list(sys.meta_path)
    after_import(NAME, lambda module: seen.append((module.__name__, 0)))
    after_import("emu_tests_never_imported", lambda module: None)
    assert len(sys.meta_path) == len(finders) + 1  # one finder serves all
    patches.undo_all()
    assert sys.meta_path == finders
    assert importlib.import_module(NAME).value == 1
    assert seen == []


def test_a_module_is_executed_in_its_context_once(seen: list[tuple[str, int]]) -> None:
    @contextlib.contextmanager
    def around() -> Iterator[None]:
        seen.append(("enter", NAME in sys.modules))
        yield
        seen.append(("leave", sys.modules[NAME].value))

    while_imported(NAME, around)
    assert seen == []
    assert importlib.import_module(NAME).value == 1
    assert seen == [("enter", True), ("leave", 1)]
    while_imported(NAME, around)  # loaded already
    del sys.modules[NAME]
    importlib.import_module(NAME)
    assert len(seen) == 2
    patches.undo_all()

"""Other names of modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emu.kernels.core.module_alias import ModuleAlias


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "alias_home"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "leaf.py").write_text("value = []")
    (folder / "inner" / "__init__.py").write_text("from .. import leaf")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield "alias_home"
    sys.meta_path[:] = before
    for name in [n for n in sys.modules if n.partition(".")[0] in ("alias_home", "alias_other")]:
        del sys.modules[name]


def test_both_names_give_one_module(home: str) -> None:
    alias = ModuleAlias("alias_other", home)
    sys.meta_path.insert(0, alias)
    inner = importlib.import_module("alias_other.inner")
    assert inner is importlib.import_module("alias_home.inner")
    assert sys.modules["alias_other"] is sys.modules["alias_home"]
    assert importlib.import_module("alias_other.leaf").value is inner.leaf.value
    assert importlib.util.find_spec("alias_other.inner").submodule_search_locations is not None
    with pytest.raises(ModuleNotFoundError, match=r"alias_other\.nothing"):
        importlib.import_module("alias_other.nothing")
    alias.forget(below_only=True)
    assert [n for n in sys.modules if n.startswith("alias_other")] == ["alias_other"]
    alias.forget()
    assert "alias_other" not in sys.modules


def test_an_alias_that_is_held_finds_nothing_beside_another_module(home: str) -> None:
    alias = ModuleAlias("alias_other", home, only_while_held=True)
    assert alias.find_spec("alias_other") is None
    assert alias.find_spec("alias_other.leaf") is None
    assert alias.find_spec("unrelated") is None
    sys.modules["alias_other"] = importlib.import_module(home)
    assert alias.find_spec("alias_other.leaf") is not None

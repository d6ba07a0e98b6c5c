"""Installing: what changes in torch, what is refused, and what is given back."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

import emu.inductor
from emu.inductor import InductorError
from emu.triton import alias

pytestmark = pytest.mark.filterwarnings("ignore")


def test_inductor_writes_triton_until_it_is_uninstalled(inductor: Any) -> None:
    torch = inductor
    assert emu.inductor.installed()
    assert torch._inductor.config.cpu_backend == "triton"
    assert sys.modules["triton"] is sys.modules["emu.triton"]
    path = list(sys.path)
    emu.inductor.install()  # changes nothing
    assert sys.path == path
    emu.inductor.uninstall()
    assert not emu.inductor.installed()
    assert torch._inductor.config.cpu_backend == "cpp"
    assert len(sys.path) == len(path) - 1
    emu.inductor.uninstall()  # does nothing
    emu.inductor.install()
    assert torch._inductor.config.cpu_backend == "triton"


@pytest.mark.parametrize(
    ("triton", "said"), [(None, "no Triton"), (ModuleType("triton"), "another Triton")]
)
def test_an_inductor_that_knows_another_triton_is_refused(
    inductor: Any, monkeypatch: pytest.MonkeyPatch, triton: ModuleType | None, said: str
) -> None:
    emu.inductor.uninstall()
    loaded = ModuleType("torch._inductor.runtime.triton_compat")
    vars(loaded).update(HAS_TRITON=triton is not None, triton=triton)
    if triton is not None:
        triton.__file__ = "/somewhere/triton/__init__.py"
    try:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, loaded.__name__, loaded)
            before = inductor._inductor.config.cpu_backend
            with pytest.raises(InductorError, match=f"before the first torch.compile.*{said}"):
                emu.inductor.install()
            assert not emu.inductor.installed()
            assert inductor._inductor.config.cpu_backend == before
    finally:
        emu.inductor.install()


def test_the_name_triton_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "triton"}
    finders = list(sys.meta_path)
    try:
        alias.install()
        import emu.triton

        assert sys.modules["triton"] is emu.triton
        assert sys.modules["triton.language"] is emu.triton.language
        alias.install()
        alias.uninstall()
        assert "triton" not in sys.modules
        assert "triton.language" not in sys.modules
        alias.uninstall()
    finally:
        sys.meta_path[:] = finders
        sys.modules.update(before)

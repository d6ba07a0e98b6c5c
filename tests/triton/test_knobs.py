"""``triton.knobs``: defaults, what the environment sets, and undoing."""

import pytest

from emu.triton import knobs


def test_a_reset_reads_the_environment_again(monkeypatch):
    with knobs.runtime.scope(), knobs.language.scope():
        monkeypatch.setenv("TRITON_DEBUG", "on")
        monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
        assert knobs.runtime.reset() is knobs.runtime
        assert knobs.runtime.debug is True
        assert knobs.language.reset().default_fp_fusion is False
    assert knobs.runtime.debug is False


def test_a_scope_undoes_what_is_assigned_in_it():
    with knobs.runtime.scope():
        knobs.runtime.interpret = True
        knobs.runtime.of_a_later_release = 3  # Triton takes any name
        assert knobs.runtime.knobs["of_a_later_release"] == 3
    assert knobs.runtime.interpret is False
    with pytest.raises(AttributeError, match="there is no setting 'of_a_later_release'; there are"):
        _ = knobs.runtime.of_a_later_release


def test_hooks_are_called_in_order_or_backwards():
    told = []

    def first(value):
        told.append(("first", value))

    def second(value):
        told.append(("second", value))

    for backwards in (False, True):
        chain = knobs.HookChain(reversed=backwards)
        for hook in (first, second, first):
            chain.add(hook)
        chain(1)
        chain.remove(first)
        chain.remove(first)
        assert chain.calls == [second]
    assert [name for name, _ in told] == ["first", "second", "second", "first"]

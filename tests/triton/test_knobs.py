"""``triton.knobs``: defaults, what the environment sets, and undoing."""

import os
import sys

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
        assert os.environ["TRITON_INTERPRET"] == "1"
        knobs.runtime.of_a_later_release = 3  # Triton takes any name
        assert knobs.runtime.knobs["of_a_later_release"] == 3
    assert knobs.runtime.interpret is False
    assert "TRITON_INTERPRET" not in os.environ
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


class Sample(knobs.base_knobs):
    word = knobs.env_str("EMU_SAMPLE_WORD", "default")
    switch = knobs.env_bool("EMU_SAMPLE_SWITCH", True)
    maybe = knobs.env_opt_bool("EMU_SAMPLE_MAYBE")
    text = knobs.env_opt_str("EMU_SAMPLE_TEXT")
    number = knobs.env_int("EMU_SAMPLE_NUMBER", 3)
    cls = knobs.env_class("EMU_SAMPLE_CLASS", "Mapping")


@pytest.fixture
def sample(monkeypatch):
    group = Sample()
    for knob in group.knob_descriptors.values():
        monkeypatch.setenv(knob.key, "")  # recorded, so that it is undone at the end
        monkeypatch.delenv(knob.key)
    return group


def test_defaults_hold_without_a_variable(sample):
    assert sample.knobs == {
        "word": "default",
        "switch": True,
        "maybe": None,
        "text": None,
        "number": 3,
        "cls": None,
    }


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "on", "Yes", "y"])
def test_true_has_several_spellings(sample, monkeypatch, text):
    monkeypatch.setenv("EMU_SAMPLE_MAYBE", text)
    assert sample.maybe is True


@pytest.mark.parametrize("text", ["0", "false", "off", "", "2"])
def test_all_other_texts_mean_false(sample, monkeypatch, text):
    monkeypatch.setenv("EMU_SAMPLE_MAYBE", text)
    monkeypatch.setenv("EMU_SAMPLE_SWITCH", text)
    assert sample.maybe is False
    assert sample.switch is False


def test_an_assigned_value_wins_until_it_is_removed(sample, monkeypatch):
    sample.number = 5
    assert os.environ["EMU_SAMPLE_NUMBER"] == "5"
    monkeypatch.setenv("EMU_SAMPLE_NUMBER", "7")
    assert sample.number == 5
    other = sample.copy()
    sample.number = knobs.env
    assert sample.number == 7
    del other.number
    assert other.number == 7
    sample.text = "x"
    sample.text = None
    assert sample.text is None
    assert "EMU_SAMPLE_TEXT" not in os.environ


def test_assigning_need_not_reach_the_environment(sample, monkeypatch):
    monkeypatch.setattr(knobs, "propagate_env", False)
    sample.word = "other"
    assert sample.word == "other"
    assert "EMU_SAMPLE_WORD" not in os.environ
    assert sample.reset().word == "default"


def test_a_class_is_named_by_its_module(sample, monkeypatch):
    from collections import OrderedDict
    from collections.abc import Mapping

    monkeypatch.setenv("EMU_SAMPLE_CLASS", "collections.abc:Mapping")
    assert sample.cls is Mapping
    sample.cls = OrderedDict
    assert sample.cls is OrderedDict
    del sample.cls
    for text, said in {
        "Mapping": "must be of the form module:class",
        "collections:OrderedDict": "must name a Mapping",
        "collections:Nothing": "must name a Mapping",
    }.items():
        monkeypatch.setenv("EMU_SAMPLE_CLASS", text)
        with pytest.raises(RuntimeError, match=f"EMU_SAMPLE_CLASS {said}"):
            _ = sample.cls


def test_a_number_must_be_one(sample, monkeypatch):
    monkeypatch.setenv("EMU_SAMPLE_NUMBER", "many")
    with pytest.raises(RuntimeError, match="EMU_SAMPLE_NUMBER must be an integer, but is 'many'"):
        _ = sample.number


def test_folders_follow_the_home(monkeypatch):
    for name in ("TRITON_CACHE_DIR", "TRITON_DUMP_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRITON_HOME", os.path.join(os.sep, "home", "x"))
    assert knobs.cache.dir == os.path.join(os.sep, "home", "x", ".triton", "cache")
    monkeypatch.setenv("TRITON_CUDART_PATH", "there")
    monkeypatch.delenv("TRITON_CUDACRT_PATH", raising=False)
    assert knobs.build.backend_dirs == {"there"}


def test_a_tool_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setenv("TRITON_PTXAS_PATH", sys.executable)  # it says no release of CUDA
    with pytest.raises(
        RuntimeError, match="Cannot find ptxas: emu has no tools of NVIDIA's; TRITON_"
    ):
        _ = knobs.nvidia.ptxas
    knobs.refresh_knobs()

"""MACHINE_WORD and MACHINE_CALL: what they give in a PE, compiled and interpreted, and what is refused."""

from __future__ import annotations

import inspect
from unittest.mock import Mock

import numpy as np
import pytest
from tile_refusals import check_refused

import emu
from emu.comm.errors import CommError
from emu.comm.sync import kernel_calls, kernel_numbers
from emu.comm.world.kernel_elements import RemoteElements
from emu.tile import cpu, machine, reference
from emu.tile.text import parse_module, print_module

TEXT = """\
func @kernel(%out: ptr<i64>) {
  %who = machine_word {what = "my_pe"} : i64
  %all = machine_word {what = "n_pes"} : i64
  %zero = constant {value = 0} : i64
  %one = constant {value = 1} : i64
  %members = machine_call %zero {what = "team_size"} : i64
  %last = sub %all, %one : i64
  %number = machine_call %zero, %last {what = "team_world_pe"} : i64
  store %out, %who
  %a = ptr_add %out, %one : ptr<i64>
  store %a, %members
  %b = ptr_add %a, %one : ptr<i64>
  store %b, %number
  return
}
"""


def asks() -> list[list[int]]:
    module = parse_module(TEXT)
    found = []
    for run in (
        lambda at: cpu.compile(parse_module(TEXT)).bind(1)(1, 1, 1, [at]),
        lambda at: reference.run(module, [at]),
    ):
        out = np.zeros(3, np.int64)
        run(out.ctypes.data)
        found.append(out.tolist())
    return found


def test_words_and_calls_in_a_pe() -> None:
    assert emu.launch(asks, 3) == [[[pe, 3, 2]] * 2 for pe in range(3)]


def fails() -> list[str]:
    """A call that raises ends the kernel with its error: a listener's Python stands behind it here."""
    world = emu.world()
    text = TEXT.replace(
        '%members = machine_call %zero {what = "team_size"}',
        '%members = machine_call %one {what = "arrive"}',
    )
    out = np.zeros(3, np.int64)
    found = []
    for run in (
        lambda: cpu.compile(parse_module(text)).bind(1)(1, 1, 1, [out.ctypes.data]),
        lambda: reference.run(parse_module(text), [out.ctypes.data]),
    ):
        with pytest.raises(Exception, match="name must have 1 to 128 characters") as caught:
            run()
        found.append(str(caught.value))
        world.barrier()
    assert not out.any()
    return found


def test_an_error_of_a_call_is_that_of_the_launch() -> None:
    (found,) = emu.launch(fails, 1, checks=emu.Checks(race=True))
    assert len(found) == 2


def test_without_a_world_nothing_runs() -> None:
    out = np.zeros(3, np.int64)
    with pytest.raises(CommError, match="this process is none"):
        cpu.compile(parse_module(TEXT)).bind(1)
    with pytest.raises(CommError, match="this process is none"):
        cpu.compile(parse_module(TEXT)).launch(out.ctypes.data)
    with pytest.raises(CommError, match="this process is none"):
        reference.run(parse_module(TEXT), [out.ctypes.data])


def test_the_text_survives_a_round_trip() -> None:
    text = print_module(parse_module(TEXT))
    assert print_module(parse_module(text)) == text
    assert "machine_call" in text


@pytest.mark.parametrize(
    ("line", "said"),
    {
        '%r = machine_word {what = "moon"} : i64': "what must be one of ('my_pe'",
        '%r = machine_word {what = "my_pe"} : i32': "its results must be (i64), but got (i32)",
        '%r = machine_call {what = "moon"} : i64': "what must be one of ('put'",
        '%r = machine_call %i {what = "quiet"} : i64': "it must have 0 operands, but got 1",
        '%r = machine_call %i {what = "changed"} : i64': "its operands must be (i64), but got (i32)",
    }.items(),
)
def test_what_is_refused(line: str, said: str) -> None:
    check_refused(line, said)


def test_each_call_has_its_name_and_its_arguments() -> None:
    names = list(kernel_numbers.CALLS)
    native = [f.__name__ for f in kernel_calls.CALLS]
    assert names[: len(native)] == native
    assert set(names[len(native) :]) == kernel_numbers.OVER_HOSTS
    for function in kernel_calls.CALLS:
        count = kernel_numbers.CALLS[function.__name__]
        plain = getattr(function, "py_func", function)
        assert plain.__code__.co_argcount == count + 1, plain.__name__
    for name, method in RemoteElements(Mock()).by_name().items():
        taken = inspect.signature(method).parameters
        assert len(taken) == kernel_numbers.CALLS[name], name
    assert machine.place_of_call("put") == kernel_numbers.WORDS

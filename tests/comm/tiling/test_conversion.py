"""Conversion of messages between versions, and writing them."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiling_messages import FLAT, LISTING, SETTINGS, V1_OFFSETS, Wrapped, offsets, seed

from emu.comm.errors import ArgumentError
from emu.comm.tiling import (
    ConversionError,
    Mc2Msg112,
    Mc2Msg128,
    Mc2MsgV1,
    Version,
    convert,
    layout_of,
    make_mc2msg,
    read_macros,
    version_of,
    write_mc2msg,
)


@pytest.mark.parametrize(("origin", "target"), list(itertools.permutations(FLAT[:2] + FLAT[3:], 2)))
def test_flat_versions_are_converted_field_by_field(origin, target):
    names = layout_of(origin).by_name
    message = origin(**{name: i + 1 for i, name in enumerate(names)})
    converted = convert(message, version_of(target()))
    assert type(converted) is target
    assert converted.to_dict() == message.to_dict()
    assert convert(converted, version_of(message)) == message


def test_the_old_version_is_converted_when_nothing_is_lost():
    message = Mc2Msg112(sendCnt=2**40, commAlg=1, stepSize=3, commType=6, reduceOp=2)
    assert convert(message, "128").to_dict().items() >= message.to_dict().items()
    assert convert(convert(message, "128"), "112") == message
    with pytest.raises(
        ConversionError, match="preparePosition must be zero to become version 112, which lacks it"
    ):
        convert(seed(), "112")
    with pytest.raises(ConversionError, match="field recvArgIndex must be zero"):
        convert(Mc2MsgV1(recvArgIndex=3), "112")


@pytest.mark.parametrize("name", ["sendOff", "recvCnt", "totalCnt"])
def test_counts_that_do_not_fit_are_named(name):
    with pytest.raises(
        ConversionError,
        match=rf"128 must fit into version v1: field Mc2Msg.{name} .* but got 4294967296",
    ):
        convert(Mc2Msg128(**{name: 2**32}), "v1")
    assert convert(Mc2Msg128(sendCnt=2**40), "v1").sendCnt == 2**40


def test_a_message_read_from_macros_is_converted():
    message = read_macros(LISTING).instances["tiling"].msg
    assert version_of(message) is Version.V1
    assert convert(message, "128") == Mc2Msg128(**SETTINGS)


@pytest.mark.parametrize("target", ["api", "api512"])
def test_v2_and_api_messages_are_converted(target):
    task = {"skipLocalRankCopy": 1, "stepSize": 2, "groupName": "g", "algConfig": "a", "opType": 6}
    message = make_mc2msg("v2", n_tasks=2, task0=task, task1={"reduceType": 2})
    converted = convert(message, target)
    assert (converted.init.count, converted.task0.groupName, converted.task1.reduceType) == (
        2,
        b"g",
        2,
    )
    assert convert(converted, "v2") == message
    message.config.recvArgIndex = 3
    with pytest.raises(ConversionError, match=rf"recvArgIndex must be zero .* version {target}"):
        convert(message, target)


def test_a_message_of_one_task_becomes_v2_when_it_says_nothing_more():
    message = Mc2MsgV1(commType=6, reduceOp=3, stepSize=2, recvArgIndex=3, debugMode=1)
    converted = convert(message, "v2")
    assert (converted.task0.opType, converted.task0.reduceType, converted.task0.stepSize) == (
        6,
        3,
        2,
    )
    assert (converted.config.recvArgIndex, converted.config.debugMode) == (3, 1)
    assert convert(converted, "v1") == message
    with pytest.raises(ConversionError, match="commAlg must be zero to become version v2"):
        convert(Mc2MsgV1(commAlg=1), "v2")
    assert convert(Mc2MsgV1(preparePosition=1), "api").init.preparePosition == 1
    with pytest.raises(ConversionError, match="must have one task to become version v1, but has 2"):
        convert(make_mc2msg("v2", n_tasks=2), "v1")
    with pytest.raises(ConversionError, match=r"field Mc2Msg.commType must be in"):
        convert(make_mc2msg("v2", task0={"opType": 256}), "v1")
    with pytest.raises(ConversionError, match=r"field task0.groupName must be zero .* b'g'"):
        convert(make_mc2msg("v2", task0={"groupName": "g"}), "v1")


def test_messages_are_written_in_any_version():
    target = bytearray(b"\xff" * 130)
    assert write_mc2msg(seed(), target, "128") == 128
    assert target == Mc2Msg128(**SETTINGS).to_bytes() + b"\xff\xff"
    with pytest.raises(ArgumentError, match="capacity must be at least 128 for Mc2Msg128, but got"):
        write_mc2msg(seed(), target, "128", capacity=127)
    with pytest.raises(ArgumentError, match="must have the layout of an Mc2Msg, but got Wrapped"):
        write_mc2msg(Wrapped(), target)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(list(offsets(V1_OFFSETS))), st.integers(0, 255)))
def test_v1_messages_survive_the_way_to_128_bytes_and_back(fields):
    message = Mc2MsgV1(**fields)
    there = Mc2Msg128.from_bytes(convert(message, "128").to_bytes(), strict=True)
    assert there == Mc2Msg128(**fields)
    assert convert(there, "v1") == message

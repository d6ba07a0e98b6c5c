"""The communication message: its versions, their offsets and how they are made."""

import struct

import pytest
from tiling_messages import LISTING, SETTINGS, V1_OFFSETS, offsets

from emu.comm.errors import ArgumentError
from emu.comm.tiling import (
    CommAlg,
    Mc2Msg92,
    Mc2Msg112,
    Mc2Msg128,
    Mc2MsgV1,
    Version,
    layout_of,
    make_mc2msg,
    read_macros,
    struct_of,
)

OFFSETS_128 = """
preparePosition 0 sendOff 8 recvOff 16 tailSendOff 24 tailRecvOff 32 sendCnt 40 recvCnt 48
tailSendCnt 56 tailRecvCnt 64 totalCnt 72 turnNum 80 tailNum 84 stride 88 workspaceOff 92
notifyOff 96 notifyBeginCnt 100 notifyEndCnt 102 useBufferType 104 funID 105 dataType 106
groupNum 107 reuseMode 108 commType 109 reduceOp 110 commOrder 111 waitPolicy 112 rspPolicy 113
exitPolicy 114 commAlg 115 taskType 116 debugMode 117 stepSize 118 sendArgIndex 119
recvArgIndex 120 commOutArgIndex 121 hasCommOut 122 reserve 123 reserve2 124
"""


def test_v1_has_the_offsets_of_the_table():
    assert (Mc2MsgV1.offsets(), Mc2MsgV1.size) == (offsets(V1_OFFSETS), 96)
    assert layout_of(Mc2MsgV1).paddings == ((20, 4, "sendCntPH"),)
    assert Mc2MsgV1.size == struct.calcsize("<5I4xQ9I2H20BI")
    assert layout_of(read_macros(LISTING).structs["Mc2Msg"]) == layout_of(Mc2MsgV1)


def test_the_settings_of_the_listing_are_five_bytes():
    data = Mc2MsgV1(sendArgIndex=0, **SETTINGS).to_bytes()
    assert {i: byte for i, byte in enumerate(data) if byte} == {0: 1, 83: 1, 88: 3, 89: 4}
    assert len(data) == 96


def test_every_byte_of_v1_is_where_the_struct_module_puts_it():
    values = [i + 1 for i in range(len(layout_of(Mc2MsgV1).fields))]
    message = Mc2MsgV1(**dict(zip(layout_of(Mc2MsgV1).by_name, values, strict=True)))
    assert message.to_bytes() == struct.pack("<5I4xQ9I2H20BI", *values)


def test_the_reader_of_128_bytes_has_the_offsets_of_the_table():
    assert (Mc2Msg128.offsets(), Mc2Msg128.size) == (offsets(OFFSETS_128), 128)
    assert layout_of(Mc2Msg128).paddings == ((4, 4, "sendOffPH"),)


def test_the_old_version_has_nine_words_and_no_padding():
    layout = layout_of(Mc2Msg112)
    assert (layout.size, layout.paddings) == (112, ())
    assert [item.size for item in layout.fields[:9]] == [8] * 9
    assert not {"preparePosition", "sendArgIndex"} & layout.by_name.keys()


def test_the_packed_message_has_92_bytes_and_sendcnt_at_20():
    assert (Mc2Msg92.size, Mc2Msg92.sendCnt.offset, Mc2Msg92.commAlg.offset) == (92, 20, 79)
    assert list(Mc2Msg92.offsets()) == list(Mc2MsgV1.offsets())


def test_a_v2_message_has_the_offsets_of_the_table():
    two = struct_of(Version.V2, 2).offsets()
    assert struct_of(Version.V2, 2).size == 8 + 16 + 280 * 2
    expected = {
        "version": 0, "count": 4, "config.version": 8, "config.debugMode": 12,
        "config.sendArgIndex": 13, "config.recvArgIndex": 14, "config.commOutArgIndex": 15,
        "config.reserved": 16, "task0.skipLocalRankCopy": 24, "task0.skipBufferWindowCopy": 25,
        "task0.stepSize": 26, "task0.reserved": 27, "task0.groupName": 40, "task0.algConfig": 168,
        "task0.opType": 296, "task0.reduceType": 300, "task1.skipLocalRankCopy": 304,
    }  # fmt: skip
    assert {name: two[name] for name in expected} == expected


@pytest.mark.parametrize(("version", "size"), [(Version.API, 280), (Version.API_512, 512)])
def test_an_api_message_has_the_offsets_of_the_table(version, size):
    kind = struct_of(version, 2)
    assert kind.size == 64 + size * 2
    there = kind.offsets()
    head = ["init.version", "init.count", "init.offset", "init.debugMode", "init.preparePosition"]
    assert [there[name] for name in head] == [0, 4, 8, 40, 41]
    parts = {
        "skipLocalRankCopy": 0, "skipBufferWindowCopy": 1, "stepSize": 2, "version": 3,
        "groupName": 16, "algConfig": 144, "opType": 272, "reduceType": 276,
    }  # fmt: skip
    for task, start in (("task0", 64), ("task1", 64 + size)):
        assert {name: there[f"{task}.{name}"] - start for name in parts} == parts
    message = make_mc2msg(version, n_tasks=2)
    assert (message.init.version, message.init.count) == (100, 2)
    assert message.init.offset == [64, 64 + size, 0, 0, 0, 0, 0, 0]


def test_messages_are_made_with_their_number():
    message = make_mc2msg("v2", n_tasks=3, config={"recvArgIndex": 3}, task2={"groupName": "g"})
    assert message.to_bytes()[:8] == struct.pack("<2I", 2, 3)
    assert (message.config.recvArgIndex, message.task2.groupName) == (3, b"g")
    assert make_mc2msg(commAlg=CommAlg.FULL_MESH).to_bytes()[83] == 1


@pytest.mark.parametrize(
    ("version", "n", "most"), [("v1", 2, 1), ("v2", 4, 3), ("v2", 0, 3), ("api", 9, 8)]
)
def test_too_many_tasks_are_refused(version, n, most):
    with pytest.raises(ArgumentError, match=rf"must be in \[1, {most}\], but got {n}"):
        make_mc2msg(version, n_tasks=n)


@pytest.mark.parametrize(
    ("name", "version"),
    [("seed", "V1"), (96, "V1"), ("92", "PACKED_92"), ("128", "READER_128"), ("API512", "API_512")],
)
def test_versions_have_names_and_sizes(name, version):
    assert Version(name) is Version[version]
    with pytest.raises(ArgumentError, match=r"version must be one of v1, 128, .*, but got 'v3'"):
        Version("v3")

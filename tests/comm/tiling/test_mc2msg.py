"""The communication message: its versions made, read, told apart and converted."""

import itertools
import pickle
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.comm.errors import ArgumentError
from emu.comm.tiling import (
    AmbiguousVersionError,
    CommAlg,
    ConversionError,
    HcclCommand,
    HcclDataType,
    HcclReduceOp,
    Mc2Msg92,
    Mc2Msg112,
    Mc2Msg128,
    Mc2MsgV1,
    MessageError,
    PackedMessageError,
    TilingData,
    UseBufferType,
    Version,
    VersionMismatchError,
    convert,
    detect,
    layout_of,
    make_mc2msg,
    read_macros,
    read_mc2msg,
    struct_of,
    uint32,
    version_of,
    write_mc2msg,
)

LISTING = Path(__file__).with_name("seed_listing.txt").read_text(encoding="utf-8")
SETTINGS = {"preparePosition": 1, "commAlg": 1, "recvArgIndex": 3, "commOutArgIndex": 4}
V1_OFFSETS = """
preparePosition 0 sendOff 4 recvOff 8 tailSendOff 12 tailRecvOff 16 sendCnt 24 recvCnt 32
tailSendCnt 36 tailRecvCnt 40 totalCnt 44 turnNum 48 tailNum 52 stride 56 workspaceOff 60
notifyOff 64 notifyBeginCnt 68 notifyEndCnt 70 useBufferType 72 funID 73 dataType 74 groupNum 75
reuseMode 76 commType 77 reduceOp 78 commOrder 79 waitPolicy 80 rspPolicy 81 exitPolicy 82
commAlg 83 taskType 84 debugMode 85 stepSize 86 sendArgIndex 87 recvArgIndex 88 commOutArgIndex 89
hasCommOut 90 reserve 91 reserve2 92
"""
OFFSETS_128 = """
preparePosition 0 sendOff 8 recvOff 16 tailSendOff 24 tailRecvOff 32 sendCnt 40 recvCnt 48
tailSendCnt 56 tailRecvCnt 64 totalCnt 72 turnNum 80 tailNum 84 stride 88 workspaceOff 92
notifyOff 96 notifyBeginCnt 100 notifyEndCnt 102 useBufferType 104 funID 105 dataType 106
groupNum 107 reuseMode 108 commType 109 reduceOp 110 commOrder 111 waitPolicy 112 rspPolicy 113
exitPolicy 114 commAlg 115 taskType 116 debugMode 117 stepSize 118 sendArgIndex 119
recvArgIndex 120 commOutArgIndex 121 hasCommOut 122 reserve 123 reserve2 124
"""
ALL = [
    *((version, 1) for version in (Version.V1, Version.READER_128, Version.OLD_112)),
    *((Version.V2, n) for n in (1, 2, 3)),
    *itertools.product((Version.API, Version.API_512), (1, 2, 8)),
]
FLAT = [Mc2MsgV1, Mc2Msg128, Mc2Msg112, Mc2Msg92]


def offsets(text):
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def seed(version=Version.V1):
    return convert(Mc2MsgV1(**SETTINGS), version)


class Wrapped(TilingData):
    """A user's tiling data with the message in front."""

    msg: Mc2MsgV1
    m: uint32
    k: uint32
    n: uint32


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


@pytest.mark.parametrize(("version", "n"), ALL)
def test_every_version_is_recognised_from_its_bytes(version, n):
    message = make_mc2msg(version, n_tasks=n)
    found = detect(message.to_bytes())
    assert (found.version, found.struct, found.size) == (
        version,
        struct_of(version, n),
        message.size,
    )
    assert read_mc2msg(message.to_bytes()) == message
    assert version_of(message) is version
    again = detect(b"xyz" + message.to_bytes() + b"more", offset=3, expected=version)
    assert (again.version, again.size) == (version, message.size)
    assert pickle.loads(pickle.dumps(FLAT[0](**SETTINGS))) == FLAT[0](**SETTINGS)


def test_the_evidence_says_what_was_seen():
    assert detect(seed().to_bytes()).evidence == (
        "96 bytes",
        "commAlg is 1 (full mesh) at 83",
        "recvArgIndex is 3 at 88",
        "commOutArgIndex is 4 at 89",
    )
    odd = bytearray(seed().to_bytes())
    odd[20], odd[79], odd[83], odd[91] = 7, 9, 77, 5
    assert detect(odd).evidence[1:] == (
        "commAlg is 77 at 83",
        "recvArgIndex is 3 at 88",
        "commOutArgIndex is 4 at 89",
        "odd: padding sendCntPH at 20 is 07 00 00 00",
        "odd: commOrder at 79 is 9",
        "odd: commAlg at 83 is 77",
        "odd: reserve at 91 is 5",
    )


@pytest.mark.parametrize("version", [Version.V1, Version.READER_128])
def test_a_message_in_front_of_other_data_is_recognised_by_its_contents(version):
    data = seed(version).to_bytes() + struct.pack("<5I", 512, 5120, 640, 448, 64)
    found = detect(data)
    assert (found.version, found.evidence[0]) == (version, "followed by 20 bytes")
    assert read_mc2msg(data) == seed(version)
    assert read_mc2msg(data, expected=version) == seed(version)


def test_wrapped_structs_are_read():
    wrapped = Wrapped(msg=SETTINGS, m=512, k=5120, n=640)
    assert len(wrapped.to_bytes()) == 112  # the old version's size, by chance
    with pytest.raises(AmbiguousVersionError, match=r"112 bytes of version 112 and reads as .* v1"):
        detect(wrapped.to_bytes())
    assert read_mc2msg(wrapped.to_bytes(), expected="v1") == seed()
    assert read_mc2msg(b"\0" * 8 + wrapped.to_bytes(), offset=8, expected=Version.V1) == seed()


@pytest.mark.parametrize("expected", [None, Version.V1, Version.READER_128])
def test_the_trap_of_92_bytes_is_named(expected):
    packed = Mc2Msg92(**SETTINGS).to_bytes()
    with pytest.raises(PackedMessageError, match=r"packed to 1: sendCnt at 20 of 92 bytes \(92 b"):
        read_mc2msg(packed, expected=expected)
    # The same in a buffer of the right size: only the contents tell.
    for room in (96, 136):
        if room >= 128 or expected is not Version.READER_128:
            with pytest.raises(PackedMessageError, match=r"commAlg is 1 .full mesh. at 79"):
                read_mc2msg(packed.ljust(room, b"\0"), expected=expected)


def test_the_packed_message_can_be_read_when_asked_for():
    packed = Mc2Msg92(sendCnt=5, **SETTINGS)
    read = read_mc2msg(packed.to_bytes(), expected=Version.PACKED_92)
    assert read == packed
    assert convert(read, Version.V1) == Mc2MsgV1(sendCnt=5, **SETTINGS)


def test_96_bytes_where_128_are_expected_are_named():
    with pytest.raises(VersionMismatchError, match=r"128 bytes of version 128, but got 96, .* v1"):
        detect(seed().to_bytes(), expected="128")
    longer = seed().to_bytes() + bytes(40)
    with pytest.raises(VersionMismatchError, match=r"must be of version 128, but reads as .* v1"):
        detect(longer, expected="128")
    with pytest.raises(AmbiguousVersionError, match="the 128 bytes of version 128 and reads as"):
        detect(seed().to_bytes() + bytes(32))


def test_128_bytes_where_96_are_expected_are_named():
    with pytest.raises(
        VersionMismatchError, match=r"must be of version v1, but reads as version 128 \(commAlg"
    ):
        detect(seed(Version.READER_128).to_bytes(), expected="v1")


def test_112_bytes_where_another_version_is_expected_are_named():
    old = Mc2Msg112(commAlg=1, sendOff=64)
    with pytest.raises(VersionMismatchError, match="but got 112, the size of version 112"):
        detect(old.to_bytes(), expected="128")
    for message in (old, Mc2Msg112(commAlg=1)):
        with pytest.raises(VersionMismatchError, match="of version v1, but reads as version 112"):
            detect(message.to_bytes(), expected="v1")
    with pytest.raises(
        VersionMismatchError, match="112 bytes of version 112, but got 96, the size"
    ):
        detect(seed().to_bytes(), expected="112")
    assert detect(seed().to_bytes() + bytes(16), expected="v1").version is Version.V1


def test_an_old_message_may_begin_with_any_offset():
    for first in (0, 1, 2, 100, 2**40):
        assert detect(Mc2Msg112(sendOff=first).to_bytes()).version is Version.OLD_112


@pytest.mark.parametrize("length", [0, 1, 7, 91])
def test_too_few_bytes_are_refused(length):
    with pytest.raises(MessageError, match=f"message must have 96 .*, but got {length}"):
        detect(bytes(length))
    with pytest.raises(MessageError, match=f"but got {length}"):
        detect(bytes(length), expected="v1")
    with pytest.raises(VersionMismatchError, match=f"begin with 2, but got {length} bytes"):
        detect(bytes(length), expected="v2")


@pytest.mark.parametrize("length", [93, 97, 127, 129, 4096])
def test_a_message_that_says_nothing_needs_to_be_expected(length):
    with pytest.raises(AmbiguousVersionError, match="say which version is expected"):
        detect(bytes(length))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (struct.pack("<2I", 2, 4) + bytes(1200), r"version v2 .* must be in \[1, 3\], but got 4"),
        (struct.pack("<2I", 2, 0) + bytes(1200), r"must be in \[1, 3\], but got 0"),
        (struct.pack("<2I", 2, 2) + bytes(570), "with 2 tasks must have 584 bytes, but got 578"),
        (struct.pack("<2I", 100, 9) + bytes(9999), r"version api .* in \[1, 8\], but got 9"),
        (struct.pack("<2I", 100, 1) + bytes(335), "with 1 tasks must have 344 bytes, but got 343"),
        (struct.pack("<2I", 100, 1) + bytes(9), "with 1 tasks must have 344 bytes, but got 17"),
        (struct.pack("<2I", 100, 1) + bytes(999), "must have 344 or 576 bytes, but got 1007"),
    ],
)
def test_wrong_numbered_messages_are_refused(data, text):
    with pytest.raises(MessageError, match=text):
        detect(data)


def test_lengths_of_api_tasks_are_told_apart():
    for version in (Version.API, Version.API_512):
        data = make_mc2msg(version, n_tasks=2).to_bytes()
        assert detect(data + bytes(2000)).version is version  # by the offsets
        assert detect(make_mc2msg(version).to_bytes()).version is version  # by the size
        assert detect(make_mc2msg(version).to_bytes() + bytes(999), expected=version)
    assert detect(make_mc2msg("api").to_bytes() + bytes(8)).version is Version.API


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
@given(st.binary(max_size=700), st.sampled_from([None, *Version]))
def test_any_bytes_are_read_or_refused_as_a_message(data, expected):
    try:
        message = read_mc2msg(data, expected=expected)
    except MessageError:
        return
    assert expected in {None, version_of(message)}
    assert len(message.to_bytes()) <= len(data)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(list(offsets(V1_OFFSETS))), st.integers(0, 255)))
def test_v1_messages_survive_the_way_to_128_bytes_and_back(fields):
    message = Mc2MsgV1(**fields)
    there = Mc2Msg128.from_bytes(convert(message, "128").to_bytes(), strict=True)
    assert there == Mc2Msg128(**fields)
    assert convert(there, "v1") == message


@pytest.mark.parametrize(
    ("member", "dtype"),
    [
        (HcclDataType.INT8, np.int8), (HcclDataType.INT16, np.int16), (HcclDataType.INT32, np.int32),
        (HcclDataType.FP16, np.float16), (HcclDataType.FP32, np.float32),
        (HcclDataType.INT64, np.int64), (HcclDataType.UINT64, np.uint64),
        (HcclDataType.UINT8, np.uint8), (HcclDataType.UINT16, np.uint16),
        (HcclDataType.UINT32, np.uint32), (HcclDataType.FP64, np.float64),
        (HcclDataType.BF16, ml_dtypes.bfloat16),
    ],
)  # fmt: skip
def test_data_types_are_those_of_numpy(member, dtype):
    assert member.numpy == np.dtype(dtype)
    assert HcclDataType.from_numpy(dtype) is member
    assert member.itemsize == np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", [np.bool_, np.complex64, ">f4", ml_dtypes.float8_e5m2, "S4"])
def test_other_data_types_are_refused(dtype):
    with pytest.raises(ArgumentError, match=r"dtype must be one of int8, .* bfloat16, but got"):
        HcclDataType.from_numpy(dtype)


def test_enumerations_have_the_numbers_of_the_table():
    assert [command.value for command in HcclCommand] == [*range(1, 14), 16, 17]
    assert (HcclCommand.ALLGATHER, HcclCommand.ALLTOALL) == (6, 10)
    assert [op.name for op in HcclReduceOp] == ["SUM", "PROD", "MAX", "MIN"]
    assert [int(op) for op in HcclReduceOp] == [0, 1, 2, 3]
    assert [int(kind) for kind in HcclDataType] == list(range(12))
    assert (UseBufferType.WINDOW_IN, UseBufferType.COMM_OUT) == (2, 6)

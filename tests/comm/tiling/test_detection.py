"""Detection of a message's version from its bytes, and the traps between versions."""

import itertools
import pickle
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiling_messages import FLAT, SETTINGS, Wrapped, seed

from emu.comm.tiling import (
    AmbiguousVersionError,
    Mc2Msg92,
    Mc2Msg112,
    Mc2MsgV1,
    MessageError,
    PackedMessageError,
    Version,
    VersionMismatchError,
    convert,
    detect,
    make_mc2msg,
    read_mc2msg,
    struct_of,
    version_of,
)

ALL = [
    *((version, 1) for version in (Version.V1, Version.READER_128, Version.OLD_112)),
    *((Version.V2, n) for n in (1, 2, 3)),
    *itertools.product((Version.API, Version.API_512), (1, 2, 8)),
]


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


@settings(deadline=None)
@given(st.binary(max_size=700), st.sampled_from([None, *Version]))
def test_any_bytes_are_read_or_refused_as_a_message(data, expected):
    try:
        message = read_mc2msg(data, expected=expected)
    except MessageError:
        return
    assert expected in {None, version_of(message)}
    assert len(message.to_bytes()) <= len(data)

"""Messages and their offsets, for the tests of tiling data."""

from pathlib import Path

from emu.comm.tiling import (
    Mc2Msg92,
    Mc2Msg112,
    Mc2Msg128,
    Mc2MsgV1,
    TilingData,
    Version,
    convert,
    uint32,
)

LISTING = (Path(__file__).parents[1] / "comm" / "tiling" / "seed_listing.txt").read_text(
    encoding="utf-8"
)
SETTINGS = {"preparePosition": 1, "commAlg": 1, "recvArgIndex": 3, "commOutArgIndex": 4}
V1_OFFSETS = """
preparePosition 0 sendOff 4 recvOff 8 tailSendOff 12 tailRecvOff 16 sendCnt 24 recvCnt 32
tailSendCnt 36 tailRecvCnt 40 totalCnt 44 turnNum 48 tailNum 52 stride 56 workspaceOff 60
notifyOff 64 notifyBeginCnt 68 notifyEndCnt 70 useBufferType 72 funID 73 dataType 74 groupNum 75
reuseMode 76 commType 77 reduceOp 78 commOrder 79 waitPolicy 80 rspPolicy 81 exitPolicy 82
commAlg 83 taskType 84 debugMode 85 stepSize 86 sendArgIndex 87 recvArgIndex 88 commOutArgIndex 89
hasCommOut 90 reserve 91 reserve2 92
"""
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

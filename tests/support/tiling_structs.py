"""Structs of tiling data that several tests declare."""

from emu.comm.tiling import (
    TilingData,
    boolean,
    char,
    float64,
    int8,
    uint16,
    uint32,
    uint64,
)


class Matrix(TilingData):
    mmVar: uint16
    mmArr: uint16[3]


class Sample(TilingData):
    """The first vector of the specification."""

    blkDim: uint32
    totalSize: uint32
    splitTile: uint32
    arrSample: uint16[3]
    mm: Matrix


SAMPLE = "08000000 00000000 00000000 0a00 0200 0800 000000000000 0100 0a00 0200 0800"


class EveryType(TilingData):
    flag: boolean
    wide: float64
    real: float
    small: int8
    large: uint64
    text: char[5]
    letter: char

"""Layout of structs: offsets, padding, nesting and packing."""

import numpy as np
from tiling_structs import SAMPLE, EveryType, Sample

from emu.comm.tiling import (
    TilingData,
    uint8,
    uint16,
    uint32,
    uint64,
)


def test_scalars_are_padded_to_their_own_size():
    kinds = (uint8, uint32, uint8, uint32, uint32)
    kind = TilingData.define("Mixed", [(f"f{i}", k) for i, k in enumerate(kinds)])
    assert kind.size == 24
    assert list(kind.offsets().values()) == [0, 4, 8, 12, 16]
    assert sum(size for _, size, _ in kind.layout().paddings) == 10
    assert kind.layout().paddings == ((1, 3, "f1PH"), (9, 3, "f3PH"), (20, 4, "MixedPH"))


def test_a_nested_struct_starts_at_eight_and_ends_at_eight():
    inner = TilingData.define("Inner", [("a", uint32), ("b", uint32), ("c", uint32)])
    kind = TilingData.define(
        "Outer", [("x", uint32), ("s", inner), ("y", uint32), ("arr", uint16, 3), ("z", uint8)]
    )
    assert kind.size == 40
    assert [kind.layout().by_name[name].offset for name in ("x", "s", "y", "arr", "z")] == [
        0,
        8,
        24,
        28,
        34,
    ]
    assert kind.layout().paddings == ((4, 4, "sPH"), (20, 4, "s.InnerPH"), (35, 5, "OuterPH"))


def test_nine_words_take_forty_bytes():
    kind = TilingData.define("Nine", [(f"f{i}", uint32) for i in range(9)])
    assert (kind.size, kind.layout().tail) == (40, 4)


def test_packed_structs_have_no_padding():
    class Packed(TilingData, pack=1):
        a: uint8
        b: uint64

    assert Packed.offsets() == {"a": 0, "b": 1}
    assert Packed.size == 9


def test_the_numpy_dtype_reads_what_the_struct_wrote():
    assert Sample.dtype().itemsize == Sample.size
    record = np.frombuffer(bytes.fromhex(SAMPLE), Sample.dtype())[0]
    assert record["blkDim"] == 8
    assert record["mm"]["mmArr"].tolist() == [10, 2, 8]
    values = np.zeros(3, EveryType.dtype())
    values[1] = (True, 0.1, 0.5, -128, 2**64 - 1, b"hi", b"x")
    read = EveryType.from_bytes(values[1:])
    assert (read.text, read.small, read.large) == (b"hi", -128, 2**64 - 1)

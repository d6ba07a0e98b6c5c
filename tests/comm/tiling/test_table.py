"""Tables that explain the bytes of a struct."""

from tiling_structs import Sample


def test_the_printed_table():
    sample = Sample(blkDim=8, arrSample=[10, 2, 8])
    assert sample.table().splitlines() == [
        "Sample: 32 bytes",
        "offset  size  type         field      value",
        "     0     4  uint32_t     blkDim     8",
        "     4     4  uint32_t     totalSize  0",
        "     8     4  uint32_t     splitTile  0",
        "    12     6  uint16_t[3]  arrSample  [10, 2, 8]",
        "    18     6  padding      mmPH",
        "    24     2  uint16_t     mm.mmVar   0",
        "    26     6  uint16_t[3]  mm.mmArr   [0, 0, 0]",
    ]

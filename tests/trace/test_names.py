"""Names of sites without the numbers that programs give."""

from __future__ import annotations

from emu.trace.names import unnumbered, with_unnumbered


def test_numbers_of_arrays_are_stars_and_others_stay() -> None:
    assert unnumbered("buffer12.slots3") == "buffer*.slots*"
    assert unnumbered("inbox") == "inbox"
    text = "shmem_wait_until: shmem17 tile (0, 1) of src_pe 2 == 3"
    assert with_unnumbered(text) == "shmem_wait_until: shmem* tile (0, 1) of src_pe 2 == 3"
    assert with_unnumbered("my_shmem3 buffer4") == "my_shmem3 buffer4"

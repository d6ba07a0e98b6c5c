"""Every hand-written program of the tile IR gives on CUDA what it gives in the reference."""

from __future__ import annotations

import pytest
from tile_cases import CASES
from tile_cuda_launches import THREADS, check

BY_NAME = {program.name: program for program in CASES}
# Where lanes of one operation meet at an address, their order is laid down for one thread alone.
SERIAL = {"scattered", *(name for name in BY_NAME if name.startswith("atomic-"))}


@pytest.mark.parametrize("name", BY_NAME)
def test_programs_do_what_the_reference_does(name: str) -> None:
    check(BY_NAME[name], 1 if name in SERIAL else THREADS)

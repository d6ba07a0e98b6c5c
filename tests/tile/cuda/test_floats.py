"""Formats of narrow floats are those of ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from emu.tile.cuda.floats import FORMATS
from emu.tile.types import DTYPES


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_those_of_ml_dtypes(name: str) -> None:
    dtype = DTYPES[name].numpy
    info, form = ml_dtypes.finfo(dtype), FORMATS[name]
    assert form.mantissa == info.nmant
    assert 2.0**form.exponent == float(info.smallest_normal)
    assert form.largest == float(info.max)
    with np.errstate(all="ignore"):
        above = float(np.float32(np.inf).astype(dtype))
    assert repr(form.beyond) == repr(above)

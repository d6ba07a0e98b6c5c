"""Precisions of a product: what they mean for a dtype on this CPU."""

from __future__ import annotations

import pytest

from emu.kernels.core.dtypes import BF16, F16, F32, F64, I8
from emu.kernels.errors import ArgumentError
from emu.kernels.gemm.arguments import kind_for
from emu.kernels.gemm.microkernel import BF16_PAIRS, HAS_PAIRS


def test_only_bf16_has_an_instruction_of_its_own() -> None:
    for kind in (F16, F32, F64, I8):
        assert kind_for(kind, "native") == kind
    assert kind_for(BF16, "exact") == BF16
    assert kind_for(BF16, "native") == (BF16_PAIRS if HAS_PAIRS else BF16)


@pytest.mark.parametrize("precision", ["", "fast", None, 1, b"native"])
def test_an_unknown_precision_is_refused(precision: object) -> None:
    with pytest.raises(ArgumentError, match="precision must be one of 'exact', 'native', but got"):
        kind_for(BF16, precision)

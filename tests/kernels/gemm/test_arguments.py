"""Precisions of a product: what they mean for a dtype on this CPU."""

from __future__ import annotations

import dataclasses

import pytest

from emu.kernels.core.dtypes import BF16, F16, F32, F64, I8
from emu.kernels.errors import ArgumentError
from emu.kernels.gemm import arguments
from emu.kernels.gemm.arguments import kind_for
from emu.kernels.gemm.microkernel import BF16_AMX, BF16_PAIRS, HAS_PAIRS, INT8_AMX


@pytest.mark.parametrize(("cpu", "permitted"), [(True, True), (True, False), (False, True)])
def test_each_dtype_has_its_unit(
    monkeypatch: pytest.MonkeyPatch, cpu: bool, permitted: bool
) -> None:
    """AMX is chosen where the CPU has it and the system permits it; the choice needs no such CPU."""
    monkeypatch.setattr(arguments, "LAYOUT", dataclasses.replace(arguments.LAYOUT, amx=cpu))
    monkeypatch.setattr(arguments, "is_permitted", lambda: permitted)
    amx = cpu and permitted
    for precision in ("exact", "native"):
        for kind in (F16, F32, F64):
            assert kind_for(kind, precision) == kind
        assert kind_for(I8, precision) == (INT8_AMX if amx else I8)
    assert kind_for(BF16, "exact") == BF16
    pairs = BF16_PAIRS if HAS_PAIRS else BF16
    assert kind_for(BF16, "native") == (BF16_AMX if amx else pairs)


@pytest.mark.parametrize("precision", ["", "fast", None, 1, b"native"])
def test_an_unknown_precision_is_refused(precision: object) -> None:
    with pytest.raises(ArgumentError, match="precision must be one of 'exact', 'native', but got"):
        kind_for(BF16, precision)

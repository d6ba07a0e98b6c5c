"""The table of operations."""

from __future__ import annotations

import pytest

import emu.stablehlo
from emu.mlir import registry
from emu.stablehlo.dialect import SPECS, define_ops


def test_each_operation_has_exactly_one_spec() -> None:
    assert len([name for name in SPECS if name.startswith("stablehlo.")]) == 118
    for name, spec in SPECS.items():
        assert spec.name == name
        definition = registry.definition(name)
        assert definition.properties == spec.properties
        assert definition.verify is not None
        assert (definition.print is None) == (spec.print is None and not spec.pieces)
        with pytest.raises(ValueError, match="is defined already"):
            define_ops(spec)


def test_dialects_are_known_to_the_registry() -> None:
    assert "stablehlo" in registry.known_dialects
    assert "mhlo" not in registry.known_dialects
    assert emu.stablehlo.__all__

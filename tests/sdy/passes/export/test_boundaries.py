"""Inputs and outputs of functions."""

from __future__ import annotations

import pytest

import emu.sdy

HEAD = """
sdy.mesh @grid = <["x"=2, "y"=4]>
sdy.mesh @turned = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
"""


def fails(text: str, passes: str) -> str:
    module = emu.sdy.parse(HEAD + text)
    with pytest.raises(emu.sdy.PassFailed) as caught:
        emu.sdy.run_passes(module, passes)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["sdy-propagate-to-func-results", "sdy-remove-sub-axes-in-input-output-shardings"]
)
def test_of_several_functions_one_is_main(name: str) -> None:
    said = fails(
        """
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @g(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}""",
        name,
    )
    assert "Failed to lookup function: main" in said

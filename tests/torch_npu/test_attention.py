"""Operators of attention, which exist by name only."""

from __future__ import annotations

import pytest

from emu import torch_npu


def test_the_name_is_there_and_a_call_says_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match="scaled_dot_product_attention"):
        torch_npu.npu_fusion_attention(1, 2, 3, head_num=4)

"""Options of an operator's communication, and its name in reports."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import numpy as np
import pytest

from emu import mc2
from emu.comm.tiling import HcclCommand
from emu.mc2.session import Communication, CommunicationOptions, Operator
from emu.mc2.splitting import TileSplit

DENSE = (
    mc2.all_gather_matmul,
    mc2.all_to_all_matmul,
    mc2.matmul_all_reduce,
    mc2.matmul_all_reduce_add_rms_norm,
    mc2.matmul_all_to_all,
    mc2.matmul_reduce_scatter,
)


def test_options_are_the_fields_of_a_communication():
    assert tuple(get_type_hints(CommunicationOptions)) == tuple(inspect.signature(Communication).parameters)  # fmt: skip
    assert Communication() == Communication(
        group=None, rank_size=0, comm_turn=0, tile_rows=None, limits=None, tiling=None, trace=None
    )


@pytest.mark.parametrize("operator", DENSE)
def test_an_unknown_keyword_is_a_type_error_that_names_it(operator):
    operands = [np.ones((4, 4), np.float16)] * (4 if "residual" in inspect.signature(operator).parameters else 2)  # fmt: skip
    with pytest.raises(TypeError, match="unexpected keyword argument 'comm_turns'"):
        operator(*operands, comm_turns=2)


def test_a_report_names_the_operator_with_what_must_be_the_same():
    array = np.zeros((4, 6), np.float16)
    first = Operator(name="all_gather_matmul", command=HcclCommand.ALLGATHER, x1=array)
    last = Operator(name="matmul_all_reduce", command=HcclCommand.ALLREDUCE, y=array)
    assert first.label(TileSplit(4, 1)) == "all_gather_matmul(x1 [4, 6] float16, 1 turn)"
    assert last.label(TileSplit(2, 2)) == "matmul_all_reduce(y [4, 6] float16, 2 turns)"

"""Wrong arguments of every operator: an error that names them, and nothing is changed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fuzzing import Fuzzer, Target

import emu
from emu import torch_npu
from emu.comm.errors import CommError

BF16 = np.dtype(ml_dtypes.bfloat16)
CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "0")) or 1500
"""Calls of an ordinary run."""

Arguments = dict[str, Any]


def full(function: Any, given: Arguments) -> Arguments:
    """Return all arguments of a good call: those given, and the defaults of the others."""
    parameters = inspect.signature(function).parameters.values()
    return {
        p.name: given.get(p.name, p.default)
        for p in parameters
        if p.name in given or p.default is not inspect.Parameter.empty
    }


def numbers(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    values = np.arange(int(np.prod(shape))).reshape(shape) % 7 - 3
    return values.astype(dtype)


def local_calls() -> dict[str, Arguments]:
    """A good call of each operator that needs no other PE, with fresh tensors."""
    scatter = {
        "self": numbers(2, 8, 64, dtype=np.int8),
        "indices": np.array([0, 3], np.int32),
        "updates": numbers(2, 2, 64, dtype=BF16),
        "quant_scales": np.ones(64, BF16),
        "quant_zero_points": np.zeros(64, BF16),
        "axis": -2,
        "quant_axis": -1,
    }
    update = {
        "self": numbers(6, 4, dtype=np.float32),
        "indices": np.array([[1], [4]], np.int64),
        "updates": numbers(2, 4, dtype=np.float32),
    }
    return {
        "npu_quant_scatter": scatter,
        "npu_quant_scatter_": scatter,
        "npu_scatter_nd_update": update,
        "npu_scatter_nd_update_": update,
        "npu_scatter_pa_kv_cache": {
            "key": numbers(3, 2, 8),
            "value": numbers(3, 2, 8),
            "key_cache": numbers(4, 4, 2, 8),
            "value_cache": numbers(4, 4, 2, 8),
            "slot_mapping": np.array([0, 5, 9], np.int32),
        },
        "npu_quantize": {
            "input": numbers(4, 6, dtype=np.float32),
            "scales": np.ones(6, np.float32),
            "zero_points": np.zeros(6, np.int32),
            "dtype": np.int8,
        },
        "npu_dynamic_quant": {"x": numbers(4, 6), "smooth_scales": np.ones(6, np.float16)},
        "npu_anti_quant": {
            "x": numbers(4, 6, dtype=np.int8),
            "scale": np.ones(6, np.float32),
            "offset": np.zeros(6, np.float32),
        },
        "npu_quant_matmul": {
            "x1": numbers(4, 8, dtype=np.int8),
            "x2": numbers(8, 6, dtype=np.int8),
            "scale": np.ones(6, np.float32),
            "output_dtype": np.float16,
        },
    }


def fused_calls() -> dict[str, Arguments]:
    """A good call of each operator that communicates, in a world of one PE."""
    x1, x2 = numbers(4, 8), numbers(8, 6)
    product = {"x1": x1, "input": x1, "x2": x2, "hcom": "world", "world_size": 1}
    norm = {**product, "residual": numbers(1, 4, 6), "gamma": np.ones(6, np.float16)}
    norm["x1"] = numbers(1, 4, 8)
    experts = {
        "gmm_x": numbers(4, 8),
        "gmm_weight": numbers(2, 8, 6),
        "hcom": "world",
        "ep_world_size": 1,
        "send_counts": [1, 3],
        "recv_counts": [1, 3],
    }
    routed = {
        "x": numbers(4, 8),
        "expand_x": numbers(8, 8),
        "expert_ids": np.array([[0, 1], [1, 0], [0, 1], [1, 0]], np.int32),
        "group_ep": "world",
        "ep_world_size": 1,
        "ep_rank_id": 0,
        "moe_expert_num": 2,
    }
    dense = dict.fromkeys(
        (
            "npu_all_gather_base_mm",
            "npu_mm_reduce_scatter_base",
            "npu_mm_all_reduce_base",
            "npu_all_to_all_matmul",
            "npu_matmul_all_to_all",
        ),
        product,
    )
    return {
        **dense,
        "npu_mm_all_reduce_add_rms_norm": norm,
        "npu_mm_all_reduce_add_rms_norm_": norm,
        "npu_alltoallv_gmm": experts,
        "npu_gmm_alltoallv": experts,
        "npu_moe_distribute_dispatch": routed,
    }


def targets() -> Iterator[Target]:
    for calls in (local_calls, fused_calls):
        for name in calls():
            function = getattr(torch_npu, name)
            kinds = inspect.signature(function).parameters.values()

            def arguments(
                calls: Any = calls, name: str = name, function: Any = function
            ) -> Arguments:
                return full(function, calls()[name])

            every = tuple(inspect.signature(function).parameters)  # shapes are compared both ways
            positional = tuple(p.name for p in kinds if p.kind is p.POSITIONAL_ONLY)
            also = dict.fromkeys(every, every)
            yield Target(
                name=name, function=function, arguments=arguments, positional=positional, also=also
            )


def combine() -> Target:
    """The combine, of what a dispatch returned."""
    routed = fused_calls()["npu_moe_distribute_dispatch"]
    dispatch = torch_npu.npu_moe_distribute_dispatch
    found = dispatch(**{name: routed[name] for name in routed if name != "expand_x"})
    expand_x, _, expand_idx, _, counts, tensor_counts, scales = found

    def arguments() -> Arguments:
        given = {
            **routed,
            "expand_x": expand_x.copy(),
            "expand_idx": expand_idx,
            "ep_send_counts": counts,
            "expert_scales": np.ones((4, 2), np.float32),
            "tp_send_counts": tensor_counts,
            "expand_scales": scales,
        }
        return full(torch_npu.npu_moe_distribute_combine, given)

    return Target(
        name="npu_moe_distribute_combine",
        function=torch_npu.npu_moe_distribute_combine,
        arguments=arguments,
        also=dict.fromkeys(arguments(), tuple(arguments())),
    )


def run_good_calls() -> list[str]:
    called = [*targets(), combine()]
    for target in called:
        given = target.arguments()
        target.function(*[given.pop(name) for name in target.positional], **given)
    return [target.name for target in called]


def tensors() -> list[Any]:
    """Tensors in the place of arrays, some of them such as no operator takes."""
    try:
        import torch
    except ModuleNotFoundError:
        return []
    ones = torch.ones(2, 3)
    strange = (ones.to_sparse(), ones.to("meta"), ones.requires_grad_(), ones.to(torch.complex64))
    return [
        torch.ones(4, 8),
        torch.zeros(6, dtype=torch.bfloat16),
        torch.int8,
        "torch.float16",
        *strange,
    ]


def run_wrong_calls(seed: int, calls: int) -> None:
    fuzzer = Fuzzer([*targets(), combine()], (CommError,), seed=seed, extra=tensors)
    fuzzer.run(calls).check()


@pytest.mark.slow
def test_every_operator_is_called() -> None:
    computing = set(torch_npu.__all__) - {"npu_fusion_attention"}  # which is a name alone
    assert sorted(emu.launch(run_good_calls, 1, preload=["torch"])[0]) == sorted(computing)


@pytest.mark.timeout(300)  # the first to come compiles the operators' kernels
def test_wrong_arguments_are_named_and_change_nothing() -> None:
    emu.launch(run_wrong_calls, 1, preload=["torch"], args=(20260728, CALLS))

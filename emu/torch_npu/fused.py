"""Matrix products fused with communication, under the names of torch_npu.

``hcom`` is the name of a group of the World, "world" for all PEs. Every PE of the group calls an operator
with the same shapes. Tensors are torch tensors of one device, or NumPy arrays (of :mod:`ml_dtypes`
for bf16); results are of the same kind, on that device. What is computed, and in what order, is
said by the operators of :mod:`emu.mc2`, whose bits these are.

An argument that is described as "Must be" something is there for scripts that pass it; with
another value the call is refused, it never means something else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.accelerator.arrays import as_array, bump_version
from emu.mc2 import (
    all_gather_matmul,
    all_to_all_matmul,
    matmul_all_reduce,
    matmul_all_reduce_add_rms_norm,
    matmul_all_to_all,
    matmul_reduce_scatter,
)
from emu.torch_npu.checks import flag
from emu.torch_npu.operands import (
    Operands,
    as_local,
    check_target,
    naming,
    numpy_dtype,
    refuse,
)
from emu.torch_npu.process_groups import find_group

_NO_FLAG = ", is_trans_b is False"
"""What errors say of a flag that these functions don't have: a transposed weight is a view."""
_INPUT = {"x1": "input", "y_dtype": "output_dtype"}
_OUTPUT = {"y_dtype": "output_dtype"}


def npu_all_gather_base_mm(
    input: Any,
    x2: Any,
    hcom: str,
    world_size: int,
    *,
    bias: Any = None,
    x1_scale: Any = None,
    x2_scale: Any = None,
    gather_index: int = 0,
    gather_output: bool = True,
    comm_turn: int = 0,
    output_dtype: Any = None,
) -> tuple[Any, Any]:
    """Return ``gather_out @ x2 + bias`` and ``gather_out``, the input of all PEs one below the other.

    As :func:`emu.mc2.all_gather_matmul`.

    Args:
        input: [m, k] of fp16, bf16 or int8; the same shape and dtype on every PE.
        x2: [k, n] of that dtype, any strides: a transposed view will do.
        hcom: Name of the group.
        world_size: Its size.
        bias: [n] of that dtype or fp32; int32 for int8.
        x1_scale: For int8: fp32 [m] or [m, 1], a scale for each row of the input.
        x2_scale: For int8, where it must be given: one element or [n], fp32, fp16 or bf16.
        gather_index: Must be 0: it is the input that is gathered, not x2.
        gather_output: Return what was gathered.
        comm_turn: In how many turns the input is sent; 0 has it chosen.
        output_dtype: fp16 or bf16, that of the product of int8. Default: fp16; otherwise that of the
            input, which is the only one.

    Returns:
        ``y`` [m · R, n] and ``gather_out`` [m · R, k], an empty tensor of shape [0] without
        ``gather_output``.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom, world_size=world_size)
    of = Operands({"input": input, "x2": x2}, bias=bias, x1_scale=x1_scale, x2_scale=x2_scale)
    with naming(_INPUT, _NO_FLAG):
        y, gathered = all_gather_matmul(
            of["input"], of["x2"], of["bias"], group=group, gather_index=gather_index,
            comm_turn=comm_turn, is_gather_out=flag("gather_output", gather_output), x1_scale=of["x1_scale"],
            x2_scale=of["x2_scale"], y_dtype=numpy_dtype("output_dtype", output_dtype),
        )  # fmt: skip
    if gathered is None:
        gathered = np.empty(0, of["input"].dtype)
    return of.result(y), of.result(gathered)


def npu_mm_reduce_scatter_base(
    input: Any,
    x2: Any,
    hcom: str,
    world_size: int,
    *,
    reduce_op: str = "sum",
    bias: Any = None,
    x1_scale: Any = None,
    x2_scale: Any = None,
    comm_turn: int = 0,
    output_dtype: Any = None,
) -> Any:
    """Return this PE's rows of the sum over all PEs of ``input @ x2 + bias``.

    As :func:`emu.mc2.matmul_reduce_scatter`.

    Args:
        input: [m, k] of fp16, bf16 or int8; m is divisible by the group's size R.
        x2: [k, n] of that dtype, any strides.
        hcom: Name of the group.
        world_size: Its size.
        reduce_op: Must be "sum".
        bias: [n] of that dtype or fp32; int32 for int8. Each PE's is added.
        x1_scale: For int8: fp32 [m] or [m, 1], a scale for each row of the input.
        x2_scale: For int8, where it must be given: one element or [n], fp32, fp16 or bf16.
        comm_turn: In how many turns a PE's m / R rows are cut; 0 has it chosen.
        output_dtype: As in :func:`npu_all_gather_base_mm`.

    Returns:
        [m / R, n].

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom, world_size=world_size)
    of = Operands({"input": input, "x2": x2}, bias=bias, x1_scale=x1_scale, x2_scale=x2_scale)
    with naming(_INPUT, _NO_FLAG):
        y = matmul_reduce_scatter(
            of["input"], of["x2"], of["bias"], group=group, reduce_op=reduce_op,
            comm_turn=comm_turn, x1_scale=of["x1_scale"], x2_scale=of["x2_scale"],
            y_dtype=numpy_dtype("output_dtype", output_dtype),
        )  # fmt: skip
    return of.result(y)


def npu_mm_all_reduce_base(
    x1: Any,
    x2: Any,
    hcom: str,
    *,
    reduce_op: str = "sum",
    bias: Any = None,
    antiquant_scale: Any = None,
    antiquant_offset: Any = None,
    x3: Any = None,
    dequant_scale: Any = None,
    pertoken_scale: Any = None,
    comm_quant_scale_1: Any = None,
    comm_quant_scale_2: Any = None,
    comm_turn: int = 0,
    antiquant_group_size: int = 0,
) -> Any:
    """Return the sum over all PEs of ``x1 @ x2 + bias + x3``, on every PE.

    As :func:`emu.mc2.matmul_all_reduce`. The dtype of the result is that of x1, fp16 where it is int8.

    Args:
        x1: [m, k] or [b, s, k] of fp16, bf16 or int8.
        x2: [k, n] of that dtype, or int8, any strides.
        hcom: Name of the group.
        reduce_op: Must be "sum".
        bias: [n] of x1's dtype or fp32; int32 where x1 is int8. Each PE's is added.
        antiquant_scale: For int8 weights beside another x1, where it must be given: one element, [n], or
            [k / antiquant_group_size, n]; fp32, fp16 or bf16.
        antiquant_offset: The same shape; added to the weights before they are scaled.
        x3: The result's shape and dtype; each PE's is added.
        dequant_scale: Where x1 is int8, where it must be given: one element or [n], fp32, fp16 or bf16.
        pertoken_scale: Where x1 is int8: fp32, one for each row of x1.
        comm_quant_scale_1: Must be None: what is sent is not quantised.
        comm_quant_scale_2: Must be None, for the same reason.
        comm_turn: In how many turns the rows are cut; 0 has it chosen.
        antiquant_group_size: Rows of x2 that share a scale; 0 where the scale has no groups.

    Returns:
        [m, n] or [b, s, n].

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    refuse(
        "what is sent is not quantised",
        comm_quant_scale_1=(comm_quant_scale_1, None),
        comm_quant_scale_2=(comm_quant_scale_2, None),
    )
    group = find_group("hcom", hcom)
    of = Operands(
        {"x1": x1, "x2": x2}, bias=bias, antiquant_scale=antiquant_scale,
        antiquant_offset=antiquant_offset, x3=x3, dequant_scale=dequant_scale,
        pertoken_scale=pertoken_scale,
    )  # fmt: skip
    rows = of.as_rows("x1")
    with naming(_OUTPUT, _NO_FLAG):
        y = matmul_all_reduce(
            rows, of["x2"], of["bias"], of.as_rows("x3", "x1"), group=group, reduce_op=reduce_op,
            antiquant_scale=of["antiquant_scale"], antiquant_offset=of["antiquant_offset"],
            antiquant_group_size=antiquant_group_size, dequant_scale=of["dequant_scale"],
            pertoken_scale=of["pertoken_scale"], comm_turn=comm_turn,
        )  # fmt: skip
    return of.result(as_local(y).reshape(*of["x1"].shape[:-1], -1))


def npu_mm_all_reduce_add_rms_norm(
    x1: Any,
    x2: Any,
    residual: Any,
    gamma: Any,
    hcom: str,
    *,
    reduce_op: str = "sum",
    epsilon: float = 1e-06,
    bias: Any = None,
    antiquant_scale: Any = None,
    antiquant_offset: Any = None,
    dequant_scale: Any = None,
    antiquant_group_size: int = 0,
    comm_turn: int = 0,
) -> tuple[Any, Any]:
    """Return ``y``, the reduced product with a residual added, and its rows normalised.

    ``y`` is :func:`npu_mm_all_reduce_base` ``+ residual``, and the second ``y / sqrt(mean(y * y) + epsilon) *
    gamma``, row by row. As :func:`emu.mc2.matmul_all_reduce_add_rms_norm`.

    Args:
        x1: As in :func:`npu_mm_all_reduce_base`, like all arguments that are not described here.
        x2: See there.
        residual: [m, n] or [b, s, n], of the dtype of ``y``.
        gamma: [n] of that dtype or fp32.
        hcom: See there.
        reduce_op: See there.
        epsilon: Added to the mean of the squares, at least 0.
        bias: See there.
        antiquant_scale: See there.
        antiquant_offset: See there.
        dequant_scale: See there.
        antiquant_group_size: See there.
        comm_turn: See there.

    Returns:
        ``y`` and ``norm_out``, of the shape of the residual.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom)
    of = Operands(
        {"x1": x1, "x2": x2, "residual": residual, "gamma": gamma}, bias=bias,
        antiquant_scale=antiquant_scale, antiquant_offset=antiquant_offset,
        dequant_scale=dequant_scale,
    )  # fmt: skip
    rows, more = of.as_rows("x1"), of.as_rows("residual", "x1")
    with naming(_OUTPUT, _NO_FLAG):
        y, normal = matmul_all_reduce_add_rms_norm(
            rows, of["x2"], more, of["gamma"], group=group, reduce_op=reduce_op, epsilon=epsilon,
            bias=of["bias"], antiquant_scale=of["antiquant_scale"],
            antiquant_offset=of["antiquant_offset"], antiquant_group_size=antiquant_group_size,
            dequant_scale=of["dequant_scale"], comm_turn=comm_turn,
        )  # fmt: skip
    shape = of["residual"].shape
    return of.result(as_local(y).reshape(shape)), of.result(as_local(normal).reshape(shape))


def npu_mm_all_reduce_add_rms_norm_(
    x1: Any,
    x2: Any,
    residual: Any,
    gamma: Any,
    hcom: str,
    *,
    reduce_op: str = "sum",
    epsilon: float = 1e-06,
    bias: Any = None,
    antiquant_scale: Any = None,
    antiquant_offset: Any = None,
    dequant_scale: Any = None,
    antiquant_group_size: int = 0,
    comm_turn: int = 0,
) -> tuple[Any, Any]:
    """Do :func:`npu_mm_all_reduce_add_rms_norm` in place: the residual becomes ``y``.

    Args:
        x1: As in :func:`npu_mm_all_reduce_add_rms_norm`, like all arguments that are not described here.
        x2: See there.
        residual: See there; a view of any strides is written where it lies. Its elements must not
            share memory.
        gamma: See there.
        hcom: See there.
        reduce_op: See there.
        epsilon: See there.
        bias: See there.
        antiquant_scale: See there.
        antiquant_offset: See there.
        dequant_scale: See there.
        antiquant_group_size: See there.
        comm_turn: See there.

    Returns:
        ``residual`` itself and ``norm_out``.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    target = check_target("residual", residual)
    y, normal = npu_mm_all_reduce_add_rms_norm(
        x1, x2, residual, gamma, hcom, reduce_op=reduce_op, epsilon=epsilon, bias=bias,
        antiquant_scale=antiquant_scale, antiquant_offset=antiquant_offset,
        dequant_scale=dequant_scale, antiquant_group_size=antiquant_group_size,
        comm_turn=comm_turn,
    )  # fmt: skip
    target[...] = as_array("y", y)
    bump_version(residual)
    return residual, normal


def npu_all_to_all_matmul(
    x1: Any,
    x2: Any,
    hcom: str,
    world_size: int,
    *,
    bias: Any = None,
    x2_scale: Any = None,
    comm_turn: int = 0,
    output_dtype: Any = None,
) -> Any:
    """Give PE j the j-th block of every PE's rows, side by side along k, and multiply that by x2.

    As :func:`emu.mc2.all_to_all_matmul`.

    Args:
        x1: [m, k] of fp16, bf16 or int8; m is divisible by the group's size R. The same shape and dtype
            on every PE.
        x2: [k · R, n] of that dtype, any strides.
        hcom: Name of the group.
        world_size: Its size.
        bias: [n] of that dtype or fp32; int32 for int8.
        x2_scale: For int8, where it must be given: one element or [n], fp32, fp16 or bf16.
        comm_turn: In how many turns a PE's m / R rows are cut; 0 has it chosen.
        output_dtype: As in :func:`npu_all_gather_base_mm`.

    Returns:
        [m / R, n].

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom, world_size=world_size)
    of = Operands({"x1": x1, "x2": x2}, bias=bias, x2_scale=x2_scale)
    with naming(_OUTPUT, _NO_FLAG):
        y = all_to_all_matmul(
            of["x1"], of["x2"], of["bias"], group=group, comm_turn=comm_turn,
            x2_scale=of["x2_scale"], y_dtype=numpy_dtype("output_dtype", output_dtype),
        )  # fmt: skip
    return of.result(y)


def npu_matmul_all_to_all(
    x1: Any,
    x2: Any,
    hcom: str,
    world_size: int,
    *,
    bias: Any = None,
    x1_scale: Any = None,
    x2_scale: Any = None,
    comm_turn: int = 0,
    output_dtype: Any = None,
) -> Any:
    """Multiply, and give PE j the j-th block of the columns of every PE's product.

    As :func:`emu.mc2.matmul_all_to_all`.

    Args:
        x1: [m, k] of fp16, bf16 or int8.
        x2: [k, n] of that dtype, any strides; n is divisible by the group's size R.
        hcom: Name of the group.
        world_size: Its size.
        bias: [n] of that dtype or fp32; int32 for int8.
        x1_scale: For int8: fp32 [m] or [m, 1], a scale for each row of x1.
        x2_scale: For int8, where it must be given: one element or [n], fp32, fp16 or bf16.
        comm_turn: In how many turns the m rows are cut; 0 has it chosen.
        output_dtype: As in :func:`npu_all_gather_base_mm`.

    Returns:
        [m · R, n / R], the blocks of PE 0, PE 1, … one below the other.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom, world_size=world_size)
    of = Operands({"x1": x1, "x2": x2}, bias=bias, x1_scale=x1_scale, x2_scale=x2_scale)
    with naming(_OUTPUT, _NO_FLAG):
        y = matmul_all_to_all(
            of["x1"], of["x2"], of["bias"], group=group, comm_turn=comm_turn,
            x1_scale=of["x1_scale"], x2_scale=of["x2_scale"],
            y_dtype=numpy_dtype("output_dtype", output_dtype),
        )  # fmt: skip
    return of.result(y)


__all__ = [
    "npu_all_gather_base_mm",
    "npu_all_to_all_matmul",
    "npu_matmul_all_to_all",
    "npu_mm_all_reduce_add_rms_norm",
    "npu_mm_all_reduce_add_rms_norm_",
    "npu_mm_all_reduce_base",
    "npu_mm_reduce_scatter_base",
]

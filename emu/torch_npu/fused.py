"""Matrix products fused with communication, under the names of torch_npu.

``hcom`` is the name of a group of the World, "world" for all PEs. Every PE of the group calls an operator
with the same shapes. Tensors are torch tensors of one device, or NumPy arrays (of :mod:`ml_dtypes`
for bf16); results are of the same kind, on that device. The operators of :mod:`emu.mc2` define the
arithmetic and its order; the results here have the same bits.

Arguments described as "Must be" exist for scripts that pass them; another value raises an error rather than
being ignored.
"""

from __future__ import annotations

import numpy as np

from emu.accelerator.arrays import DTypeLike, as_array, bump_version
from emu.comm.world.checks import check
from emu.mc2 import (
    all_gather_matmul,
    all_to_all_matmul,
    matmul_all_reduce,
    matmul_all_reduce_add_rms_norm,
    matmul_all_to_all,
    matmul_reduce_scatter,
)
from emu.torch_npu.checks import caller_names
from emu.torch_npu.operands import (
    Operand,
    Result,
    TensorArguments,
    as_local,
    check_supported,
    check_target,
    optional_dtype,
)
from emu.torch_npu.process_groups import find_group

_NO_FLAG = ", is_trans_b is False"
"""Text of errors about a flag that these functions do not have: a transposed weight is a view."""
_INPUT = {"x1": "input", "y_dtype": "output_dtype"}
_OUTPUT = {"y_dtype": "output_dtype"}


def npu_all_gather_base_mm(
    input: Operand,
    x2: Operand,
    hcom: str,
    world_size: int,
    *,
    bias: Operand | None = None,
    x1_scale: Operand | None = None,
    x2_scale: Operand | None = None,
    gather_index: int = 0,
    gather_output: bool = True,
    comm_turn: int = 0,
    output_dtype: DTypeLike | None = None,
) -> tuple[Result, Result]:
    """Return ``gather_out @ x2 + bias`` and ``gather_out``, the input of all PEs one below the other.

    As :func:`emu.mc2.all_gather_matmul`.

    Args:
        input: [m, k] of fp16, bf16 or int8; the same shape and dtype on every PE.
        x2: [k, n] of that dtype, any strides; a transposed view is fine.
        hcom: Name of the group.
        world_size: Its size.
        bias: [n] of that dtype or fp32; int32 for int8.
        x1_scale: For int8: fp32 [m] or [m, 1], a scale for each row of the input.
        x2_scale: For int8, where it must be given: one element or [n], fp32, fp16 or bf16.
        gather_index: Must be 0: it is the input that is gathered, not x2.
        gather_output: Also return the gathered rows.
        comm_turn: Number of turns in which the input is sent; 0: automatic.
        output_dtype: fp16 or bf16, that of the product of int8. Default: fp16; otherwise that of the
            input, which is the only one.

    Returns:
        ``y`` [m · R, n] and ``gather_out`` [m · R, k], an empty tensor of shape [0] without
        ``gather_output``.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom, world_size=world_size)
    given = TensorArguments(
        {"input": input, "x2": x2}, bias=bias, x1_scale=x1_scale, x2_scale=x2_scale
    )
    with caller_names(_INPUT, _NO_FLAG):
        y, gathered = all_gather_matmul(
            given["input"], given["x2"], given["bias"], group=group, gather_index=gather_index,
            comm_turn=comm_turn, is_gather_out=check.flag("gather_output", gather_output), x1_scale=given["x1_scale"],
            x2_scale=given["x2_scale"], y_dtype=optional_dtype("output_dtype", output_dtype),
        )  # fmt: skip
    if gathered is None:
        gathered = np.empty(0, given["input"].dtype)
    return given.result(y), given.result(gathered)


def npu_mm_reduce_scatter_base(
    input: Operand,
    x2: Operand,
    hcom: str,
    world_size: int,
    *,
    reduce_op: str = "sum",
    bias: Operand | None = None,
    x1_scale: Operand | None = None,
    x2_scale: Operand | None = None,
    comm_turn: int = 0,
    output_dtype: DTypeLike | None = None,
) -> Result:
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
        comm_turn: Number of turns into which a PE's m / R rows are cut; 0: automatic.
        output_dtype: As in :func:`npu_all_gather_base_mm`.

    Returns:
        [m / R, n].

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom, world_size=world_size)
    given = TensorArguments(
        {"input": input, "x2": x2}, bias=bias, x1_scale=x1_scale, x2_scale=x2_scale
    )
    with caller_names(_INPUT, _NO_FLAG):
        y = matmul_reduce_scatter(
            given["input"], given["x2"], given["bias"], group=group, reduce_op=reduce_op,
            comm_turn=comm_turn, x1_scale=given["x1_scale"], x2_scale=given["x2_scale"],
            y_dtype=optional_dtype("output_dtype", output_dtype),
        )  # fmt: skip
    return given.result(y)


def npu_mm_all_reduce_base(
    x1: Operand,
    x2: Operand,
    hcom: str,
    *,
    reduce_op: str = "sum",
    bias: Operand | None = None,
    antiquant_scale: Operand | None = None,
    antiquant_offset: Operand | None = None,
    x3: Operand | None = None,
    dequant_scale: Operand | None = None,
    pertoken_scale: Operand | None = None,
    comm_quant_scale_1: None = None,
    comm_quant_scale_2: None = None,
    comm_turn: int = 0,
    antiquant_group_size: int = 0,
) -> Result:
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
        comm_quant_scale_1: Must be None: data is not quantised for sending.
        comm_quant_scale_2: Must be None, for the same reason.
        comm_turn: Number of turns into which the rows are cut; 0: automatic.
        antiquant_group_size: Rows of x2 that share a scale; 0 where the scale has no groups.

    Returns:
        [m, n] or [b, s, n].

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    check_supported(
        "what is sent is not quantised",
        comm_quant_scale_1=(comm_quant_scale_1, None),
        comm_quant_scale_2=(comm_quant_scale_2, None),
    )
    group = find_group("hcom", hcom)
    given = TensorArguments(
        {"x1": x1, "x2": x2}, bias=bias, antiquant_scale=antiquant_scale,
        antiquant_offset=antiquant_offset, x3=x3, dequant_scale=dequant_scale,
        pertoken_scale=pertoken_scale,
    )  # fmt: skip
    rows = given.as_rows("x1")
    with caller_names(_OUTPUT, _NO_FLAG):
        y = matmul_all_reduce(
            rows, given["x2"], given["bias"], given.as_rows("x3", "x1"), group=group, reduce_op=reduce_op,
            antiquant_scale=given["antiquant_scale"], antiquant_offset=given["antiquant_offset"],
            antiquant_group_size=antiquant_group_size, dequant_scale=given["dequant_scale"],
            pertoken_scale=given["pertoken_scale"], comm_turn=comm_turn,
        )  # fmt: skip
    return given.result(as_local(y).reshape(*given["x1"].shape[:-1], -1))


def npu_mm_all_reduce_add_rms_norm(
    x1: Operand,
    x2: Operand,
    residual: Operand,
    gamma: Operand,
    hcom: str,
    *,
    reduce_op: str = "sum",
    epsilon: float = 1e-06,
    bias: Operand | None = None,
    antiquant_scale: Operand | None = None,
    antiquant_offset: Operand | None = None,
    dequant_scale: Operand | None = None,
    antiquant_group_size: int = 0,
    comm_turn: int = 0,
) -> tuple[Result, Result]:
    """Return ``y``, the reduced product with a residual added, and its rows normalised.

    ``y`` is :func:`npu_mm_all_reduce_base` ``+ residual``, and the second ``y / sqrt(mean(y * y) + epsilon) *
    gamma``, row by row. As :func:`emu.mc2.matmul_all_reduce_add_rms_norm`.

    Args:
        x1, x2, hcom, reduce_op, bias, antiquant_scale, antiquant_offset, dequant_scale,
            antiquant_group_size, comm_turn: As in :func:`npu_mm_all_reduce_base`.
        residual: [m, n] or [b, s, n], of the dtype of ``y``.
        gamma: [n] of that dtype or fp32.
        epsilon: Added to the mean of the squares, at least 0.

    Returns:
        ``y`` and ``norm_out``, of the shape of the residual.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom)
    given = TensorArguments(
        {"x1": x1, "x2": x2, "residual": residual, "gamma": gamma}, bias=bias,
        antiquant_scale=antiquant_scale, antiquant_offset=antiquant_offset,
        dequant_scale=dequant_scale,
    )  # fmt: skip
    rows, more = given.as_rows("x1"), given.as_rows("residual", "x1")
    with caller_names(_OUTPUT, _NO_FLAG):
        y, normal = matmul_all_reduce_add_rms_norm(
            rows, given["x2"], more, given["gamma"], group=group, reduce_op=reduce_op, epsilon=epsilon,
            bias=given["bias"], antiquant_scale=given["antiquant_scale"],
            antiquant_offset=given["antiquant_offset"], antiquant_group_size=antiquant_group_size,
            dequant_scale=given["dequant_scale"], comm_turn=comm_turn,
        )  # fmt: skip
    shape = given["residual"].shape
    return given.result(as_local(y).reshape(shape)), given.result(as_local(normal).reshape(shape))


def npu_mm_all_reduce_add_rms_norm_(
    x1: Operand,
    x2: Operand,
    residual: Operand,
    gamma: Operand,
    hcom: str,
    *,
    reduce_op: str = "sum",
    epsilon: float = 1e-06,
    bias: Operand | None = None,
    antiquant_scale: Operand | None = None,
    antiquant_offset: Operand | None = None,
    dequant_scale: Operand | None = None,
    antiquant_group_size: int = 0,
    comm_turn: int = 0,
) -> tuple[Result, Result]:
    """Run :func:`npu_mm_all_reduce_add_rms_norm` in place: the residual becomes ``y``.

    Args:
        residual: As in :func:`npu_mm_all_reduce_add_rms_norm`, like all other arguments. A view of any
            strides is written where it lies. Its elements must not share memory.
        x1, x2, gamma, hcom, reduce_op, epsilon, bias, antiquant_scale, antiquant_offset, dequant_scale,
            antiquant_group_size, comm_turn: See there.

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
    # Only now: until the reduction is done, the residual is an operand.
    target[...] = as_array("y", y)
    bump_version(residual)
    return residual, normal


def npu_all_to_all_matmul(
    x1: Operand,
    x2: Operand,
    hcom: str,
    world_size: int,
    *,
    bias: Operand | None = None,
    x2_scale: Operand | None = None,
    comm_turn: int = 0,
    output_dtype: DTypeLike | None = None,
) -> Result:
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
        comm_turn: Number of turns into which a PE's m / R rows are cut; 0: automatic.
        output_dtype: As in :func:`npu_all_gather_base_mm`.

    Returns:
        [m / R, n].

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom, world_size=world_size)
    given = TensorArguments({"x1": x1, "x2": x2}, bias=bias, x2_scale=x2_scale)
    with caller_names(_OUTPUT, _NO_FLAG):
        y = all_to_all_matmul(
            given["x1"], given["x2"], given["bias"], group=group, comm_turn=comm_turn,
            x2_scale=given["x2_scale"], y_dtype=optional_dtype("output_dtype", output_dtype),
        )  # fmt: skip
    return given.result(y)


def npu_matmul_all_to_all(
    x1: Operand,
    x2: Operand,
    hcom: str,
    world_size: int,
    *,
    bias: Operand | None = None,
    x1_scale: Operand | None = None,
    x2_scale: Operand | None = None,
    comm_turn: int = 0,
    output_dtype: DTypeLike | None = None,
) -> Result:
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
        comm_turn: Number of turns into which the m rows are cut; 0: automatic.
        output_dtype: As in :func:`npu_all_gather_base_mm`.

    Returns:
        [m · R, n / R], the blocks of PE 0, PE 1, … one below the other.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    group = find_group("hcom", hcom, world_size=world_size)
    given = TensorArguments({"x1": x1, "x2": x2}, bias=bias, x1_scale=x1_scale, x2_scale=x2_scale)
    with caller_names(_OUTPUT, _NO_FLAG):
        y = matmul_all_to_all(
            given["x1"], given["x2"], given["bias"], group=group, comm_turn=comm_turn,
            x1_scale=given["x1_scale"], x2_scale=given["x2_scale"],
            y_dtype=optional_dtype("output_dtype", output_dtype),
        )  # fmt: skip
    return given.result(y)

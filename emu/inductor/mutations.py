"""What a program's own kernel writes to, as Dynamo and Inductor ask before they move other work around it.

torch reads it from Triton's MLIR, which emu does not have, and takes every tensor for written where it cannot. The tile
IR tells it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch

from emu.accelerator.patches import Ledger
from emu.triton.codegen.errors import CompilationError
from emu.triton.language.types import TypeSpelling
from emu.triton.runtime import arguments
from emu.triton.runtime.arguments import CONSTANT
from emu.triton.runtime.autotuner import Autotuner, Heuristics
from emu.triton.runtime.build import Request
from emu.triton.runtime.jit import JITFunction
from emu.triton.runtime.options import DEFAULT_BACKEND, warps_of
from emu.triton.runtime.stores import stored_arguments
from emu.triton.source import KernelParam, plain_value


def install(ledger: Ledger, module: ModuleType) -> None:
    """Answer torch's question, in its module of kernels inside of compiled functions."""

    def identify_accessed_tensors(kernel: Any, kwargs: dict[str, Any], _: object) -> Any:
        from torch._inductor.dependencies import ReadWrites, StarDep
        from torch.utils._ordered_set import OrderedSet

        tensors = [name for name, value in kwargs.items() if _dtype(value) is not None]
        written = written_tensors(kernel, kwargs)
        if written is None:
            written = tensors
        accesses = ReadWrites(
            reads=OrderedSet(map(StarDep, tensors)),
            writes=OrderedSet(map(StarDep, written)),
            index_exprs=OrderedSet(),
        )
        return module.TensorAccesses(accesses, can_fuse_epilogue=False)

    reason = "torch reads it from MLIR"
    ledger.replace(module, "identify_accessed_tensors", identify_accessed_tensors, reason)


def written_tensors(kernel: Any, given: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the tensors that a kernel may write to.

    Args:
        kernel: The kernel, perhaps with settings that are measured or computed.
        given: Its arguments by name: tensors (fake ones, or Inductor's), numbers (symbolic ones, too), constants.

    Returns:
        The names in the order of the parameters; None if it cannot be told.
    """
    bound = dict(given)
    while not isinstance(kernel, JITFunction):
        if isinstance(kernel, Autotuner):
            bound = {**kernel.configs[0].all_kwargs(), **bound}
        elif not isinstance(kernel, Heuristics):
            return None
        kernel = kernel.fn
    signature: dict[str, TypeSpelling] = {}
    constants: dict[str, object] = {}
    for param in kernel.params:
        value = bound.get(param.name, param.default if param.has_default else None)
        spelled = _spelling(param, value)
        if spelled is None:
            return None
        signature[param.name] = spelled
        if spelled == CONSTANT:
            constants[param.name] = plain_value(value)
    try:
        warps = warps_of(bound)
        module = Request(
            kernel, signature, constants, False, DEFAULT_BACKEND, num_warps=warps
        ).module()
    except (CompilationError, TypeError, ValueError):  # reported where the kernel is compiled
        return None
    passed = [name for name, spelled in signature.items() if spelled != CONSTANT]
    stored = zip(passed, stored_arguments(module), strict=True)
    return [name for name, is_stored in stored if is_stored]


def _dtype(value: object) -> torch.dtype | None:
    """Return the dtype of a tensor, be it torch's or one in Inductor's IR; None of anything else."""
    from torch._inductor.ir import TensorBox

    if isinstance(value, TensorBox):
        found: torch.dtype = value.get_dtype()
        return found
    return value.dtype if isinstance(value, torch.Tensor) else None


def _spelling(param: KernelParam, value: object) -> str | None:
    """Return the spelling of an argument's type in a signature; None for what cannot be told by itself."""
    dtype = _dtype(value)
    if dtype is not None:
        arguments.load_torch()
        return f"*{arguments.DTYPES[dtype]}" if dtype in arguments.DTYPES else None
    if param.is_constexpr or value is None:
        return CONSTANT
    annotated = arguments.annotated_scalar(param)
    if annotated is not None:
        return annotated
    if isinstance(value, bool | torch.SymBool):
        return "i1"
    if isinstance(value, float | torch.SymFloat):
        return "fp32"
    if isinstance(value, tuple | str):
        return None
    return "i64"  # an integer, perhaps a symbol; which one does not matter here

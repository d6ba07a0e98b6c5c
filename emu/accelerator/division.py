"""Division by a number on emulated GPUs: CUDA multiplies by the number's reciprocal, rounded in fp32 (fp64 of fp64).

The quotient may differ in its last bit from the CPU's. Divisions that give the same bits either way, such as those by
powers of two, stay divisions; so do complex ones, and those that torch makes in C++.
"""

from __future__ import annotations

import math
from ctypes import c_float
from typing import Any

import torch
from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue] # not in its stub

from emu.accelerator.annotations import Args, Kwargs, Tensor, TorchFunction
from emu.accelerator.device_tags import tag_of
from emu.accelerator.mode import HANDLERS, follow
from emu.accelerator.patches import replace_item
from emu.accelerator.wrappers import PLAIN

_PRODUCTS: dict[TorchFunction, TorchFunction] = {
    torch.div: torch.mul,
    torch.divide: torch.mul,
    torch.true_divide: torch.mul,
    Tensor.div: Tensor.mul,
    Tensor.divide: Tensor.mul,
    Tensor.true_divide: Tensor.mul,
    Tensor.div_: Tensor.mul_,
    Tensor.divide_: Tensor.mul_,
    Tensor.true_divide_: Tensor.mul_,
}
_NUMBERS = (float, int)
_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_SMALLEST, _LARGEST = 2.0**-126, 2.0**126  # numbers between them have normal reciprocals in fp32


def program_modes() -> int:
    """Return how many dispatch modes are active besides those of checks."""
    depth: int = torch._C._len_torch_dispatch_stack()
    if not depth:
        return 0
    modes = map(torch._C._get_dispatch_stack_at, range(depth))
    return sum(not getattr(mode, "is_check", False) for mode in modes)


def install() -> None:
    """Handle the functions under all names by which a script divides."""
    for function in _PRODUCTS:
        replace_item(
            HANDLERS,
            function,
            _divide,
            f"emu.accelerator.mode.HANDLERS[{getattr(function, '__name__', function)}]",
            "CUDA multiplies by the reciprocal of a number",
        )


def _divide(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    """Divide; by a number, multiply by its reciprocal where the device is a GPU and that changes bits."""
    if len(args) == 2 and not kwargs:  # as operators call it
        (given, number), others = args, kwargs
    else:
        given, number, others = _arguments(args, kwargs)
    kind = type(number)
    is_tensor = kind not in _NUMBERS and isinstance(number, torch.Tensor)
    if (
        (is_tensor and number.dim())
        or type(given) not in PLAIN
        or (kind in _NUMBERS and _is_power_of_two(number))
    ):
        return follow(func, args, kwargs)
    tag = tag_of(given)
    if tag is None or tag.type != "cuda" or program_modes():
        return follow(func, args, kwargs)
    if is_tensor:
        factors = _factors_of_tensors(given, number, func.__name__.endswith("_"))
    else:
        factors = _factors(given, number)
    return (
        follow(func, args, kwargs) if factors is None else follow(_PRODUCTS[func], factors, others)
    )


def _arguments(args: Args, kwargs: Kwargs) -> tuple[Any, Any, Kwargs]:
    """Return dividend, divisor and the other named arguments; None as divisor where a call rounds its quotients."""
    others = dict(kwargs)
    operands = [*args, *(others.pop(name) for name in ("input", "other") if name in others)]
    rounds = others.pop("rounding_mode", None) is not None
    if rounds or len(operands) != 2:  # torch does it, or says what is wrong
        return (*operands, None)[0], None, others
    return operands[0], operands[1], others


def _factors(given: Tensor, number: Any) -> tuple[Tensor, float] | None:
    """Return what CUDA multiplies in place of ``given / number``, or None where it divides, or gets the same bits."""
    if type(number) not in _NUMBERS:
        number = _to_number(number)
    dtype = given.dtype
    if dtype not in _FLOATS:
        if dtype.is_complex:
            number = None
        dtype = torch.get_default_dtype()
    inverse = None if number is None else _reciprocal(number, dtype)
    return None if inverse is None else (given, inverse)


def _to_number(value: object) -> float | None:
    """Return a number of NumPy's as Python's, None for what is no real number."""
    if isinstance(value, bool | complex) or not hasattr(value, "dtype"):
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # an array raises, as it would in torch
    except (TypeError, ValueError):
        return None


def _factors_of_tensors(
    given: Tensor, number: Tensor, is_in_place: bool
) -> tuple[Tensor, float] | None:
    """Return :func:`_factors` for a divisor that is a tensor without axes in host memory."""
    if not _is_host_number(number) or given.is_complex():
        return None
    dtype = torch.result_type(given, number)
    if dtype == given.dtype or not dtype.is_floating_point:
        return _factors(given, number.item())
    inverse = None if is_in_place else _reciprocal(number.item(), dtype)
    return None if inverse is None else (given.to(dtype), inverse)


def _is_host_number(tensor: Tensor) -> bool:
    """Return whether a divisor lies on the host, without axes, and needs no gradient."""
    return (
        tensor.dim() == 0
        and type(tensor) in PLAIN
        and tag_of(tensor) is None
        and tensor.device.type == "cpu"
        and not tensor.is_complex()
        and not tensor.requires_grad
        and _functorch.peek_interpreter_stack() is None
    )


def _reciprocal(number: float, dtype: torch.dtype) -> float | None:
    """Return ``1 / number`` for a product in a dtype, or None if that has the bits of the division."""
    if _is_power_of_two(number):
        return None
    try:
        # Products of narrower floats are computed in fp32; torch rounds the quotient below to it once more,
        # which from fp64 gives the bits of a division in fp32.
        return 1.0 / (number if dtype == torch.float64 else c_float(number).value)
    except ArithmeticError:  # zero, integers too large for a float: torch's own results and errors
        return None


def _is_power_of_two(number: Any) -> bool:
    """Return whether a number and its reciprocal are powers of two that fp32 holds."""
    size = abs(number)
    return _SMALLEST <= size <= _LARGEST and math.frexp(size)[0] == 0.5

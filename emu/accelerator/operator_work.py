"""What one operator of ATen counts as: products, other arithmetic, and bytes by operand.

docs/counting.md has the same as tables. An operator is named without overload and without the ``_`` of those that work in place.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from emu.accelerator.annotations import Tensor
from emu.tile.counting import operators
from emu.tile.counting.operators import Product
from emu.tile.counting.work import CAST, SELECT, Work

Given: TypeAlias = Mapping[str, Any]
"""Arguments of an operator by the names of its schema."""


_NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.bool: "i1",
}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name that counts give a dtype, as the tile IR has it."""
    if dtype in _NAMES:
        return _NAMES[dtype]
    bits, text = 8 * dtype.itemsize, str(dtype).removeprefix("torch.")
    if dtype.is_complex:
        return f"c{bits}"
    if dtype.is_floating_point:
        return f"f{bits}"
    return f"{'u' if text.startswith('uint') else 'i'}{bits}"


# ---- products


def _matrices(first: str, second: str) -> Callable[[Given], list[Product]]:
    def products(given: Given) -> list[Product]:
        *batch, m, k = given[first].shape
        return [Product(math.prod(batch), m, given[second].shape[-1], k)]

    return products


def _vectors(first: str, second: str) -> Callable[[Given], list[Product]]:
    def products(given: Given) -> list[Product]:
        *rows, k = given[first].shape
        return [Product(1, math.prod(rows), 1, k)]

    return products


def _convolution(given: Given) -> list[Product]:
    x, weight, groups = given["input"], given["weight"], given["groups"]
    first, second, *window = weight.shape
    if given["transposed"]:  # [in, out of a group, window]
        places = x.shape[0] * math.prod(x.shape[2:])
        return [Product(groups, places, second * math.prod(window), first // groups)]
    places = given["result"].shape[0] * math.prod(given["result"].shape[2:])
    return [Product(groups, places, first // groups, second * math.prod(window))]


def _convolution_backward(given: Given) -> list[Product]:
    (forward,) = _convolution({**given, "result": given["grad_output"]})
    batch, m, n, k = forward
    found = [Product(batch, m, k, n)] if given["output_mask"][0] else []
    if given["output_mask"][1]:
        found.append(Product(batch, n, k, m))
    return found


def _attention(given: Given) -> list[Product]:
    *batch, rows, depth = given["query"].shape
    columns, wide = given["key"].shape[-2], given["value"].shape[-1]
    count = math.prod(batch)
    return [Product(count, rows, columns, depth), Product(count, rows, wide, columns)]


def _attention_backward(given: Given) -> list[Product]:
    scores, values = _attention(given)
    count, rows, columns, depth = scores
    wide = values.n
    return [
        scores,  # computed again
        Product(count, columns, wide, rows),
        Product(count, rows, columns, wide),
        Product(count, rows, depth, columns),
        Product(count, columns, depth, rows),
    ]


PRODUCTS: dict[str, Callable[[Given], list[Product]]] = {
    "mm": _matrices("self", "mat2"),
    "_int_mm": _matrices("self", "mat2"),
    "_scaled_mm": _matrices("self", "mat2"),
    "addmm": _matrices("mat1", "mat2"),
    "_addmm_activation": _matrices("mat1", "mat2"),
    "bmm": _matrices("self", "mat2"),
    "baddbmm": _matrices("batch1", "batch2"),
    "addbmm": _matrices("batch1", "batch2"),
    "mv": _vectors("self", "vec"),
    "addmv": _vectors("mat", "vec"),
    "dot": _vectors("self", "tensor"),
    "vdot": _vectors("self", "other"),
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}
"""Products of operators."""

CONVOLUTIONS = frozenset({"convolution", "_convolution", "convolution_backward"})

# ---- other arithmetic

_ATTENTION = {
    "_scaled_dot_product_flash_attention_for_cpu": (5, 1),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (8, 1),
}
"""The same, for an element of the scores."""


def plain_name(function: Any) -> str:
    """Return the name of an operator without overload, and without the ``_`` of those that work in place."""
    name = str(function.overloadpacket.__name__).removeprefix("_foreach_")
    return name if name.startswith("__") else name.rstrip("_")


def work_of(name: str, function: Any, given: Given, results: Sequence[Tensor]) -> Work:
    """Return what an operator does beside products."""
    found: Work = Counter()
    sizes = [t for _, t in tensors_of(given)] or list(results)
    if name in operators.MOVES or (name in PRODUCTS and name not in _ATTENTION):
        return found
    if name in _ATTENTION:
        scores = _attention(given)[0]
        count = scores.batch * scores.m * scores.n
        found += operators.fused(_ATTENTION[name], dtype_name(given["query"].dtype), count)
    elif name in ("where", "masked_fill"):
        for result in results:
            found[SELECT, dtype_name(result.dtype)] += result.numel()
    elif name in ("_to_copy", "copy"):
        for result in results:
            source = given.get("src", given.get("self"))
            if isinstance(source, torch.Tensor) and source.dtype != result.dtype:
                found[CAST, dtype_name(result.dtype)] += result.numel()
    elif name in operators.FUSED and sizes:
        largest = max(sizes, key=lambda t: t.numel())
        found += operators.fused(operators.FUSED[name], dtype_name(largest.dtype), largest.numel())
    elif name in _ALONG_AN_AXIS and sizes:
        found += _along_an_axis(name, given)
    elif torch.Tag.pointwise in function.tags or "_foreach_" in str(function):
        for result in results:
            dtypes = dtype_name(sizes[0].dtype), dtype_name(result.dtype)
            found += operators.element_wise(name, *dtypes, result.numel())
    return found


_ALONG_AN_AXIS = operators.SORTS | operators.TESTS | operators.ADDED


def _along_an_axis(name: str, given: Given) -> Work:
    """Return the work of what sorts, tests, or adds at places that another operand names."""
    operand: Tensor = given["self"]
    if name in operators.SORTS:
        extent = operand.shape[given["dim"]] if operand.dim() else 1
        return operators.sorted_rows(dtype_name(operand.dtype), extent, operand.numel())
    if name in operators.TESTS:
        return operators.tested(dtype_name(operand.dtype), operand.numel())
    source: Tensor = given["src"] if "src" in given else given["source"]
    return operators.added(dtype_name(source.dtype), source.numel())


# ---- bytes

NOTHING = frozenset(
    (
        *("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted", "resize", "set"),
        *("_local_scalar_dense", "is_same_size", "equal", "_has_compatible_shallow_copy_type"),
    )
)  # fmt: skip
"""Operators that move nothing that counts."""

_WRITES_ONLY = frozenset(
    {"copy", "fill", "zero", "normal", "uniform", "random", "bernoulli", "exponential"}
)
"""Operators that, in place, do not read what they change."""

_GATHERS = {"embedding": "weight", "index": "self", "index_select": "self", "gather": "self", "take": "self"}  # fmt: skip
"""Operators that read as much of an operand as they give."""

_SCATTERS = {"index_put": "values", "_index_put_impl": "values", "scatter": "src", "index_copy": "source"}  # fmt: skip
"""Operators that, in place, change as much of ``self`` as another operand has."""


def tensors_of(given: Given) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors among arguments, those in lists included, by the arguments' names."""
    for name, value in given.items():
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, list | tuple):
            for each in value:
                if isinstance(each, torch.Tensor):
                    yield name, each


def bytes_of(tensor: Tensor) -> int:
    """Return the bytes of a tensor's elements; those that it repeats (a stride of 0) count once."""
    if tensor.layout is not torch.strided:
        return int(tensor.numel()) * tensor.itemsize
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in sizes if stride or not size) * tensor.itemsize


def moved(
    name: str, function: Any, given: Given, results: Sequence[Tensor]
) -> Iterator[tuple[str, str, int, int]]:
    """Yield operand, dtype, bytes loaded and bytes stored of an operator."""
    written = {
        a.name: a.kwarg_only
        for a in function._schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
    }
    for operand, tensor in tensors_of(given):
        nbytes = bytes_of(tensor)
        loads = operand not in written or not (written[operand] or name in _WRITES_ONLY)
        loaded = nbytes if loads else 0
        stored = nbytes if operand in written else 0
        if _GATHERS.get(name) == operand:
            loaded = min(loaded, sum(map(bytes_of, results)))
        elif name in _SCATTERS and operand in written:
            source = given.get(_SCATTERS[name])
            loaded = 0
            stored = bytes_of(source) if isinstance(source, torch.Tensor) else stored
        yield operand, dtype_name(tensor.dtype), loaded, stored
    if not written:
        for result in results:
            yield "result", dtype_name(result.dtype), 0, bytes_of(result)

"""Sizes of blocks for the kernels that Inductor writes: one for each kernel, chosen by how it walks through memory.

Inductor proposes sizes that suit a GPU, several a kernel, and measures them when the kernel is first launched. To compile and measure
them is half of a first run, and the best of them can be ten times slower on a CPU than a size that is not among them:
a sum over columns wants whole rows, one after the other (``XBLOCK`` 1024, ``R0_BLOCK`` 1), where Inductor proposes
columns. So the text of the kernel is asked along which axis its loads are contiguous. Where that has no clear answer,
and with ``max_autotune`` or ``EMU_AUTOTUNE=full``, Inductor's own proposals are measured as ever.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from emu.accelerator.patches import Ledger
from emu.kernels.core import environment

Blocks = dict[str, int]

MODULE = "torch._inductor.runtime.triton_heuristics"

_WIDEST_ROW = 1024
_NARROWEST_ROW = 64
_ROWS_A_PROGRAM = 8
_COLUMNS_A_PROGRAM = 32
_CHUNK = 2048
_SHORTEST_RUN = 16
_MOST_ELEMENTS = 1 << 15  # of a block; more of them leave the nearest cache


def install(ledger: Ledger, module: Any) -> None:
    """Let Inductor's kernels have one size of blocks each; ``module`` is Inductor's module of heuristics."""
    tune = module.cached_autotune

    def cached_autotune(
        size_hints: Mapping[str, int] | None, configs: Sequence[Any], *args: Any, **kwargs: Any
    ) -> Callable[[Any], Any]:
        bound = _SIGNATURE.bind_partial(size_hints, configs, *args, **kwargs).arguments
        kind = getattr(bound.get("heuristic_type"), "name", "")
        meta = bound.get("inductor_meta") or {}

        def decorate(kernel: Any) -> Any:
            fitting = _fitting(configs, kind, size_hints or {}, kernel.src, meta)
            return tune(size_hints, fitting, *args, **kwargs)(kernel)

        return decorate

    reason = "Inductor's sizes of blocks are a GPU's"
    ledger.replace(module, "cached_autotune", cached_autotune, reason)


def _tune(
    size_hints: object,
    configs: object,
    triton_meta: object,
    heuristic_type: object,
    filename: object = None,
    inductor_meta: object = None,
    **others: object,
) -> None:
    """Take what ``cached_autotune`` takes."""


_SIGNATURE = inspect.signature(_tune)


def _fitting(
    configs: Sequence[Any],
    kind: str,
    size_hints: Mapping[str, int],
    source: str,
    meta: Mapping[str, Any],
) -> Sequence[Any]:
    """Return the configurations to compile: one that suits a CPU, or those given."""
    everything = (
        meta.get("max_autotune")
        or meta.get("max_autotune_pointwise")
        or meta.get("coordinate_descent_tuning")
        or environment.autotune() == "full"
    )
    if everything or not configs:
        return configs
    first = configs[0]
    if any(config.kwargs.keys() != first.kwargs.keys() for config in configs):
        return configs
    blocks = choose(kind, size_hints, source, set(first.kwargs))
    if blocks is None:
        return configs
    # Of the class of the first: Inductor's own has settings beside Triton's.
    chosen = type(first)({**first.kwargs, **blocks}, first.num_warps, first.num_stages)
    if hasattr(first, "dynamic_scale_rblock"):
        chosen.dynamic_scale_rblock = False
    return [chosen]


def choose(kind: str, size_hints: Mapping[str, int], source: str, names: set[str]) -> Blocks | None:
    """Return the sizes of a kernel's blocks, or None where they should be measured.

    Args:
        kind: ``POINTWISE``, ``REDUCTION`` or ``PERSISTENT_REDUCTION``.
        size_hints: How many elements each axis has about, powers of two.
        source: The kernel's text.
        names: Names of the sizes that the kernel takes.
    """
    if kind == "POINTWISE" and names == {"XBLOCK"}:
        run = even_run(source)
        if run is None or run < _NARROWEST_ROW:
            return {}  # Inductor's first proposal
        return {"XBLOCK": min(run, _WIDEST_ROW, size_hints.get("x", run))}
    if names not in ({"XBLOCK"}, {"XBLOCK", "R0_BLOCK"}) or not {"x", "r0_"} <= size_hints.keys():
        return None
    run = contiguous_run(source)
    columns, row = size_hints["x"], size_hints["r0_"]
    if "XBLOCK" not in _parameters(source):  # Inductor has written 1 into the text
        columns = 1
    if run is None:
        return None
    if kind == "PERSISTENT_REDUCTION" and names == {"XBLOCK"}:
        rows = _COLUMNS_A_PROGRAM if run else _ROWS_A_PROGRAM
        return {"XBLOCK": max(1, min(rows, columns, _MOST_ELEMENTS // row))}
    if kind == "REDUCTION" and "R0_BLOCK" in names:
        if not run:
            return {"XBLOCK": 1, "R0_BLOCK": min(_CHUNK, row)}
        share = _power_of_two(max(1, columns // environment.usable_cores()))
        widest = min(_WIDEST_ROW, columns, _power_of_two(run))
        return {"XBLOCK": min(widest, max(share, _NARROWEST_ROW)), "R0_BLOCK": 1}
    return None


def even_run(source: str) -> int | None:
    """Return the largest power of two that divides what ``xindex`` is divided by; None if it is not.

    In a block of so many elements all have one quotient, and the remainders are contiguous: it loads rows, not single
    elements. Divisors that are known at run time only are left out.
    """
    divisors = [
        node.right.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, (ast.Mod, ast.FloorDiv))
        and isinstance(node.left, ast.Name)
        and node.left.id == "xindex"
        and isinstance(node.right, ast.Constant)
        and isinstance(node.right.value, int)
    ]
    return min((number & -number for number in divisors), default=None)


def _parameters(source: str) -> set[str]:
    definition = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef))
    return {parameter.arg for parameter in definition.args.args}


def _power_of_two(number: int) -> int:
    """Return the largest power of two up to ``number``."""
    return 1 << (number.bit_length() - 1)


def contiguous_run(source: str) -> int | None:
    """Return how many neighbouring ``x`` lie side by side in what a reduction loads.

    Args:
        source: The kernel's text, as Inductor writes it: an address is a sum of multiples of ``x0``, ``r0_1`` and so on.

    Returns:
        0 where it is the reduced axis along which loads are contiguous; None where loads differ, or the text does
        not say.
    """
    runs = dict(_runs(source))
    of_both: set[int] = set()
    of_the_row: set[int] = set()
    for address in _addresses(source):
        names = {node.id for node in ast.walk(address) if isinstance(node, ast.Name)} & runs.keys()
        reduced = {name for name in names if name.startswith("r")}
        if not reduced:
            continue
        alone = {term.id for term in _terms(address) if isinstance(term, ast.Name)} & names
        if any(runs[name] < _SHORTEST_RUN for name in alone) or not alone:
            return None
        run = 0 if alone & reduced else max(runs[name] for name in alone)
        (of_the_row if reduced == names else of_both).add(run)
    found = of_both or of_the_row
    if len(found) > 1 and 0 in found:
        return None
    return min(found, default=None)


def _runs(source: str) -> Iterator[tuple[str, int]]:
    """Yield the indices that are named in a kernel, with the number of neighbours that differ by one."""
    unlimited = _WIDEST_ROW
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if not (name[0] in "xr" and name[-1].isdigit()):
            continue
        if isinstance(value, ast.Name):
            yield name, unlimited
        elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod):
            limit = value.right.value if isinstance(value.right, ast.Constant) else None
            yield name, limit if isinstance(limit, int) else unlimited
        else:
            yield name, 1


def _addresses(source: str) -> Iterator[ast.expr]:
    """Yield the offsets of a kernel's loads."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "tl.load"
            and isinstance(node.args[0], ast.BinOp)
        ):
            yield node.args[0].right


def _terms(address: ast.expr) -> Iterator[ast.expr]:
    if isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add):
        yield from _terms(address.left)
        yield from _terms(address.right)
    else:
        yield address

"""What was counted of a kernel, as the model takes it: the only module that knows the form of ``Counts.to_json()``, version 1.

It is read as JSON, so that a trace from elsewhere needs no kernel. What compilers for a device simplify away does not count: addresses, and the integers and
comparisons that masks are made of.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from emu.trace.events import Site
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.work import LONGEST, Product, Traffic, Work, joined

VERSION = 1

_DOT = {"f32": "tf32", "u8": "i8"}
"""Products of fp32 are TF32 on a GPU unless a kernel asks for more."""

_LIBRARY_DOT = {"u8": "i8", "i32": "f32", "i64": "f64", "c64": "f32", "c128": "f64", "i16": "f32"}
"""Products of a library in dtypes that :data:`~emu.trace.prediction.products.ITEMSIZE` does not have; those of fp32 stay: torch says when they are TF32."""

_FEW = 10
"""Where a kernel has this many results of products to a special function, it does little else than multiply: what it adds up to as many elements as its
products give is taken for ``acc += dot(a, b)``, which tensor cores do on the way."""


def work_of_site(site: Site) -> Work | None:
    """Return the work of a launch or a call of a site; None: it was not counted.

    Counts are those of one launch or call, or a list of those of kernels that run one after the other.

    Raises:
        PredictionError: Its counts are not such as a launch has.
    """
    details = site.details or {}
    counts = details.get("counts")
    if counts is None:
        return None
    try:
        if isinstance(counts, list):
            return joined(
                [(_checked_work(each, None), _count(each["launches"], 1)) for each in counts]
            )
        return _checked_work(counts, details.get("num_warps"))
    except PredictionError as error:
        raise PredictionError(f"the counts of {site.name!r} are none: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise PredictionError(f"the counts of {site.name!r} are none: {error!r:.160}") from None


def _checked_work(counts: Mapping[str, Any], warps: object) -> Work:
    if counts["version"] != VERSION:
        raise ValueError(f"version must be {VERSION}, but got {counts['version']!r}")
    return _work(counts, warps)


def _work(counts: Mapping[str, Any], warps: object) -> Work:
    launches = _count(counts["launches"], 1)
    if not _count(counts["programs"]) and not counts["by_program"]:
        return _library_work(counts, launches)
    programs = max(1, round(_count(counts["programs"], 1) / launches))
    units = counts["work"]
    special = sum(_count(n) for n in units.get("special", {}).values()) / launches
    vector = _vectors(units, launches)
    results = sum(_elements(dot) for dot in counts["dots"]) / launches
    if special * _FEW <= results:  # acc += dot(a, b): the product's own sums
        vector["f32"] = max(0.0, vector.get("f32", 0.0) - results)
    return Work(
        programs=programs,
        dot=_dots(units.get("dot", {}), launches),
        vector={dtype: count for dtype, count in vector.items() if count},
        special=special,
        atomics=sum(_count(n) for n in counts["atomics"].values()) / launches,
        tensors=tuple(each for t in counts["tensors"] for each in _traffic(t, launches)),
        ops=_count(counts["operations"]) / launches / programs,
        most=_most(counts["by_program"]),
        warps=warps if type(warps) is int and 1 <= warps <= 64 else None,
    )


def _library_work(counts: Mapping[str, Any], launches: float) -> Work:
    """Return the work of a call of a library, such as an operator of torch: its programs are the library's choice."""
    products = []
    for dot in counts["dots"]:
        sizes = [round(_count(dot[name], 1)) for name in ("batch", "m", "n", "k")]
        dtype, times = str(dot["a"]), _count(dot["times"]) / launches
        dtype = "f8" if dtype.startswith("f8") else _LIBRARY_DOT.get(dtype, dtype)
        product = Product(sizes[0] * sizes[1], sizes[2], sizes[3], dtype, times)
        if max(product[:3]) > LONGEST:
            raise ValueError(f"extents of a product must be at most {LONGEST}, but got {product}")
        products.append(product)
    units = counts["work"]
    return Work(
        programs=1,
        dot={d: _count(n) / launches for d, n in units.get("dot", {}).items()},
        vector={d: n for d, n in _vectors(units, launches).items() if n},
        special=sum(_count(n) for n in units.get("special", {}).values()) / launches,
        tensors=tuple(each for t in counts["tensors"] for each in _traffic(t, launches)),
        products=tuple(products),
        kernels=max(1, round(_count(counts["operations"]) / launches)),
    )


def _elements(dot: Mapping[str, Any]) -> float:
    """Return the elements that products of one shape give together."""
    parts = (_count(dot[name]) for name in ("batch", "m", "n", "times"))
    return math.prod(parts)


def _dots(counted: Mapping[str, Any], launches: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for dtype, count in counted.items():
        name = "f8" if dtype.startswith("f8") else _DOT.get(dtype, dtype)
        found[name] = found.get(name, 0.0) + _count(count) / launches
    return found


def _vectors(units: Mapping[str, Any], launches: float) -> dict[str, float]:
    """Return arithmetic on floats: that of halves is done in fp32."""
    found: dict[str, float] = {}
    for unit in ("vector", "compare", "select", "cast"):
        for dtype, count in units.get(unit, {}).items():
            if dtype.startswith(("f", "bf")):
                name = "f64" if dtype == "f64" else "f32"
                found[name] = found.get(name, 0.0) + _count(count) / launches
    return found


def _traffic(tensor: Mapping[str, Any], launches: float) -> list[Traffic]:
    """Return what is read and what is written of a tensor: memory that is changed in place moves twice."""
    atomic = _count(tensor["atomic"])
    found = []
    for verb in ("loaded", "stored"):
        moved = (_count(tensor[verb]) + atomic) / launches
        unique = tensor[f"unique_{verb}"]
        known = moved if unique is None else min(moved, _count(unique) / launches)
        sets = tensor.get(f"{verb}_by", ())  # of what is stored programs share little
        if moved:
            pairs = tuple((_count(n, 1), _count(size)) for n, size in sets)
            found.append(Traffic(moved, known, () if unique is None else pairs))
    return found


def _most(classes: Any) -> float:
    """Return the work of the busiest program relative to the average: by FLOPs, or by bytes where there are none."""
    rows = [
        (
            _count(each["programs"], 1),
            _count(each["flops"]),
            _count(each["loaded"]) + _count(each["stored"]),
        )
        for each in classes
    ]
    programs = sum(row[0] for row in rows)
    for column in (1, 2):
        total = sum(row[column] for row in rows)
        if total:
            return max(1.0, max(row[column] / row[0] for row in rows) * programs / total)
    return 1.0


def _count(value: object, low: int = 0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"a count must be a number, but got {value!r:.40}")
    if value < low:
        raise ValueError(f"a count must be at least {low}, but got {value!r:.40}")
    return float(value)

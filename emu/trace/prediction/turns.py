"""MC2's fused operators on a device: how much of the communication is hidden, and which number of turns is best.

An operator cuts its rows into turns. While one turn is under way on the link, another is multiplied. Each turn costs the start of a collective, and small products
use a device badly: more turns hide more, and cost more.

Internal: names may change in any release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.links import collective_time
from emu.trace.prediction.products import ITEMSIZE, fastest_product

MOST_TURNS = 16


@dataclass(frozen=True)
class Turns:
    """An operator in some number of turns; times in seconds.

    Attributes:
        turns: Number of turns.
        seconds: Predicted time.
        compute: Time of the products.
        link: Time of the communication.
        hidden: Part of the shorter of the two that is hidden by the other.
    """

    turns: int
    seconds: float
    compute: float
    link: float
    hidden: float


@dataclass(frozen=True)
class _Plan:
    """What a turn of some rows takes."""

    own: Callable[[int], float]
    """Products that need no communication, before the first turn, for all rows."""
    product: Callable[[int], float]
    move: Callable[[int], float]
    is_communication_first: bool


def turns_of(
    operator: str, m: int, k: int, n: int, members: int, device: Device, dtype: str = "f16"
) -> list[Turns]:
    """Predict an operator for each number of turns from 1 to 16, the fastest first.

    Args:
        operator: One of :data:`OPERATORS`.
        m: Rows of a member's ``x1``.
        k: Columns of ``x1``.
        n: Columns of the product.
        members: Number of devices.
        device: The device of each.
        dtype: Of the operands.

    Raises:
        PredictionError: The operator is unknown, or an extent is out of bounds.
    """
    if operator not in OPERATORS:
        raise PredictionError(f"mc2 must be one of {', '.join(OPERATORS)}, but got {operator!r}")
    if type(members) is not int or not 2 <= members <= 1 << 16:
        raise PredictionError(f"pes must be in [2, {1 << 16}], but got {members!r}")
    fastest_product(m, n, k, dtype, device)  # checks the extents
    plan = _PLANS[operator](k, n, members, device, dtype)
    found = [_pipeline(plan, m, turns) for turns in range(1, min(m, MOST_TURNS) + 1)]
    return sorted(found, key=lambda each: (each.seconds, each.turns))


def _pipeline(plan: _Plan, m: int, turns: int) -> Turns:
    """Return the time of a pipeline: a turn is moved while another is multiplied."""
    rows = [m // turns + (i < m % turns) for i in range(turns)]
    own = plan.own(m)
    products, moves = [plan.product(r) for r in rows], [plan.move(r) for r in rows]
    first, second = (moves, products) if plan.is_communication_first else (products, moves)
    done = own if plan.is_communication_first else 0.0
    clock = 0.0
    for one, other in zip(first, second, strict=True):
        clock += one
        done = max(done, clock) + other
    compute, link = own + sum(products), sum(moves)
    hidden = (compute + link - done) / min(compute, link) if min(compute, link) > 0 else 0.0
    return Turns(turns, done, compute, link, max(0.0, min(1.0, hidden)))


def _product(k: int, n: int, device: Device, dtype: str) -> Callable[[int], float]:
    def time(rows: int) -> float:
        # Turns are launched ahead: of a product's launch only what runs on the device counts.
        return fastest_product(rows, n, k, dtype, device).execution if rows else 0.0

    return time


def _all_gather_matmul(k: int, n: int, members: int, device: Device, dtype: str) -> _Plan:
    product, size = _product(k, n, device, dtype), ITEMSIZE[dtype]
    return _Plan(
        own=product,
        product=lambda rows: product(rows * (members - 1)),
        move=lambda rows: (
            collective_time("all_gather", float(rows) * members * k * size, members, device).seconds
        ),
        is_communication_first=True,
    )


def _matmul_then(kind: str) -> Callable[[int, int, int, Device, str], _Plan]:
    def plan(k: int, n: int, members: int, device: Device, dtype: str) -> _Plan:
        product, size = _product(k, n, device, dtype), ITEMSIZE[dtype]
        return _Plan(
            own=lambda rows: 0.0,
            product=product,
            move=lambda rows: (
                collective_time(kind, float(rows) * n * size, members, device).seconds
            ),
            is_communication_first=False,
        )

    return plan


def _all_to_all_matmul(k: int, n: int, members: int, device: Device, dtype: str) -> _Plan:
    product, size = _product(k * members, n, device, dtype), ITEMSIZE[dtype]
    return _Plan(
        own=lambda rows: 0.0,
        product=lambda rows: product(max(1, rows // members)),
        move=lambda rows: (
            collective_time("all_to_all", float(rows) * k * size, members, device).seconds
        ),
        is_communication_first=True,
    )


_PLANS: dict[str, Callable[[int, int, int, Device, str], _Plan]] = {
    "all_gather_matmul": _all_gather_matmul,
    "matmul_reduce_scatter": _matmul_then("reduce_scatter"),
    "matmul_all_reduce": _matmul_then("all_reduce"),
    "all_to_all_matmul": _all_to_all_matmul,
    "matmul_all_to_all": _matmul_then("all_to_all"),
}
OPERATORS: Sequence[str] = tuple(_PLANS)
"""The operators that can be predicted."""

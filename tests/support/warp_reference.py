"""What the instructions of a warp mean, lane by lane, in NumPy: after the pseudocode and the text of the PTX manual."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
WARP = 32


def shfl(mode: str, a: Words, b: Words, c: int) -> tuple[Words, NDArray[np.bool_]]:
    """Return what each lane of one warp reads, and whether its source is in range."""
    found, inside = np.empty_like(a), np.empty(WARP, bool)
    clamp, segments = c & 31, c >> 8 & 31
    for lane in range(WARP):
        by = int(b[lane]) & 31
        last = (lane & segments) | (clamp & ~segments & 31)
        first = lane & segments
        match mode:
            case "up":
                at, ok = lane - by, lane - by >= last
            case "down":
                at, ok = lane + by, lane + by <= last
            case "bfly":
                at, ok = lane ^ by, lane ^ by <= last
            case _:
                at = first | (by & ~segments & 31)
                ok = at <= last
        found[lane], inside[lane] = a[at if ok else lane], ok
    return found, inside


def ballot(predicate: NDArray[np.bool_], members: int) -> int:
    """Return the bits of the lanes that take part and for which the predicate holds."""
    return sum(1 << lane for lane in range(WARP) if members >> lane & 1 and predicate[lane])


def vote(what: str, predicate: NDArray[np.bool_], members: int) -> bool:
    """Return whether it holds for all that take part, or for any, or whether they agree."""
    said = [bool(predicate[lane]) for lane in range(WARP) if members >> lane & 1]
    return {"all": all(said), "any": any(said), "uni": len(set(said)) <= 1}[what]


def match_any(a: NDArray[np.unsignedinteger], members: int) -> Words:
    """Return, for each lane, the lanes that take part and have its bits."""
    same = [ballot(a == a[lane], members) for lane in range(WARP)]
    return np.array(same, np.uint32)


def match_all(a: NDArray[np.unsignedinteger], members: int) -> tuple[int, bool]:
    """Return the members, if all have the same bits, else 0."""
    said = {int(a[lane]) for lane in range(WARP) if members >> lane & 1}
    return (members, True) if len(said) == 1 else (0, False)


def redux(what: str, a: NDArray[np.signedinteger] | Words, members: int) -> int:
    """Return the sum, extreme or bits of those that take part, of the operands' dtype."""
    said = a[[lane for lane in range(WARP) if members >> lane & 1]]
    combine = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[what]
    return int(combine.reduce(said, dtype=a.dtype))

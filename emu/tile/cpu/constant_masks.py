"""Masks of which LLVM knows some lanes, kept from its back end for x86.

LLVM 22 compiles a masked load of 32-bit elements wrongly for CPUs that have AVX2 but not AVX-512, where a mask has
lanes that are known and lanes that are not, as where the columns of a tile end at a number in the program and its rows at an
argument: of 32 lanes, the eight behind the first eight are loaded without a mask, past the end of the row. So such
lanes are read from memory, of which LLVM does not know what it holds.
"""

from __future__ import annotations

import re

_COMBINED = re.compile(
    r"^ *%\S+ = (?:and|or)(?: disjoint)? <(?P<count>\d+) x i1> .*<i1 .*$", re.MULTILINE
)
_LANES = re.compile(r"<i1 \w+(?:, i1 \w+)*>")
_MASKED = "@llvm.masked."


def hide(text: str) -> str | None:
    """Return a module of LLVM IR without masks that are known in part; None if it has none.

    Args:
        text: The module, optimised.
    """
    if _MASKED not in text:
        return None
    places: dict[str, str] = {}

    def replace(found: re.Match[str]) -> str:
        count, line = found["count"], found[0]
        (lanes,) = _LANES.findall(line)
        value = f"<{count} x i8> {re.sub('i1 (?!true)[a-z]+', 'i8 0', lanes)}"
        place = places.setdefault(value.replace("i1 true", "i8 1"), f"@emu.lanes.{len(places)}")
        known = f"%emu.known.{found.start()}"
        return (
            f"  {known}.lanes = load <{count} x i8>, ptr {place}, align 1\n"
            f"  {known} = icmp ne <{count} x i8> {known}.lanes, zeroinitializer\n"
            f"{line.replace(lanes, known)}"
        )

    changed = _COMBINED.sub(replace, text)
    if not places:
        return None
    # No constants: that nothing writes to them is found by passes that have run before.
    kept = (f"{place} = internal global {value}" for value, place in places.items())
    return "\n".join((changed, *kept, ""))

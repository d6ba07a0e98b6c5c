"""Programs that hand data over by a flag: which semantics and scopes order them."""

from __future__ import annotations

from itertools import product
from typing import Any

from grid_race_cases import words

import emu.triton.language as tl
from emu import triton
from tests.check.gsan.cases import case

SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
RELEASES, ACQUIRES = ("release", "acq_rel"), ("acquire", "acq_rel")

# --- two accesses, and a counter between them -----------------------------------------------------


@triton.jit
def two(data, to, count, FIRST: tl.constexpr, SECOND: tl.constexpr, AFTER, BEFORE):
    if tl.program_id(0) == 0:
        if FIRST == "write":
            tl.store(data, 1)  # a b
        else:
            tl.store(to, tl.load(data))  # c
        if AFTER is not None:
            tl.atomic_add(count, 1, sem=AFTER)
    else:
        if BEFORE is not None:
            while tl.atomic_add(count, 0, sem=BEFORE) < 1:
                pass
        if SECOND == "write":
            tl.store(data, 2)  # b c
        else:
            tl.store(to + 1, tl.load(data))  # a


for name, first, second, letter in (
    ("read_after_write", "write", "read", "a"),
    ("write_after_write", "write", "write", "b"),
    ("write_after_read", "read", "write", "c"),
):
    for what, after, before in (
        ("nothing_between", None, None),
        ("a_relaxed_counter", "relaxed", "relaxed"),
        ("a_release_that_is_not_acquired", "release", "relaxed"),
        ("an_acquire_of_nothing_released", "relaxed", "acquire"),
        ("release_and_acquire", "release", "acquire"),
    ):
        constants = {"FIRST": first, "SECOND": second, "AFTER": after, "BEFORE": before}
        races = "" if what == "release_and_acquire" else letter
        case(f"{name}_{what}", two, words(1, 2, 1), 2, constants, races=races)


# --- semantics by scope ---------------------------------------------------------------------------


@triton.jit
def hand_over(
    data, flag, to, GIVE: tl.constexpr, TAKE: tl.constexpr, S: tl.constexpr, T: tl.constexpr
):
    if tl.program_id(0) == 0:
        tl.store(data, 7)  # a
        tl.atomic_xchg(flag, 1, sem=GIVE, scope=S)  # b
    else:
        while tl.atomic_add(flag, 0, sem=TAKE, scope=T) == 0:  # b
            pass
        tl.store(to, tl.load(data))  # a


for scope, give, take in product(("cta", "gpu", "sys"), SEMANTICS, SEMANTICS):
    ordered = give in RELEASES and take in ACQUIRES
    constants = {"GIVE": give, "TAKE": take, "S": scope, "T": scope}
    # Of scope "cta" the flag itself is not atomic among programs.
    races = "ab" if scope == "cta" else "" if ordered else "a"
    case(
        f"hand_over_{give}_to_{take}_{scope}", hand_over, words(1, 1, 1), 2, constants, races=races
    )

for give_scope, take_scope in (("gpu", "sys"), ("sys", "gpu"), ("cta", "gpu"), ("gpu", "cta")):
    constants = {"GIVE": "release", "TAKE": "acquire", "S": give_scope, "T": take_scope}
    races = "ab" if "cta" in (give_scope, take_scope) else ""
    name = f"hand_over_from_scope_{give_scope}_to_{take_scope}"
    case(name, hand_over, words(1, 1, 1), 2, constants, races=races)


# --- chains ---------------------------------------------------------------------------------------


@triton.jit
def relay(
    data,
    flags,
    to,
    N: tl.constexpr,
    GIVE: tl.constexpr,
    TAKE: tl.constexpr,
    S: tl.constexpr,
    G: tl.constexpr,
    T: tl.constexpr,
):
    me = tl.program_id(0)
    if me == 0:
        tl.store(data, 7)  # a
    elif me == T:
        while tl.atomic_add(flags + me - 1, 0, sem="relaxed", scope=S) == 0:
            pass
    else:
        while tl.atomic_add(flags + me - 1, 0, sem=TAKE, scope=S) == 0:
            pass
    if me == N - 1:
        tl.store(to, tl.load(data))  # a
    elif me == G:
        tl.atomic_xchg(flags + me, 1, sem="relaxed", scope=S)
    else:
        tl.atomic_xchg(flags + me, 1, sem=GIVE, scope=S)


def chain(name: str, n: int, races: str = "", **changes: Any) -> None:
    """Note a chain of n programs; G and T are the one that gives and the one that takes by a relaxed operation."""
    constants = {"N": n, "GIVE": "release", "TAKE": "acquire", "S": "gpu", "G": -1, "T": -1}
    case(f"chain_{name}", relay, words(1, 5, 1), n, {**constants, **changes}, races=races)


for scope, give, take in product(("gpu", "sys"), RELEASES, ACQUIRES):
    chain(f"of_three_{give}_{take}_{scope}", 3, GIVE=give, TAKE=take, S=scope)
chain("of_five", 5)
for broken in (0, 1):
    chain(f"that_program_{broken}_passes_on_relaxed", 3, "a", G=broken)
for broken in (1, 2):
    chain(f"that_program_{broken}_takes_relaxed", 3, "a", T=broken)
chain("of_five_broken_in_the_middle", 5, "a", T=2)
chain("of_release_only", 3, "a", TAKE="release")


# --- a counter that several programs release ------------------------------------------------------


@triton.jit
def gather(
    data, count, to, WRITERS: tl.constexpr, ODD: tl.constexpr, TAKE: tl.constexpr, S: tl.constexpr
):
    me = tl.program_id(0)
    if me < WRITERS:
        tl.store(data + me, 10 + me)  # a
        if me == 1 and ODD == "relaxed":
            tl.atomic_add(count, 1, sem="relaxed", scope=S)
        elif me == 1 and ODD == "store":
            while tl.atomic_add(count, 0, sem="relaxed") != 1:
                pass
            tl.atomic_store(count, 2, sem="relaxed", scope=S)
        elif ODD == "all":
            tl.atomic_add(count, 1, sem="relaxed", scope=S)
        else:
            if me == 2 and ODD == "store":
                while tl.atomic_add(count, 0, sem="relaxed") != 2:
                    pass
            tl.atomic_add(count, 1, sem="release", scope=S)
    else:
        while tl.atomic_add(count, 0, sem=TAKE, scope=S) < WRITERS:
            pass
        i = tl.arange(0, 4)
        tl.store(to + i, tl.load(data + i, mask=i < WRITERS), mask=i < WRITERS)  # a


GATHER = {"WRITERS": 3, "ODD": "", "TAKE": "acquire", "S": "gpu"}
case("counter_of_three_releases_gpu", gather, words(3, 1, 3), 4, GATHER)
case("counter_of_three_releases_sys", gather, words(3, 1, 3), 4, {**GATHER, "S": "sys"})
for odd in ("relaxed", "all"):
    # A relaxed update goes on with what was released before it, but publishes nothing of its own program.
    case(
        f"counter_with_{odd}_relaxed", gather, words(3, 1, 3), 4, {**GATHER, "ODD": odd}, races="a"
    )
# A store is no update: who acquires after it acquires nothing of what was released before.
case(
    "counter_that_a_store_overwrites",
    gather,
    words(3, 1, 3),
    4,
    {**GATHER, "ODD": "store"},
    races="a",
)
case(
    "counter_that_is_not_acquired",
    gather,
    words(3, 1, 3),
    4,
    {**GATHER, "TAKE": "relaxed"},
    races="a",
)


@triton.jit
def mixed_scopes(data, count, ready, to):
    me = tl.program_id(0)
    if me == 0:
        tl.store(data, 7)
        tl.atomic_add(count, 1, sem="release", scope="gpu")
        tl.atomic_xchg(ready, 1, sem="relaxed")
    else:
        while tl.atomic_add(ready, 0, sem="relaxed") == 0:
            pass
        tl.atomic_add(count, 1, sem="acq_rel", scope="sys")
        tl.store(to, tl.load(data))


case("updates_of_two_scopes_continue_each_other", mixed_scopes, words(1, 1, 1, 1), 2)


@triton.jit
def many_releases(data, count, to, N: tl.constexpr):
    if tl.program_id(0) == 0:
        for _ in range(N):
            tl.atomic_add(count, 1, sem="release")
        tl.store(data, 7)
        tl.atomic_add(count, 1, sem="release")
    else:
        while tl.atomic_add(count, 0, sem="acquire") <= N:
            pass
        tl.store(to, tl.load(data))


case("more_releases_than_16_bits_count", many_releases, words(1, 1, 1), 2, {"N": 65_540})


# --- fences of inline assembly --------------------------------------------------------------------


@triton.jit
def fenced(
    data, flag, to, FENCE: tl.constexpr, GIVE: tl.constexpr, TAKE: tl.constexpr, HOW: tl.constexpr
):
    if tl.program_id(0) == 0:
        if GIVE == "early":
            tl.inline_asm_elementwise(FENCE, "=r", [], tl.int32, False, 1)
        tl.store(data, 7)  # a
        if GIVE == "between":
            tl.inline_asm_elementwise(FENCE, "=r", [], tl.int32, False, 1)
        if HOW == "store":
            tl.atomic_store(flag, 1, sem="relaxed")
        else:
            tl.atomic_xchg(flag, 1, sem="relaxed")
        if GIVE == "late":
            tl.inline_asm_elementwise(FENCE, "=r", [], tl.int32, False, 1)
    else:
        if TAKE == "early":
            tl.inline_asm_elementwise(FENCE, "=r", [], tl.int32, False, 1)
        if HOW == "store":
            while tl.load(flag, volatile=True) == 0:
                pass
        else:
            while tl.atomic_add(flag, 0, sem="relaxed") == 0:
                pass
        if TAKE == "between":
            tl.inline_asm_elementwise(FENCE, "=r", [], tl.int32, False, 1)
        tl.store(to, tl.load(data))  # a


def fences(name: str, races: str = "", **changes: Any) -> None:
    """Note a case with fences, one on each side between the data and the flag if nothing else is said."""
    constants = {
        "FENCE": "fence.acq_rel.gpu;",
        "GIVE": "between",
        "TAKE": "between",
        "HOW": "update",
    }
    constants |= changes
    constants["FENCE"] += " mov.u32 $0, 0;"
    case(f"fences_{name}", fenced, words(1, 1, 1), 2, constants, races=races)


fences("on_both_sides")
fences("around_a_stored_flag", HOW="store")
fences("by_membar", FENCE="membar.gl;")
fences("of_the_system", FENCE="fence.sc.sys;")
fences("of_one_block", "a", FENCE="fence.acq_rel.cta;")
fences("by_membar_of_one_block", "a", FENCE="membar.cta;")
fences("with_none_that_gives", "a", GIVE="none")
fences("with_none_that_takes", "a", TAKE="none")
fences("that_give_before_the_data", "a", GIVE="early")
fences("that_give_behind_the_flag", "a", GIVE="late")
fences("that_take_before_the_flag", "a", TAKE="early")


@triton.jit
def fence_to_acquire(data, flag, to, GIVE: tl.constexpr, TAKE: tl.constexpr, FENCE: tl.constexpr):
    """A fence on one side, a release or an acquire on the other; a third program passes the flag on, relaxed."""
    me = tl.program_id(0)
    if me == 0:
        tl.store(data, 7)  # a
        if GIVE == "relaxed":
            tl.inline_asm_elementwise(FENCE, "=r", [], tl.int32, False, 1)
        tl.atomic_add(flag, 1, sem=GIVE)
    elif me == 1:
        while tl.atomic_add(flag, 0, sem="relaxed") < 1:
            pass
        tl.atomic_add(flag, 1, sem="relaxed")
    else:
        while tl.atomic_add(flag, 0, sem=TAKE) < 2:
            pass
        if TAKE == "relaxed":
            tl.inline_asm_elementwise(FENCE, "=r", [], tl.int32, False, 1)
        tl.store(to, tl.load(data))  # a


for give, take in (("relaxed", "acquire"), ("release", "relaxed"), ("relaxed", "relaxed")):
    constants = {"GIVE": give, "TAKE": take, "FENCE": "fence.acq_rel.gpu; mov.u32 $0, 0;"}
    name = f"fence_and_updates_that_go_on_{give}_to_{take}"
    case(name, fence_to_acquire, words(1, 1, 1), 3, constants)


@triton.jit
def fence_of_a_third(data, flags, to, FENCE: tl.constexpr):
    """Who passes on has a fence behind its read only: what it read is not released by its own relaxed write."""
    me = tl.program_id(0)
    if me == 0:
        tl.store(data, 7)  # a
        tl.atomic_xchg(flags, 1, sem="release")
    elif me == 1:
        while tl.atomic_add(flags, 0, sem="relaxed") == 0:
            pass
        if FENCE == "before the write":
            tl.inline_asm_elementwise(
                "fence.acq_rel.gpu; mov.u32 $0, 0;", "=r", [], tl.int32, False, 1
            )
        tl.atomic_xchg(flags + 1, 1, sem="relaxed")
        if FENCE == "behind the write":
            tl.inline_asm_elementwise(
                "fence.acq_rel.gpu; mov.u32 $0, 0;", "=r", [], tl.int32, False, 1
            )
    else:
        while tl.atomic_add(flags + 1, 0, sem="acquire") == 0:
            pass
        tl.store(to, tl.load(data))  # a


for where, races in (("before the write", ""), ("behind the write", "a")):
    name = f"a_fence_that_passes_on_{where}".replace(" ", "_")
    case(name, fence_of_a_third, words(1, 2, 1), 3, {"FENCE": where}, races=races)

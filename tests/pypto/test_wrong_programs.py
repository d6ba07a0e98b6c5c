"""Right programs with one wrong change: each ends in a clear error, in a report that names its cause, or runs.

A program is a list of exchanges between PEs, each made of a few steps whose numbers stand in a dictionary; a
change replaces one of them on one PE or on all. What may come of it:

* all PEs return: the change was harmless, or it was one that no machine can see (a store to another place);
  an unchanged program must give what NumPy gives;
* a PE raises one of the front end's errors;
* nothing moves any more, and the report names the op that waits and what speaks for a cause.

Anything else is a defect of the emulator: raw errors, crashes, a report without a cause.
"""

from __future__ import annotations

import json
import random
import traceback
from typing import Any

import numpy as np
import pytest
from fuzzing import Fuzzer, Report, Target

import emu
import emu.pypto as p
from emu.comm.errors import DeadlockError, PeerFailedError
from emu.pypto import distributed as d
from emu.pypto import programs as kernels

Exchange = dict[str, Any]
KINDS = ("shift", "gather", "sum", "barrier")
CAUSES = (
    "signalled in other tiles",
    "signalled in a neighbouring slot",
    "signalled at other offsets",
    "signalled with another shape",
    "signalled on another tensor",
    "the same slots were signalled on PE",
    "its slot ",
    "no PE has signalled these slots",
    "have arrived",
)
CHANGES: dict[str, tuple[Any, ...]] = {
    "wait": (False,),
    "pred": (False,),
    "signal": (False, True, 2, -1, 2**31, "one", None),
    "put": (False,),
    "offset": (1, 2, -1, 1000, 0.5, None),
    "signal_offset": (1, 2, -4),
    "tile": ([1, 1], [2, 3], [3], [0, 4], [2, 2, 2], [100, 100], ["a", 1], []),
    "wait_tile": ([1, 2], [2, 2], [4], [-1, 2]),
    "dtype": ("DT_FP16", "DT_INT32", "DT_INT8", "none"),
    "source_dtype": ("DT_BF16", "DT_FP16", "DT_INT64"),
    "target": (1, 2, -1, 7, "x"),
    "src_pe": (1, -1, 5, None),
    "sig_op": ("other", 3, None),
    "cmp_value": (0, 2, 3, 2**40, "1"),
    "clear": (True, 2),
    "again": (True,),
    "create": ("twice", "swapped"),
    "n_pes": (1, 5, 0, "n"),
    "rows": (1, 0, -1, 2.0),
    "valid": ([0, 0], [1, 1], [99, 1]),
    "out": ([1, 1], [3], [0, 4], "int"),
    "annotation": ("rank", "extent", "dtype"),
    "barrier": (False, "twice"),
}


def make_program(rng: random.Random, n_pes: int) -> list[Exchange]:
    """Draw a right program."""
    return [
        {
            "kind": rng.choice(KINDS),
            "dtype": rng.choice(("DT_FP32", "DT_FP16", "DT_INT32", "DT_BF16")),
            "rows": rng.choice((2, 4, 5)),
            "columns": rng.choice((4, 6)),
            "tile": rng.choice(([2, 4], [4, 4], [2, 2], [8, 8])),
            "n_pes": n_pes,
        }
        for _ in range(rng.choice((1, 1, 2)))
    ]


def changed(
    program: list[Exchange], rng: random.Random, n_pes: int
) -> tuple[list[list[Exchange]], str]:
    """Make one change on one PE, or on all; return each PE's program, and what was changed."""
    name = rng.choice(sorted(CHANGES))
    value, at = rng.choice(CHANGES[name]), rng.randrange(len(program))
    whom = rng.choice([[pe] for pe in range(n_pes)] + [list(range(n_pes))])
    programs = [[dict(exchange) for exchange in program] for _ in range(n_pes)]
    for pe in whom:
        programs[pe][at][f"wrong {name}"] = value
    return programs, f"{program[at]['kind']}: {name} is {value!r} on PEs {whom}"


def wrong(e: Exchange, name: str, right: Any) -> Any:
    return e.get(f"wrong {name}", right)


def shifted(e: Exchange, name: str, right: Any) -> Any:
    """Return a number with its change added; what is no number replaces it."""
    change = e.get(f"wrong {name}", 0)
    return right + change if type(change) is int else change


def source(e: Exchange, pe: int) -> np.ndarray:
    kind = getattr(p, wrong(e, "source_dtype", e["dtype"]))
    values = np.arange(e["rows"] * e["columns"]).reshape(e["rows"], e["columns"]) % 7 + pe
    return values.astype(kind.np_dtype)


def expected(e: Exchange, me: int) -> np.ndarray:
    n = e["n_pes"]
    xs = [source(e, pe) for pe in range(n)]
    if e["kind"] == "gather":
        return np.concatenate(xs)
    if e["kind"] == "sum":
        total = xs[0].copy()
        for x in xs[1:]:
            total = total + x
        return total
    return xs[(me - 1) % n]


def exchange(x, out, e) -> None:
    n, me = e["n_pes"], d.my_symbolic_pe("tp")
    rows = wrong(e, "rows", e["rows"])
    tall = rows * n if e["kind"] == "gather" else rows
    kind = wrong(e, "dtype", e["dtype"])
    create = wrong(e, "create", "")
    if create:
        d.create_shmem_signal("tp", n)
    data = d.create_shmem_tensor(
        "tp", wrong(e, "n_pes", n), getattr(p, kind, kind), [tall, e["columns"]]
    )
    if create == "twice":
        data = d.create_shmem_tensor("tp", n, x.dtype, [tall, e["columns"]])
    p.set_vec_tile_shapes(*wrong(e, "tile", e["tile"]))
    if e["kind"] == "barrier":
        _with_barrier(x, out, e, data, me)
        return
    ring = e["kind"] == "shift"
    add = p.AtomicType.ADD if e["kind"] == "sum" else p.AtomicType.SET
    sig_op = {"right": add, "other": p.AtomicType(1 - add)}.get(*[wrong(e, "sig_op", "right")] * 2)
    base = me * rows if e["kind"] == "gather" else 0
    for step in p.loop(n):
        pe = (me + 1) % n if ring else (me + step) % n
        deps = []
        if wrong(e, "put", True):
            deps = [
                d.shmem_put(
                    x, [shifted(e, "offset", base), 0], data, shifted(e, "target", pe), put_op=add
                )
            ]
        signal = wrong(e, "signal", 1)
        if signal is not False:
            corner = [base + wrong(e, "signal_offset", 0), 0] if e["kind"] == "gather" else None
            d.shmem_signal(
                data, shifted(e, "src_pe", 0 if e["kind"] == "sum" else me), signal, x.shape, corner,
                target_pe=shifted(e, "target", pe), sig_op=sig_op, pred=deps if wrong(e, "pred", True) else None,
            )  # fmt: skip
        if ring:
            break
    _receive(x, out, e, data, me)


def _receive(x, out, e, data, me) -> None:
    n, rows = e["n_pes"], e["rows"]
    p.set_vec_tile_shapes(*wrong(e, "wait_tile", wrong(e, "tile", e["tile"])))
    if e["kind"] == "sum":
        senders, value = [0], wrong(e, "cmp_value", n)
    else:
        senders, value = (
            [(me - 1) % n] if e["kind"] == "shift" else list(range(n)),
            wrong(e, "cmp_value", 1),
        )
    valid = wrong(e, "valid", None)
    for pe in senders:
        corner = [pe * rows, 0] if e["kind"] == "gather" else [0, 0]
        deps = []
        for _ in range(1 + bool(wrong(e, "again", False))):
            if wrong(e, "wait", True):
                clear = wrong(e, "clear", wrong(e, "again", False))
                deps = [
                    d.shmem_wait_until(
                        data, pe, value, x.shape, corner, clear_signal=clear, pred=deps
                    )
                ]
        part = d.shmem_get(data, me, x.shape, corner, valid_shape=valid, pred=deps)
        out[corner[0] :, :] = part


def _with_barrier(x, out, e, data, me) -> None:
    n = e["n_pes"]
    deps = []
    if wrong(e, "put", True):
        deps = [
            d.shmem_put(x, [shifted(e, "offset", 0), 0], data, shifted(e, "target", (me + 1) % n))
        ]
    for _ in range({True: 1, False: 0, "twice": 2}[wrong(e, "barrier", True)]):
        deps = [d.shmem_barrier_all(data, pred=deps if wrong(e, "pred", True) else None)]
    out[:, :] = d.shmem_get(data, me, valid_shape=wrong(e, "valid", None), pred=deps)


def annotated(e: Exchange):
    """Return the kernel of an exchange, with annotations that fit its source unless they are changed."""
    shape, kind = [p.DYNAMIC, e["columns"]], getattr(p, e["dtype"])
    change = e.get("wrong annotation")
    shape = {"rank": [p.DYNAMIC] * 3, "extent": [p.DYNAMIC, 77]}.get(change, shape)
    kind = p.DT_UINT8 if change == "dtype" else kind if "wrong source_dtype" not in e else None
    exchange.__annotations__ = {"x": p.Tensor(shape, kind)}
    return p.frontend.jit(exchange)


def run(programs: list[list[Exchange]], schedule: str) -> list[bool]:
    """Run a PE's program; say of each exchange whether it gave what NumPy gives."""
    me, found = emu.world().my_pe, []
    with p.set_schedule(schedule, 5):
        for e in programs[me]:
            right = expected({k: v for k, v in e.items() if not k.startswith("wrong")}, me)
            shape = wrong(e, "out", list(right.shape))
            out = (
                np.zeros(right.shape, np.int64) if shape == "int" else np.zeros(shape, right.dtype)
            )
            annotated(e)(source(e, me), out, e)
            found.append(out.shape == right.shape and bool((out.astype(np.float64) == right).all()))
    return found


def outcome(
    programs: list[list[Exchange]], schedule: str, n_pes: int, timeout: float
) -> tuple[str, str]:
    """Launch; return how it ended (right, wrong numbers, refused, hang or defect) and the text."""
    try:
        found = emu.launch(run, n_pes, args=(programs, schedule), timeout=timeout)
    except ExceptionGroup as group:
        return _ending(group)
    return ("right" if all(map(all, found)) else "wrong numbers"), json.dumps(found)


def _ending(group: ExceptionGroup) -> tuple[str, str]:
    kinds, report = {type(error) for error in group.exceptions}, str(group)
    if kinds == {DeadlockError}:
        told = any(op in report for op in ("shmem_wait_until", "shmem_barrier_all"))
        return ("hang" if told and any(cause in report for cause in CAUSES) else "defect"), report
    if all(issubclass(kind, p.PyptoError | PeerFailedError) for kind in kinds):
        return "refused", str(group.exceptions)
    return "defect", "".join(traceback.format_exception(group))


def campaign(seed: int, count: int) -> dict[str, int]:
    """Run changed programs; fail with the first defect."""
    rng, ends = random.Random(seed), dict.fromkeys(("right", "wrong numbers", "refused", "hang"), 0)
    for _ in range(count):
        n_pes = rng.choice((2, 3))
        programs, change = changed(make_program(rng, n_pes), rng, n_pes)
        schedule = rng.choice(("program", "random"))
        end, text = outcome(programs, schedule, n_pes, 2.0)
        if (
            end == "defect"
        ):  # on a machine that is busy with other things a PE may not have got that far
            end, text = outcome(programs, schedule, n_pes, 20.0)
        assert end != "defect", f"{change}\n{programs}\n{text}"
        ends[end] += 1
    return ends


@pytest.mark.parametrize("seed", range(3))
def test_unchanged_programs_are_right(seed: int) -> None:
    rng = random.Random(seed)
    for schedule in ("program", "random"):
        program = [e for _ in range(4) for e in make_program(rng, 3)]
        assert outcome([program] * 3, schedule, 3, 60.0) == (
            "right",
            json.dumps([[True] * len(program)] * 3),
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_programs_with_one_wrong_change(seed: int) -> None:
    ends = campaign(seed, 8)
    assert ends["refused"] + ends["hang"]


# --- whole kernels --------------------------------------------------------------------------------


def program_targets() -> list[Target]:
    """Return targets for the whole kernels, on one PE."""

    def array(*shape: int) -> np.ndarray:
        return np.ones(shape, np.float32)

    def gathered() -> dict[str, Any]:
        return {"x": array(4, 8), "w": array(8, 2), "out": array(4, 2), "group_name": "tp"}

    def reduced() -> dict[str, Any]:
        arrays = {"x": array(4, 8), "w": array(8, 2), "residual": array(4, 2), "gamma": array(1, 2)}
        return {**arrays, "out": array(4, 2), "n_pes": 1, "eps": 1e-6, "group_name": "tp"}

    words = (
        "src",
        "dst",
        "matmul",
        "operand",
        "add:",
        "mul:",
        "group",
        "n_pes",
        "offsets",
        "shape",
    )
    also = dict.fromkeys(("x", "w", "residual", "gamma", "out", "eps"), words)
    return [
        Target(
            name="allgather_matmul",
            function=kernels.allgather_matmul,
            arguments=gathered,
            also=also,
        ),
        Target(
            name="matmul_allreduce_rmsnorm",
            function=kernels.matmul_allreduce_rmsnorm,
            arguments=reduced,
            also=also,
        ),
    ]


def fuzz_programs(seed: int, calls: int) -> Report:
    return Fuzzer(program_targets(), (p.PyptoError,), seed=seed).run(calls)


def test_wrong_arguments_of_whole_kernels() -> None:
    emu.launch(fuzz_programs, 1, args=(7, 400), timeout=60)[0].check()

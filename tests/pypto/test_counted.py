"""Counts of PyPTO's ops: by hand, and beside what the reference backend is given."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from campaigns import shares
from pypto_random_kernels import Program

import emu
from emu import pypto
from emu.pypto import counted, distributed, local, operation
from emu.pypto.native import plan
from emu.pypto.operation import Operation
from emu.tile.counting import operators
from emu.tile.counting.state import Counting
from emu.tile.types import FROM_NUMPY
from emu.trace.counting import Counts, collect
from emu.trace.counting.pes import Totals

BF16 = ml_dtypes.bfloat16


@pytest.fixture(params=["native", "reference"])
def backend(request, monkeypatch):
    monkeypatch.setattr(operation, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(plan, "_plans", {})
    with pypto.set_options(backend=request.param):
        yield request.param


def tensor(*shape: int, dtype=np.float32) -> pypto.Tensor:
    return pypto.from_numpy(np.ones(shape, dtype))


def ragged(*valid: int) -> pypto.Tensor:
    return pypto.view(tensor(20, 30), [20, 30], [0, 0], valid_shape=list(valid))


def only(call) -> Counts:
    with collect(operators=True) as found:
        call()
    (counts,) = found
    return counts


def loaded(counts: Counts) -> dict[str, int]:
    return {t.name: t.loaded for t in counts.tensors if t.loaded}


def stored(counts: Counts) -> dict[str, int]:
    return {t.name: t.stored for t in counts.tensors if t.stored}


def test_a_product_by_hand(backend: str) -> None:
    a, b = tensor(64, 32, dtype=BF16), tensor(16, 32, dtype=BF16)
    found = only(lambda: pypto.matmul(a, b, pypto.DT_FP32, b_trans=True))
    assert (found.name, found.launches, found.programs, found.operations) == ("matmul", 1, 0, 1)
    assert found.file == __file__
    assert found.work == {"dot": {"bf16": 2 * 64 * 32 * 16}}
    (dot,) = found.dots
    assert (dot.batch, dot.m, dot.n, dot.k) == (1, 64, 16, 32)
    assert (dot.a, dot.b, dot.accumulator) == ("bf16", "bf16", "f32")
    assert loaded(found) == {"a": 2 * 64 * 32, "b": 2 * 32 * 16}
    assert stored(found) == {"result": 4 * 64 * 16}
    assert Counts.from_json(found.to_json()) == found
    assert "matmul (test_counted.py:" in found.table()
    assert "calls 1, operators 1" in found.table()


def test_a_product_that_is_added_to_a_tensor(backend: str) -> None:
    a, b, total, bias = tensor(5, 8, 4), tensor(4, 6), tensor(5, 8, 6), tensor(6)
    found = only(lambda: pypto.matmul(a, b, bias=bias, accumulate=total))
    assert found.work == {"dot": {"f32": 2 * 5 * 8 * 6 * 4}}
    assert loaded(found) == {"a": 640, "b": 96, "bias": 24, "accumulate": 960}
    assert stored(found) == {"accumulate": 960}


def test_a_product_of_valid_parts(backend: str) -> None:
    a, b = ragged(3, 7), pypto.transpose(ragged(4, 5), 0, 1)
    found = only(lambda: pypto.matmul(a, b))
    assert found.flops == 2 * 3 * 4 * 7  # where one operand has elements up to 7 along k
    assert loaded(found) == {"a": 4 * 3 * 7, "b": 4 * 5 * 4}
    assert found.stored == 4 * 3 * 4


X, I, H = (lambda: tensor(20, 30)), (lambda: tensor(20, 30, dtype=np.int32)), 600
"""Operands of the rows below, and their number of elements."""


def half() -> pypto.Tensor:
    return tensor(20, 30, dtype=np.float16)


def places() -> pypto.Tensor:
    return pypto.from_numpy(np.zeros((4, 30), np.int32))


ROWS = {
    "add": (lambda: X() + X(), {"vector": {"f32": H}}, 4800, 2400),
    "number": (lambda: X() * 2.0, {"vector": {"f32": H}}, 2400, 2400),
    "integers": (lambda: I() + I(), {"integer": {"i32": H}}, 4800, 2400),
    "halves": (lambda: half() - half(), {"vector": {"f16": H}}, 2400, 1200),
    "broadcast": (lambda: X() + tensor(1, 30), {"vector": {"f32": H}}, 2520, 2400),
    "valid parts": (lambda: ragged(2, 3) + ragged(4, 1), {"vector": {"f32": 12}}, 40, 48),
    "exp": (lambda: pypto.exp(X()), {"special": {"f32": H}}, 2400, 2400),
    "floor": (lambda: pypto.floor(X()), {"vector": {"f32": H}}, 2400, 2400),
    "relu": (lambda: pypto.relu(X()), {"vector": {"f32": H}}, 2400, 2400),
    "clip": (lambda: pypto.clip(X(), 0.0, 1.0), {"vector": {"f32": H}}, 2400, 2400),
    "pow": (lambda: pypto.pow(I(), 2), {"integer": {"i32": H}}, 2400, 2400),
    "gelu": (lambda: pypto.gelu(X()), {"vector": {"f32": 4 * H}, "special": {"f32": H}}, 2400, 2400),
    "silu": (lambda: pypto.silu(half()), {"vector": {"f16": H}, "special": {"f16": H}}, 1200, 1200),
    "gt": (lambda: pypto.gt(X(), 0.5), {"compare": {"f32": H}}, 2400, 600),
    "a number first": (lambda: pypto.gt(0.5, half()), {"compare": {"f16": H}}, 1200, 600),
    "isnan": (lambda: pypto.isnan(half()), {"compare": {"f16": H}}, 1200, 600),
    "shift": (lambda: pypto.bitwise_left_shift(I(), 1), {"integer": {"i32": H}}, 2400, 2400),
    "cast": (lambda: pypto.cast(X(), pypto.DT_BF16), {"cast": {"bf16": H}}, 2400, 1200),
    "cast to itself": (lambda: pypto.cast(X(), pypto.DT_FP32), {}, 2400, 2400),
    "cast by a mode": (lambda: pypto.cast(X(), pypto.DT_INT8, "floor"), {"cast": {"i8": H}}, 2400, 600),
    "sum": (lambda: pypto.sum(X()), {"vector": {"f32": H}}, 2400, 80),
    "sum over axes": (lambda: pypto.sum(X(), None), {"vector": {"f32": H}}, 2400, 4),
    "sum of integers": (lambda: pypto.sum(I(), 0), {"integer": {"i32": H}}, 2400, 120),
    "sum of a part": (lambda: pypto.sum(ragged(2, 3)), {"vector": {"f32": 6}}, 24, 8),
    "amax": (lambda: pypto.amax(half()), {"vector": {"f16": H}}, 1200, 40),
    "mean": (lambda: pypto.mean(X()), {"vector": {"f32": H}}, 2400, 80),
    "var": (lambda: pypto.var(X()), {"vector": {"f32": 4 * H}}, 2400, 80),
    "any": (lambda: pypto.any(X()), {"compare": {"f32": H}}, 2400, 20),
    "argmax": (lambda: pypto.argmax(X()), {"vector": {"f32": H}}, 2400, 80),
    "cumsum": (lambda: pypto.cumsum(X()), {"vector": {"f32": H}}, 2400, 2400),
    "softmax": (
        lambda: pypto.softmax(X()), {"vector": {"f32": 4 * H}, "special": {"f32": H}}, 2400, 2400
    ),
    "layer_norm": (lambda: pypto.layer_norm(X(), tensor(30), tensor(30)), {"vector": {"f32": 8 * H}}, 2640, 2400),
    "rms_norm": (lambda: pypto.rms_norm(X(), tensor(30)), {"vector": {"f32": 4 * H}}, 2520, 2400),
    "sort": (lambda: pypto.sort(X()), {"compare": {"f32": 5 * H}}, 2400, 4800),
    "topk": (lambda: pypto.topk(X(), 3, 0), {"compare": {"f32": 5 * H}}, 2400, 720),
    "quantize": (
        lambda: pypto.quantize(X(), 0.1), {"vector": {"f32": 3 * H}, "cast": {"i8": H}}, 2400, 600
    ),
    "dequantize": (
        lambda: pypto.dequantize(tensor(20, 30, dtype=np.int8), 0.1),
        {"vector": {"f32": 2 * H}, "cast": {"f32": H}}, 600, 2400,
    ),
    "dynamic_quantize": (
        lambda: pypto.dynamic_quantize(X()), {"vector": {"f32": 4 * H}, "cast": {"i8": H}}, 2400, 680
    ),
    "transpose": (lambda: pypto.transpose(X(), 0, 1), {}, 2400, 2400),
    "concat": (lambda: pypto.concat([X(), X()]), {}, 4800, 4800),
    "stack": (lambda: pypto.stack([X(), X()]), {}, 4800, 4800),
    "broadcast_to": (lambda: pypto.broadcast_to(tensor(1, 30), [20, 30]), {}, 120, 2400),
    "gather": (lambda: pypto.gather(X(), 0, places()), {}, 480 + 480, 480),
    "index_select": (
        lambda: pypto.index_select(X(), 0, pypto.from_numpy(np.arange(2, dtype=np.int32))), {}, 8 + 240, 240
    ),
    "scatter_add": (
        lambda: pypto.scatter_add(X(), 0, places(), tensor(4, 30)),
        {"vector": {"f32": 120}}, 2400 + 480 + 480, 2400,
    ),
    "view": (lambda: X()[0:4, 0:5] + 1.0, {"vector": {"f32": 20}}, 80, 80),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_other_ops_by_hand(name: str, backend: str) -> None:
    call, work, read, written = ROWS[name]
    found = only(call)
    assert (found.work, found.loaded, found.stored) == (work, read, written)
    assert (found.launches, found.operations, found.dots) == (1, 1, ())


def test_where_and_assignments(backend: str) -> None:
    x, out = tensor(20, 30), tensor(20, 30)
    condition = x > 0.5
    found = only(lambda: pypto.where(condition, x, 0.0))
    assert found.work == {"select": {"f32": 600}}
    assert loaded(found) == {"condition": 600, "a": 2400}

    def assign() -> None:
        out[2:, 3:] = x[0:4, 0:5]

    found = only(assign)
    assert (found.work, loaded(found), stored(found)) == ({}, {"src": 80}, {"result": 80})


def test_the_line_is_that_of_the_program(backend: str) -> None:
    @pypto.frontend.jit
    def kernel(x, out):
        for _ in range(3):
            x = x + 1.0
        out[0:, 0:] = pypto.exp(x)

    totals = Totals()
    with collect(operators=True) as found:
        kernel(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))
    for counts in found:
        totals(counts)
    names = [(c.name, c.launches) for c in totals.kernels]
    assert names == [("add", 3), ("exp", 1), ("assemble", 1)]
    lines = [c.line for c in totals.kernels]
    assert lines[1] == lines[2] == lines[0] + 1
    assert {c.file for c in totals.kernels} == {__file__}


# --- random programs --------------------------------------------------------------------------------


class Watched:
    """What each op of the reference backend is given, in memory."""

    def __init__(self, monkeypatch) -> None:
        self.ops: Counter[str] = Counter()
        self.loaded = self.stored = 0
        self.work: Counter[tuple[str, str]] = Counter()
        run = local.run_reference

        def run_reference(op) -> None:
            self.note(op)
            run(op)

        monkeypatch.setattr(local, "run_reference", run_reference)

    def note(self, op) -> None:
        kind, inputs, outputs, _ = op
        tensors = [x for x in inputs if not isinstance(x, np.generic)]
        self.ops[kind.name] += 1
        self.loaded += sum(t.array.nbytes for t in tensors)
        self.stored += sum(t.array.nbytes for t in outputs)
        (result,) = outputs
        first = FROM_NUMPY[inputs[0].dtype.np_dtype].name
        own = FROM_NUMPY[result.dtype.np_dtype].name
        is_float = own[0] in "fb"
        if kind.name in ("gt", "isnan", "isinf", "isfinite") or kind.name.startswith("logical"):
            self.work["compare", first] += result.array.size
        elif kind.name in ("where", "cast"):
            unit = {"where": "select", "cast": "cast"}[kind.name]
            self.work[unit, own] += result.array.size if unit == "select" or first != own else 0
        elif kind.name in ("amax", "amin", "sum"):
            self.work["vector" if is_float else "integer", own] += tensors[0].array.size
        elif kind.name != "assemble":
            special = "special" if kind.name == "sqrt" else "vector"
            self.work[special if is_float else "integer", own] += result.array.size


def summed(found: list[Counts]) -> tuple[Counter[str], int, int, Counter[tuple[str, str]]]:
    work: Counter[tuple[str, str]] = Counter()
    for counts in found:
        for unit, kinds in counts.work.items():
            work.update({(unit, dtype): n for dtype, n in kinds.items()})
    ops = Counter({c.name: 0 for c in found})
    for counts in found:
        ops[counts.name] += counts.launches
    return ops, sum(c.loaded for c in found), sum(c.stored for c in found), work


@pytest.mark.parametrize("seed", range(10))
def test_a_random_kernel_counts_as_what_its_ops_are_given(seed: int, monkeypatch) -> None:
    check_random_kernel(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(4))
def test_many_random_kernels_count_as_what_their_ops_are_given(share: int, monkeypatch) -> None:
    for seed in range(1000 * (share + 1), 1000 * (share + 1) + 20):
        check_random_kernel(seed, monkeypatch)


def check_random_kernel(seed: int, monkeypatch) -> None:
    """Compare the counts of a kernel with what the reference backend is given, and with those of the compiled one."""
    program = Program(seed)
    with monkeypatch.context() as patch, collect(operators=True) as found:
        watched = Watched(patch)
        wanted = program.run("reference", patch)
    assert summed(found) == (watched.ops, watched.loaded, watched.stored, +watched.work)
    monkeypatch.setattr(operation, "LEAST_ELEMENTS", 1)
    with collect(operators=True) as compiled:
        program.run("native", monkeypatch)
    assert compiled == found
    totals = Totals()
    for counts in found:
        totals(counts)
    assert summed(totals.kernels) == summed(found)
    plain = program.run("reference", monkeypatch)
    for x, y in zip(wanted, plain, strict=True):
        np.testing.assert_array_equal(x.astype(np.float64), y.astype(np.float64))


# --- all operations ---------------------------------------------------------------------------------


def all_operations() -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for each in pkgutil.iter_modules(pypto.__path__, "emu.pypto."):
        for value in vars(importlib.import_module(each.name)).values():
            values = value.values() if isinstance(value, dict) else [value]
            found.update({v.name: v for v in values if isinstance(v, Operation)})
    return found


def test_each_operation_is_in_the_table_or_element_wise() -> None:
    known = operators.MOVES | operators.FUSED.keys() | operators.SORTS | operators.TESTS
    known |= operators.ADDED | {"matmul", "copy"}
    operations = all_operations()
    assert len(operations) > 60
    for name, each in operations.items():
        assert each.kind == "map" or counted._ATEN.get(name, name) in known, name
    assert set(counted._ATEN) <= set(operations)
    assert set(counted._OPERANDS) <= set(operations)


# --- when and where ---------------------------------------------------------------------------------


def test_nothing_is_counted_without_operators() -> None:
    with collect() as found:
        tensor(4, 4) + 1.0
    assert found == []
    assert Counting.sink is None
    assert not Counting.operators


def _tiles_that_come_later(rows: int) -> dict[str, int]:
    """Compute with a tensor whose tiles come one by one; return what counts."""
    pypto.set_vec_tile_shapes(2, 8)

    @pypto.frontend.jit
    def kernel(out):
        group, n_pes = "all", emu.world().n_pes
        data = distributed.create_shmem_tensor(group, n_pes, pypto.DT_FP32, [rows, 8])
        me = emu.world().my_pe
        mine = pypto.full([rows, 8], float(me + 1))
        put = distributed.shmem_put(mine, [0, 0], data, 1 - me)
        distributed.shmem_signal(data, 0, 1, target_pe=1 - me, pred=[put])
        came = distributed.shmem_wait_until(data, 0, 1, pred=[])
        theirs = distributed.shmem_get(data, me, pred=[came])
        both = pypto.concat([pypto.exp(theirs + 1.0), mine])
        out[0:, 0:] = pypto.stack([both, both])[0:1, 0:, 0:].reshape(2 * rows, 8)

    with collect(operators=True) as found:
        kernel(np.zeros((2 * rows, 8), np.float32))
    ops, *_ = summed(found)
    return {**ops, "loaded": sum(c.loaded for c in found), "flops": sum(c.flops for c in found)}


def test_ops_that_are_done_piece_by_piece_count_as_one() -> None:
    rows, size = 16, 16 * 8
    for found in emu.launch(_tiles_that_come_later, 2, args=(rows,), timeout=60):
        # add and exp read one, concat two, stack both of these twice, reshape and the assignment read two.
        read = (1 + 1 + 2 + 4 + 2 + 2) * size * 4
        ops = ("add", "exp", "concat", "stack", "reshape", "assemble")
        assert found == {**dict.fromkeys(ops, 1), "loaded": read, "flops": 2 * size}

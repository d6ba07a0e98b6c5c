"""Plans of collectives: on PEs and on threads they give what the reference's handlers give."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from variants import thorough

import emu
import emu.sdy
from emu.comm.errors import CollectiveMismatchError
from emu.comm.world.current import world
from emu.mlir.ir import Operation
from emu.sdy.execution.device import WorldDevice
from emu.stablehlo.compiled.collectives import COLLECTIVES, CollectivePlan, plan_collective
from emu.stablehlo.reference import EvaluationError
from emu.stablehlo.reference.devices import Device, SingleDevice, run_on_threads
from emu.stablehlo.reference.scope import HANDLERS, Program, Scope

DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "ui8": np.uint8,
    "i1": np.bool_,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "i4": ml_dtypes.int4,
}
N_PES = 4
LINK = emu.Link(bandwidth=25e9, latency=1e-6)
MESHES = {1: 4, 2: 2, 4: 1}
"""Number of partitions by that of replicas."""


@dataclass(frozen=True)
class Case:
    """A collective, and the numbers of replicas and partitions that it runs on."""

    text: str
    n_replicas: int
    seed: int
    is_symmetric: bool

    @property
    def op(self) -> Operation:
        """The operation."""
        body = emu.sdy.parse(self.text).body().first.body()
        return next(op for op in body if op.name in COLLECTIVES)

    def inputs(self, process: int) -> list[np.ndarray]:
        """Return the inputs of a process."""
        rng = np.random.default_rng([self.seed, process])
        found = []
        for value in self.op.operands:
            dtype = np.dtype(DTYPES[str(value.type.element)])
            x = rng.integers(-4, 5, value.type.shape).astype(np.float32)
            if dtype.kind == "f" and x.size > 3:
                x.flat[rng.integers(x.size)] = rng.choice([np.nan, np.inf, -np.inf])
            if dtype.kind == "c":
                x = x + 1j * rng.integers(-4, 5, x.shape)
            elif dtype == np.uint8:
                x = np.abs(x)
            found.append(x.astype(dtype))
        return found


def case_text(name: str, attributes: str, types: list[str], results: list[str], region="") -> str:
    names = [f"%a{i}" for i in range(len(types))]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    outputs = ", ".join(f"%r#{i}" for i in range(len(results))) if len(results) > 1 else "%r"
    count = f":{len(results)}" if len(results) > 1 else ""
    listed = ", ".join(results)
    return f"""func.func @main({arguments}) -> ({listed}) {{
      %r{count} = "stablehlo.{name}"({", ".join(names)}) {region} {{{attributes}}}
          : ({", ".join(types)}) -> ({listed})
      return {outputs} : {listed}
    }}"""


def reduction(op: str, element: str) -> str:
    t = f"tensor<{element}>"
    if op == "difference":  # of several operations, and not commutative
        inner = f"""%2 = stablehlo.subtract %x, %y : {t}
        %3 = stablehlo.add %2, %2 : {t}
        stablehlo.return %3 : {t}"""
    else:
        inner = f"%2 = stablehlo.{op} %x, %y : {t}\nstablehlo.return %2 : {t}"
    return f"({{ ^bb0(%x: {t}, %y: {t}):\n{inner}\n}})"


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def random_case(rng: np.random.Generator, name: str) -> Case:
    n_replicas = int(rng.choice(list(MESHES)))
    n_partitions = MESHES[n_replicas]
    mode = rng.choice(["replicas", "channel", "global"])
    takes_global = name in ("all_gather", "all_reduce", "reduce_scatter")
    if mode == "global" and not takes_global:
        mode = "channel"
    within = n_replicas  # how many numbers the groups are made of
    if mode == "global":
        within = N_PES
    elif mode == "channel" and not takes_global:
        within = n_partitions
    size = int(rng.choice([n for n in (1, 2, 4) if n <= within]))
    rows = rng.permutation(within).reshape(-1, size)
    members = size * (n_partitions if mode == "channel" and takes_global else 1)
    words = [
        f"replica_groups = dense<{rows.tolist()}> : tensor<{rows.shape[0]}x{rows.shape[1]}xi64>"
    ]
    if mode != "replicas":
        words.append("channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>")
    if mode == "global":
        words.append("use_global_device_ids")
    elements = sorted(DTYPES)
    element = str(rng.choice(elements))
    rank = int(rng.integers(1, 4))
    shape = [int(n) for n in rng.integers(1, 5, rank)]
    if rng.random() < 0.15:
        shape[-1] = 20_000 // int(np.prod(shape[:-1]))  # so that it is read where it lies
    d, e = (int(i) for i in rng.integers(0, rank, 2))
    region, out = "", list(shape)
    if name == "all_gather":
        words.append(f"all_gather_dim = {d} : i64")
        out[d] *= members
    elif name == "all_to_all":
        shape[d] *= members
        out = list(shape)
        out[d] //= members
        out[e] *= members
        words.append(
            f"split_dimension = {d} : i64, concat_dimension = {e} : i64, "
            f"split_count = {members} : i64"
        )
    elif name in ("all_reduce", "reduce_scatter"):
        ops = ["add", "multiply", "maximum", "minimum"]
        if element in ("i1", "i32"):
            ops += ["and", "or", "xor"]
        if "complex" in element:
            ops = ["add", "multiply"]
        if element != "i1":
            ops.append("difference")
        region = reduction(str(rng.choice(ops)), element)
        if name == "reduce_scatter":
            words.append(f"scatter_dimension = {d} : i64")
            shape[d] *= members
    elif name == "collective_permute":
        words = [word for word in words if "replica_groups" not in word]
        count = int(rng.integers(0, within + 1))
        ends = [rng.permutation(within)[:count].tolist() for _ in range(2)]
        pairs = [list(pair) for pair in zip(*ends, strict=True)]
        listed = f"dense<{pairs}>" if pairs else "dense<>"
        words.append(f"source_target_pairs = {listed} : tensor<{len(pairs)}x2xi64>")
    elif name == "collective_broadcast" and rng.random() < 0.3:
        words[0] = f"replica_groups = dense<{rows[:1].tolist()}> : tensor<1x{size}xi64>"
    count = 2 if name in ("all_gather", "all_reduce", "all_to_all") and rng.random() < 0.3 else 1
    text = case_text(
        name,
        ", ".join(words),
        [tensor(tuple(shape), element)] * count,
        [tensor(tuple(out), element)] * count,
        region,
    )
    return Case(text, n_replicas, int(rng.integers(1 << 30)), bool(rng.random() < 0.5))


def cases(seed: int, count: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    names = [
        *("all_gather", "all_reduce", "reduce_scatter", "all_to_all"),
        *("collective_permute", "collective_broadcast"),
    ]
    return [random_case(rng, name) for name in itertools.islice(itertools.cycle(names), count)]


def expected(case: Case) -> list[list[np.ndarray]]:
    op = case.op

    def run(device: Device) -> list[np.ndarray]:
        scope = Scope(Program(op.parent_op.parent_op, device, {}))
        with np.errstate(all="ignore"):
            return list(HANDLERS[op.name](op, case.inputs(device.process), scope))

    return run_on_threads(run, case.n_replicas, MESHES[case.n_replicas])


def run_plan(plan: CollectivePlan, case: Case, device: Device, symmetric=None) -> list[np.ndarray]:
    inputs = case.inputs(device.process)
    if symmetric is not None and case.is_symmetric:
        start, placed = 0, []
        for x in inputs:
            there = symmetric[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
            there[...] = x
            placed.append(there)
            start += -(-x.nbytes // 64) * 64
        inputs = placed
    outputs = []
    for index, result in enumerate(case.op.results):
        dtype = DTYPES[str(result.type.element)]
        outputs.append(np.full(result.type.shape, 3, dtype))
        if case.seed % 3 == 0 and outputs[-1].ndim > 1:  # of other strides
            outputs[-1] = np.full(result.type.shape[::-1], 3 + index, dtype).T
    plan.run(device, inputs, outputs)
    return [np.array(x) for x in outputs]


def run_in_world(work: list[tuple[CollectivePlan, Case]]) -> list[list[np.ndarray]]:
    room = world().alloc(1 << 20, np.uint8)
    found = []
    for plan, case in work:
        device = WorldDevice(world(), case.n_replicas, MESHES[case.n_replicas])
        found.append(run_plan(plan, case, device, room.local))
        world().barrier()
    return found


def assert_same(case: Case, got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape, case.text
        assert a.dtype == b.dtype, case.text
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        a, b = a.astype(wide), b.astype(wide)
        if "bf16" in case.text:  # a World rounds once, the reference after each step
            np.testing.assert_allclose(a, b, rtol=0.02, err_msg=case.text)
        else:
            np.testing.assert_array_equal(a, b, err_msg=case.text)


def test_random_collectives_on_threads() -> None:
    for case in cases(1, 150):
        plan = pickle.loads(pickle.dumps(plan_collective(case.op)))

        def run(device: Device, plan=plan, case=case) -> list[np.ndarray]:
            return run_plan(plan, case, device)

        found = run_on_threads(run, case.n_replicas, MESHES[case.n_replicas])
        for got, wanted in zip(found, expected(case), strict=True):
            assert_same(case, got, wanted)


@pytest.mark.parametrize(
    ("link", "count"), thorough([(None, 60), (None, 240), (LINK, 60)], (None, 60))
)
def test_random_collectives_on_pes(link: emu.Link | None, count: int) -> None:
    chosen = cases(2, count)
    work = [(plan_collective(case.op), case) for case in chosen]
    per_pe = emu.launch(run_in_world, N_PES, args=(work,), link=link)
    for number, case in enumerate(chosen):
        wanted = expected(case)
        for pe in range(N_PES):
            assert_same(case, per_pe[pe][number], wanted[pe])


def test_a_single_device_is_a_group_of_its_own() -> None:
    text = case_text(
        "all_reduce",
        "replica_groups = dense<0> : tensor<1x1xi64>",
        ["tensor<3xf32>"],
        ["tensor<3xf32>"],
        reduction("add", "f32"),
    )
    case = Case(text, 1, 0, False)
    (got,) = run_plan(plan_collective(case.op), case, SingleDevice())
    np.testing.assert_array_equal(got, case.inputs(0)[0])


def identities(n_replicas: int) -> list[int]:
    device = WorldDevice(world(), n_replicas, world().n_pes // n_replicas)
    found = []
    for name in ("partition_id", "replica_id"):
        text = case_text(name, "", [], ["tensor<ui32>"])
        out = np.zeros((), np.uint32)
        plan_collective(Case(text, 1, 0, False).op).run(device, [], [out])
        found.append(int(out))
    return found


def test_numbers_of_partitions_and_replicas() -> None:
    assert emu.launch(identities, 4, args=(2,)) == [[0, 0], [1, 0], [0, 1], [1, 1]]


def test_a_process_in_no_group_is_refused_with_its_place() -> None:
    text = case_text(
        "all_gather",
        "replica_groups = dense<1> : tensor<1x1xi64>, all_gather_dim = 0 : i64",
        ["tensor<3xf32>"],
        ["tensor<3xf32>"],
    )
    case = Case(text, 1, 0, False)
    with pytest.raises(EvaluationError, match=r"-:2:\d+: stablehlo.all_gather: process 0 is in 0"):
        run_plan(plan_collective(case.op), case, SingleDevice())


def test_an_all_to_all_whose_count_is_not_that_of_its_group_is_refused() -> None:
    text = case_text(
        "all_to_all",
        "replica_groups = dense<0> : tensor<1x1xi64>, split_dimension = 0 : i64, "
        "concat_dimension = 0 : i64, split_count = 2 : i64",
        ["tensor<4xf32>"],
        ["tensor<4xf32>"],
    )
    case = Case(text, 1, 0, False)
    with pytest.raises(EvaluationError, match="split_count is 2, but the group has 1"):
        run_plan(plan_collective(case.op), case, SingleDevice())


def test_an_operation_that_is_no_collective_is_refused() -> None:
    module = emu.sdy.parse("func.func @main() { return }")
    with pytest.raises(EvaluationError, match=r"func\.func is no collective"):
        plan_collective(module.body().first)


def test_a_sum_that_overflows_on_the_way_is_infinite_as_in_the_reference() -> None:
    groups = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids"
    t = ["tensor<8xf16>"]
    case = Case(case_text("all_reduce", groups, t, t, reduction("add", "f16")), 1, 0, False)
    found = emu.launch(overflowing, N_PES, args=(plan_collective(case.op),))
    np.testing.assert_array_equal(found, np.full((N_PES, 8), np.inf))


def overflowing(plan: CollectivePlan) -> np.ndarray:
    device = WorldDevice(world(), 1, N_PES)
    x = np.full(8, [60_000, 60_000, -60_000, -60_000][world().my_pe], np.float16)
    out = np.empty_like(x)
    plan.run(device, [x], [out])
    return out


def diverging(first: CollectivePlan, second: CollectivePlan) -> None:
    device = WorldDevice(world(), 1, world().n_pes)
    x = np.ones(8, np.float32)
    (first if world().my_pe else second).run(device, [x], [np.empty_like(x)])


def test_pes_that_call_different_collectives_hear_of_it() -> None:
    groups = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids"
    t = ["tensor<8xf32>"]
    plans = [
        plan_collective(
            Case(case_text("all_reduce", groups, t, t, reduction(op, "f32")), 1, 0, False).op
        )
        for op in ("add", "maximum")
    ]
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(diverging, 2, args=tuple(plans))
    assert caught.group_contains(CollectiveMismatchError)

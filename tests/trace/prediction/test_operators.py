"""Predicted time of operators of torch: their products as a library would do them, the rest by bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from emu.tile.counting.counts import Counts, DotCounts, TensorCounts
from emu.trace.events import Kind, Site
from emu.trace.prediction.counts import work_of_site
from emu.trace.prediction.devices.files import load_device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.kernels import kernel_time, occupancy_of
from emu.trace.prediction.operators import operator_time
from emu.trace.prediction.products import fastest_product
from emu.trace.prediction.work import Work
from emu.trace.reading import read_trace

H200 = load_device("h200")


def tensor(name: str, loaded: int, stored: int) -> TensorCounts:
    return TensorCounts(name, "bf16", loaded, stored, 0, None, None, None, 0, 0)


def counts(work, dots=(), tensors=(), operators=1, launches=1) -> Counts:
    return Counts(
        "op", "a.py", 1, launches, 0, operators, work, tuple(dots), tuple(tensors), {}, None, ()
    )


def work_of(found: Counts) -> Work:
    work = work_of_site(Site("op", details={"counts": found.to_json()}))
    assert work is not None
    return work


def product(m: int, n: int, k: int, times: int = 1) -> Counts:
    size = 2 * (m * k + k * n + m * n) * times
    dot = DotCounts(1, m, n, k, "bf16", "bf16", "f32", times)
    return counts(
        {"dot": {"bf16": 2 * m * n * k * times}}, [dot], [tensor("self", size, 0)], times, times
    )


def test_a_product_is_the_librarys() -> None:
    time = operator_time(work_of(product(4096, 4096, 4096)), H200)
    wanted = fastest_product(4096, 4096, 4096, "bf16", H200)
    assert time.execution == wanted.execution
    assert time.seconds == wanted.seconds
    assert (time.bound, time.unit) == ("compute", "dot bf16")
    many = operator_time(work_of(product(4096, 4096, 4096, times=3)), H200)
    assert many.execution == pytest.approx(time.execution)  # of one call


def test_what_moves_bytes_takes_the_time_of_memory() -> None:
    size = 1 << 30
    found = counts(
        {"vector": {"bf16": size // 2}}, (), [tensor("self", size, 0), tensor("result", 0, size)]
    )
    time = operator_time(work_of(found), H200)
    assert time.execution == pytest.approx(
        2 * size / (H200["hbm"] * H200["efficiency.hbm"]), rel=0.05
    )
    assert (time.bound, time.unit) == ("memory", "hbm")


def test_parts_take_their_time_one_after_the_other() -> None:
    one, other = product(2048, 2048, 2048), product(4096, 1024, 512)
    size = 1 << 26
    both = counts(
        {"dot": {"bf16": one.flops + other.flops}},
        (*one.dots, *other.dots),
        [tensor("self", one.loaded + other.loaded + size, size)],
        operators=4,
    )
    rest = counts({}, (), [tensor("self", size, size)], operators=2)
    times = [operator_time(work_of(c), H200).execution for c in (both, one, other, rest)]
    assert times[0] == pytest.approx(sum(times[1:]))


def test_a_view_that_was_counted_takes_the_start_of_a_kernel() -> None:
    time = operator_time(work_of(counts({})), H200)
    assert 0 < time.execution < 1e-5
    assert time.bound == "launch"


@pytest.mark.parametrize("wrong", [{"operations": -1}, {"launches": 0}, {"dots": [{"m": 1}]}])
def test_counts_that_are_none_are_refused(wrong) -> None:
    found = product(8, 8, 8).to_json() | wrong
    with pytest.raises(PredictionError, match="the counts of 'op' are none"):
        work_of_site(Site("op", details={"counts": found}))


SCRIPT = """
import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + o, 2 * tl.load(x + o, mask=o < n), mask=o < n)


a = torch.ones(64, 32, device="cuda", requires_grad=True)
b = torch.ones(32, 16, device="cuda")
torch.softmax(a @ b, 1).sum().backward()
x = np.ones(100, np.float32)
for warps in (1, 8):
    double[(1,)](x, 100, B=128, num_warps=warps)
"""


@pytest.mark.slow  # it loads torch and compilers in processes of its own
@pytest.mark.timeout(900)
def test_a_recorded_run_has_counts_of_operators_and_warps_of_launches(tmp_path: Path) -> None:
    script, trace = tmp_path / "script.py", tmp_path / "run.emutrace"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "emu", "run", "-n", "1", "--count", "--trace", str(trace)]
    subprocess.run([*command, str(script)], check=True, capture_output=True, timeout=400)
    sites = read_trace(trace).sites[0]
    known = {s.name: s.details["counts"] for s in sites if s.details and "counts" in s.details}
    assert {"matmul", "softmax", "sum", "backward", "double"} <= set(known)
    assert known["matmul"]["work"] == {"dot": {"f32": 2 * 64 * 32 * 16}}
    assert known["backward"]["work"]["dot"] == {"f32": 2 * 64 * 32 * 16}
    launches = [s for s in sites if s.name == "double" and s.details]
    assert sorted(s.details["num_warps"] for s in launches) == [1, 8]
    works = {s.details["num_warps"]: work_of_site(s) for s in launches}
    assert occupancy_of(works[1], H200) > occupancy_of(works[8], H200)
    command = [sys.executable, "-m", "emu", "predict", str(trace), "--device", "h200", "--json"]
    told = subprocess.run(command, check=True, capture_output=True, timeout=400, text=True)
    rows = {row["name"]: row for row in json.loads(told.stdout)["rows"]}
    assert all(rows[name]["counted"] for name in ("matmul", "softmax", "backward", "double"))
    assert Kind[rows["backward"]["kind"]] is Kind.OP
    assert kernel_time(works[1], H200).seconds > 0

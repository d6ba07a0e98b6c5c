"""Programs of PyPTO and MC2 that are run, counted and predicted on a device of round numbers; times are computed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emu.commands.main import main
from emu.trace.prediction.devices.keys import KEYS

NUMBERS = {
    "sms": 1,
    "occupancy.most": 1,
    "dot.f16": 1e12,
    "dot.bf16": 1e12,
    "vector.f32": 1e12,
    "special": 1e12,
    "hbm": 1e12,
    "hbm_size": 1e12,
    "l2": 1e18,
    "l2_size": 0,
    **{f"efficiency.{what}": 1 for what in ("dot", "vector", "special", "hbm", "l2")},
    "launch.latency": 2e-6,
    "launch.issue": 1e-6,
    "program.start": 0.0,
    "link.bandwidth": 1e10,
    "link.pair": 1e10,
    "link.latency": 3e-6,
}
PRODUCT = 2 * 128 * 256 * 64 / 1e12
"""Seconds of [128, 64] @ [64, 256]: one tile, bound by the matrix unit."""

PUT = 256 * 256 * 4
COPY = 2 * PUT / 1e12
"""Seconds in which a device copies that, or reads it and writes something of the same size."""


@pytest.fixture
def device(tmp_path: Path) -> str:
    """Return the file of a device whose numbers are round."""
    lines = ['name = "round"']
    for key, value in NUMBERS.items():
        lines += [f"[{key}]", f"value = {value!r}", f'unit = "{KEYS[key].unit or "1"}"']
        lines += ['source = "a test"', 'date = "2026-11-29"', "calibrated = false"]
        lines += ['density = "dense"'] if key.startswith("dot.") else []
    path = tmp_path / "round.toml"
    path.write_text("\n".join(lines))
    return str(path)


def predicted(
    program: str, tmp_path: Path, device: str, capfd: Any, n_pes: int = 1
) -> dict[str, Any]:
    """Run a program with counts and return its prediction as ``--json`` has it."""
    script, trace = tmp_path / "program.py", tmp_path / "run.emutrace"
    script.write_text(program)
    assert main(["run", "-n", str(n_pes), "--count", "--trace", str(trace), str(script)]) == 0
    capfd.readouterr()
    assert main(["predict", str(trace), "--device", device, "--json"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    found["rows"] = {row["name"]: row for row in found["rows"]}
    return found


SINGLE = """
import ml_dtypes
import numpy as np
from emu import pypto

def tensor(*shape, dtype=np.float32):
    return pypto.from_numpy(np.ones(shape, dtype))

half = ml_dtypes.bfloat16
"""


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_product_takes_the_time_of_the_matrix_unit_and_an_addition_that_of_memory(
    backend, tmp_path, device, capfd, monkeypatch
) -> None:
    monkeypatch.setenv("EMU_PYPTO_BACKEND", backend)
    program = """
pypto.matmul(tensor(128, 64, dtype=half), tensor(64, 256, dtype=half))
pypto.matmul(tensor(128, 64, dtype=half), tensor(64, 256, dtype=half))
a, b = tensor(512, 256), tensor(512, 256)
c = a + b; d = tensor(1024, 256) + 1.0
"""
    found = predicted(SINGLE + program, tmp_path, device, capfd)
    product, addition = found["rows"]["matmul"], found["rows"]["add"]
    assert (product["bound"], product["unit"], product["count"]) == ("compute", "dot bf16", 2)
    assert product["predicted"] == pytest.approx(2 * PRODUCT, abs=1e-9)
    assert product["flops"] == 2 * 2 * 128 * 256 * 64
    # Two additions of one line: three times 512 KiB, and twice 1 MiB.
    moved = 3 * 4 * 512 * 256 + 2 * 4 * 1024 * 256
    assert (addition["bound"], addition["count"], addition["nbytes"]) == ("memory", 2, moved)
    assert addition["predicted"] == pytest.approx(moved / 1e12, abs=2e-9)
    # Four launches, of which each but the first was under way when the one before had ended.
    total = 2e-6 + 2 * PRODUCT + moved / 1e12
    assert found["seconds"] == pytest.approx(total, abs=4e-9)
    assert all(row["counted"] for row in found["rows"].values())


def test_a_kernel_is_launched_once_and_chains_follow_each_other(tmp_path, device, capfd) -> None:
    program = """
@pypto.frontend.jit
def layer(x, w, out):
    hidden = pypto.matmul(x, w, pypto.DT_FP32)
    out[:] = hidden * pypto.sigmoid(hidden)

for _ in range(2):
    layer(np.ones((128, 64), half), np.ones((64, 256), half), np.zeros((128, 256), np.float32))
"""
    found = predicted(SINGLE + program, tmp_path, device, capfd)
    (row,) = found["rows"].values()
    chain = 2 * 4 * 128 * 256 / 1e12  # loads the product, stores the result; sigmoid's stays inside
    assert row["count"] == 2
    assert row["predicted"] == pytest.approx(2 * (PRODUCT + chain), abs=4e-9)
    assert found["seconds"] == pytest.approx(2e-6 + 2 * (PRODUCT + chain), abs=4e-9)
    assert (row["bound"], row["unit"]) == ("compute", "dot bf16")


PAIR = """
import emu
dist = pypto.distributed
data = dist.create_shmem_tensor("tp", 2, pypto.DT_FP32, [256, 256])
pypto.set_vec_tile_shapes(256, 256)
view = dist.shmem_view(data, [256, 256], [0, 0])
source = tensor(256, 256)
a, b = tensor(128, 64, dtype=half), tensor(64, 256, dtype=half)
if emu.world().my_pe == 0:
    stored = dist.shmem_put(source, [0, 0], view, 1)
    dist.shmem_signal(view, 0, 1, target_pe=1, pred=[stored])
else:
    for _ in range({products}):
        product = pypto.matmul(a, b)
    arrived = dist.shmem_wait_until(view, 0, 1)
    total = dist.shmem_get(view, 1, pred=[arrived]) + 1.0
    assert (total.numpy() == 2).all()
"""


@pytest.mark.parametrize("products", [2, 12])
def test_a_message_travels_while_the_other_pe_multiplies(products, tmp_path, device, capfd) -> None:
    found = predicted(SINGLE + PAIR.format(products=products), tmp_path, device, capfd, 2)
    arrival = PUT / 1e10 + 3e-6
    multiplied = 2e-6 + products * PRODUCT
    assert (arrival > multiplied) == (products == 2)
    # What comes late is waited for; then a copy, and an addition whose launch nothing hides.
    end = max(arrival, multiplied) + COPY + 2e-6 + COPY
    first, second = found["pes"]
    assert first["total"] == pytest.approx(PUT / 1e10, abs=2e-9)
    assert second["total"] == pytest.approx(end, abs=(products + 4) * 1e-9)
    assert second["wait"] == pytest.approx(max(0, arrival - multiplied), abs=products * 1e-9)


MC2 = """
import ml_dtypes
import numpy as np
import emu
from emu import mc2

half = ml_dtypes.bfloat16
x = np.ones((256, 64), half)
mc2.matmul_all_reduce(x, np.ones((64, 256), half), comm_turn=2)
rows = np.ones((128, 64), half)
weight = np.ones((1, 64, 256), half)
counts = np.array([64, 64])
result = mc2.alltoallv_gmm(rows, weight, counts, counts, mm_x=rows, mm_weight=weight[0])
"""


def test_products_of_mc2_are_priced_turn_by_turn(tmp_path, device, capfd) -> None:
    found = predicted(MC2, tmp_path, device, capfd, 2)
    rows = found["rows"]
    partial = rows["partial products"]
    assert (partial["bound"], partial["unit"], partial["counted"]) == ("compute", "dot bf16", True)
    assert partial["count"] == 2 * 2
    assert partial["predicted"] == pytest.approx(4 * PRODUCT, abs=4e-9)
    shared = rows["product of the shared expert"]
    assert (shared["count"], shared["flops"]) == (2, 2 * 2 * 128 * 64 * 256)
    assert shared["predicted"] == pytest.approx(2 * PRODUCT, abs=4e-9)
    experts = [row for name, row in rows.items() if name.endswith("rows of experts")]
    # 128 rows of each PE's expert, as one product or as two tiles of which each is filled by half.
    assert sum(row["flops"] for row in experts) == 2 * 2 * 128 * 64 * 256
    assert all(row["counted"] for row in experts)
    assert "packing of x2" not in rows
    assert not any("no counts" in note for note in found["notes"])

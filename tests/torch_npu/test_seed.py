"""The sample of npu_quant_scatter_'s page, with nothing changed but its line breaks, runs."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).parent / "seed_quant_scatter.py"

KEEP = """
import runpy, sys
import numpy as np
sample, kept = sys.argv[1:]
after = runpy.run_path(sample, run_name="__main__")
import torch
bits = {
    name: after[name].cpu().view(torch.int16).numpy()
    for name in ("updates", "quant_scales", "quant_zero_points")
}
np.savez(kept, var=after["var"].cpu().numpy(), data_var=after["data_var"],
         indices=after["indices"].cpu().numpy(), **bits)
"""


def emu_run(folder, *arguments):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "emu", "run", "-n", "1", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        capture_output=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # With an empty cache it says that it compiles.
    said = [line for line in done.stderr.splitlines() if not line.startswith("emu: compiling")]
    assert said == []
    assert done.stdout == ""


def test_the_sample_runs_unmodified(tmp_path):
    emu_run(tmp_path, SAMPLE)


def test_the_sample_leaves_the_bits_of_the_formula(tmp_path):
    keep = tmp_path / "keep.py"
    keep.write_text(KEEP)
    emu_run(tmp_path, keep, SAMPLE, tmp_path / "kept.npz")
    kept = np.load(tmp_path / "kept.npz")
    updates, scales, zero_points = (
        kept[name].view(ml_dtypes.bfloat16).astype(np.float32)
        for name in ("updates", "quant_scales", "quant_zero_points")
    )
    with np.errstate(divide="ignore"):  # one scale in sixteen thousand or so is drawn as 0
        rounded = np.rint(updates / scales + zero_points)
    expected = np.zeros((24, 4096, 128), np.int8)
    for row, index in enumerate(kept["indices"]):
        expected[row, index : index + 1] = np.clip(rounded[row], -128, 127).astype(np.int8)
    assert kept["var"].dtype == np.int8
    assert expected.any()
    np.testing.assert_array_equal(kept["var"], expected)
    assert not kept["data_var"].any()  # the device has memory of its own

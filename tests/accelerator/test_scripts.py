"""Whole training scripts under `emu run`; they check themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-P", "-m", "emu", "run", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["language_model", "image_classifier"])
@pytest.mark.parametrize("check", [(), ("--check", "streams")], ids=["as it is", "streams"])
def test_a_script_for_several_gpus_runs(name: str, check: tuple[str, ...], tmp_path: Path) -> None:
    script = SCRIPTS / f"{name}.py"
    done = run("-n", 2, "--no-prefix", *check, script, tmp_path / "checkpoint.pt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["done"] * 2


USES_THE_STORE = """
import glob, os, tempfile
from datetime import timedelta
import torch, torch.distributed as dist

dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["RANK"])))
rank, n = dist.get_rank(), dist.get_world_size()
store = dist.PrefixStore("mine", dist.distributed_c10d._get_default_store())
for _ in range(20):
    store.add("count", 1)
if rank == 0:
    store.set("large", bytes(range(256)) * 1000)
assert store.get("large") == bytes(range(256)) * 1000
dist.barrier()
assert store.add("count", 0) == 20 * n
assert store.check(["large", "count"]) and not store.check(["absent"])
dist.barrier()
if rank == 1:
    assert store.delete_key("large") and not store.delete_key("large")
dist.barrier()
assert not store.check(["large"])
assert store.compare_set("new", "", "a") == b"a"
assert store.compare_set("new", "b", "c") == b"a"
assert store.compare_set("absent", "b", "c") == b"b"
dist.barrier()
assert store.compare_set("new", "a", "d") == b"d" or rank
try:
    store.wait(["never"], timedelta(seconds=0.1))
except dist.DistStoreError as error:
    assert "never" in str(error)
else:
    raise AssertionError
gloo = dist.new_group(list(range(n)), backend="gloo")
x = torch.ones(3)
dist.all_reduce(x, group=gloo)
assert x.tolist() == [n] * 3
assert os.listdir(tempfile.gettempdir()) == ["script.py"], os.listdir(tempfile.gettempdir())
print("done")
"""


@pytest.mark.slow
def test_the_store_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(USES_THE_STORE)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = run("-n", 3, "--no-prefix", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["done"] * 3

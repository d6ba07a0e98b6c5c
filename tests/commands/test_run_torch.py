"""`emu run`: torch has emulated devices wherever a script or a process below it imports torch."""

import ast
import os
import re
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

with_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

SEEN = """
import os, torch
print(torch.ones(2, device="npu:0").device, torch.ones(2).cuda().device, os.environ["RANK"])
"""
AS_SEEN = "npu:0 cuda:0 0"


def output(command, script, *options, n_pes=1):
    done = command("run", "-n", n_pes, "--no-prefix", *options, command.script(script))
    assert done.returncode == 0, done.stderr
    # The first of all programs on this machine is told why it waits.
    assert [line for line in done.stderr.splitlines() if "emu: compiling" not in line] == []
    return done.stdout.splitlines()


# --- the environment ------------------------------------------------------------------------


NAMES = [
    "RANK",
    "LOCAL_RANK",
    "ROLE_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "ROLE_WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "EMU_DEVICES",
    "TORCHINDUCTOR_COMPILE_THREADS",
]

PRINT_ENVIRONMENT = f"import os\nprint({{name: os.environ[name] for name in {NAMES}}})\n"


def environments(command, *options, n_pes=2):
    lines = output(command, PRINT_ENVIRONMENT, *options, n_pes=n_pes)
    return sorted(map(ast.literal_eval, lines), key=lambda found: int(found["RANK"]))


def test_a_pe_has_the_environment_that_torchrun_gives(command):
    found = environments(command)
    for rank, environment in enumerate(found):
        for name in ("RANK", "LOCAL_RANK", "ROLE_RANK"):
            assert environment[name] == str(rank)
        for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE", "EMU_DEVICES"):
            assert environment[name] == "2"
        assert environment["GROUP_RANK"] == "0"
        assert environment["GROUP_WORLD_SIZE"] == "1"
        assert environment["MASTER_ADDR"] == "127.0.0.1"
        assert 1024 <= int(environment["MASTER_PORT"]) < 65536
        assert environment["TORCHELASTIC_USE_AGENT_STORE"] == "False"
        assert (
            int(environment["TORCHINDUCTOR_COMPILE_THREADS"]) != 2
        )  # workers of their own pay or are none
    for name in ("MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        assert found[0][name] == found[1][name]


def test_pes_are_divided_among_nodes(command):
    found = environments(command, "--ranks-per-node", "2", n_pes=4)
    names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")
    assert [tuple(int(each[name]) for name in names) for each in found] == [
        (0, 0, 0, 2, 2),
        (1, 1, 0, 2, 2),
        (2, 0, 1, 2, 2),
        (3, 1, 1, 2, 2),
    ]
    path = command.script("pass\n")
    done = command("run", "-n", "4", "--ranks-per-node", "3", path)
    assert done.returncode == 2
    assert "ranks_per_node must be a divisor of the number of PEs, 4, but got 3" in done.stderr
    command.environment["EMU_RANKS_PER_NODE"] = "two"
    done = command("run", "-n", "4", path)
    assert done.returncode == 2
    assert "EMU_RANKS_PER_NODE must be a whole number" in done.stderr


def test_processes_of_a_script_get_the_options_of_the_launch(command):
    script = (
        "import os\nprint([os.environ.get(n) for n in ('EMU_LINK', 'EMU_TIMEOUT', 'EMU_POISON')])\n"
    )
    options = ("--link", "25GB/s,2us", "--timeout", "7", "--poison")
    assert output(command, script, *options, n_pes=1) == ["['25000000000.0B/s,2e-06s', '7.0', '1']"]
    assert output(command, script, n_pes=1) == ["[None, None, None]"]


@pytest.mark.slow
def test_another_launchs_environment_is_replaced_and_the_users_choices_are_kept(command):
    command.environment |= {
        "RANK": "7",
        "LOCAL_RANK": "7",
        "WORLD_SIZE": "64",
        "MASTER_ADDR": "elsewhere",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "MASTER_PORT": "29555",
        "EMU_DEVICES": "5",
        "TORCHINDUCTOR_COMPILE_THREADS": "2",
    }
    (found,) = environments(command, n_pes=1)
    assert found["RANK"] == found["LOCAL_RANK"] == "0"
    assert found["WORLD_SIZE"] == "1"
    assert found["MASTER_ADDR"] == "127.0.0.1"
    assert found["TORCHELASTIC_USE_AGENT_STORE"] == "False"
    assert found["MASTER_PORT"] == "29555"
    assert found["EMU_DEVICES"] == "5"
    assert found["TORCHINDUCTOR_COMPILE_THREADS"] == "2"


def test_the_option_gives_the_number_of_devices(command):
    command.environment["EMU_DEVICES"] = "5"
    found = environments(command, "--devices", 3)
    assert [environment["EMU_DEVICES"] for environment in found] == ["3", "3"]


@pytest.mark.parametrize("text", ["0", "-1", "two", ""])
def test_a_wrong_number_of_devices_is_a_usage_error(command, text):
    script = command.script("pass\n")
    done = command("run", "--devices", text, script)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: emu")
    command.environment["EMU_DEVICES"] = text
    done = command("run", script)
    assert done.returncode == 2
    assert done.stderr == (
        f"emu: EMU_DEVICES must be a whole number of at least 1, but got {text!r}\n"
    )


def test_the_option_names_the_gpu_that_devices_answer_as(command):
    command.environment["EMU_DEVICE_MODEL"] = "t4"
    script = "import os\nprint(os.environ['EMU_DEVICE_MODEL'])\n"
    assert output(command, script, "--device-model", "A100", n_pes=1) == ["a100"]
    assert output(command, script, n_pes=1) == ["t4"]
    path = command.script("pass\n")
    done = command("run", "--device-model", "a1000", path)
    assert done.returncode == 2
    assert "--device-model: must be one of v100, " in done.stderr
    command.environment["EMU_DEVICE_MODEL"] = "a1000"
    done = command("run", "-n", "1", path)
    assert done.returncode == 2
    assert done.stderr.startswith("emu: EMU_DEVICE_MODEL must be one of v100, ")


# --- processes ------------------------------------------------------------------------------


def test_a_script_that_does_not_import_torch_does_not_load_it(command):
    script = (
        "import sys, subprocess, numpy\n"
        'code = \'import sys; print([m for m in ("torch", "numpy", "emu") if m in sys.modules])\'\n'
        "print('torch' in sys.modules, 'emu.accelerator' in sys.modules, flush=True)\n"
        "subprocess.run([sys.executable, '-c', code], check=True)\n"
    )
    assert output(command, script) == ["False False", "[]"]


@with_torch
@pytest.mark.parametrize(
    ("statement", "once"),
    [("import sys, torch", True), ("import sys\ntorch = __import__('torch')", False)],
    ids=["loaded once for all PEs", "loaded by the PE"],
)
def test_importing_torch_is_enough_and_gives_the_real_torch(command, statement, once):
    script = f"""
import importlib.util, sys
print("torch" in sys.modules)
before = importlib.util.find_spec("torch")
{statement}
spec = importlib.util.find_spec("torch")
assert spec is torch.__spec__
assert spec.origin == before.origin
assert type(torch.__loader__) is type(importlib.__loader__)
print(torch.__file__)
print(torch.ones(2, device="npu:0").device, torch.ones(2).cuda().device)
"""
    assert output(command, script) == [str(once), find_spec("torch").origin, "npu:0 cuda:0"]


@with_torch
@pytest.mark.slow
def test_children_of_every_kind_see_the_devices(command):
    script = f"""
import multiprocessing, subprocess, sys

def show(*_):
    exec({SEEN!r})

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        child = multiprocessing.get_context(method).Process(target=show)
        child.start()
        child.join()
        assert child.exitcode == 0, method
    import torch.multiprocessing
    torch.multiprocessing.spawn(show, nprocs=1)
    subprocess.run([sys.executable, "-P", "-c", {SEEN!r}], check=True, cwd="/")
"""
    assert output(command, script) == [AS_SEEN] * 5


@pytest.mark.slow
@with_torch
def test_children_forked_after_the_import_see_the_devices(command):
    script = f"""
import multiprocessing, torch
torch.ones(2).cuda()

def show():
    exec({SEEN!r})

child = multiprocessing.get_context("fork").Process(target=show)
child.start()
child.join()
"""
    assert output(command, script) == [AS_SEEN]


@pytest.mark.slow
def test_a_sitecustomize_of_the_users_still_runs_in_children(command):
    folder = command.folder / "own"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys; sys.customised = __file__\n")
    command.environment["PYTHONPATH"] += os.pathsep + str(folder)
    script = (
        "import subprocess, sys\n"
        "code = 'import sys, sitecustomize; print(sys.customised == sitecustomize.__file__)'\n"
        "subprocess.run([sys.executable, '-P', '-c', code], check=True)\n"
    )
    assert output(command, script) == ["True"]


@pytest.mark.slow
def test_a_child_finds_emu_without_being_told_where(command):
    script = (
        "import subprocess, sys, os, emu\n"
        "del os.environ['PYTHONSAFEPATH']\n"
        "print(emu.__file__, flush=True)\n"
        "shims, _, _ = os.environ['PYTHONPATH'].partition(os.pathsep)\n"
        "subprocess.run([sys.executable, '-c', 'import emu.comm.errors; print(emu.__file__)'],\n"
        "               check=True, cwd='/', env={**os.environ, 'PYTHONPATH': shims})\n"
    )
    command.environment["PYTHONSAFEPATH"] = "1"
    mine, childs = output(command, script)
    assert mine == childs


@pytest.mark.slow
def test_a_file_of_the_scripts_may_be_called_torch(command):
    (command.folder / "torch.py").write_text("WORD = 'mine'\n")
    assert output(command, "import torch; print(torch.WORD)\n") == ["mine"]


@pytest.mark.slow
def test_an_error_while_torch_is_imported_is_the_scripts(command):
    (command.folder / "torch.py").write_text("import absent_part\n")
    script = command.script(
        "try:\n    import torch_npu\nexcept ModuleNotFoundError as e: print(e)\n"
    )
    done = command("run", "-n", 1, "--no-prefix", script)
    assert done.stdout == "No module named 'absent_part'\n", done.stderr


# --- torch_npu ------------------------------------------------------------------------------


@with_torch
def test_torch_npu_is_the_operators_with_the_devices(command):
    script = """
import torch_npu
import sys
torch = sys.modules["torch"]
import emu.torch_npu
from torch_npu.npu import current_device, set_device
from torch_npu.contrib import transfer_to_npu
import torch_npu.contrib.transfer_to_npu
assert torch_npu is emu.torch_npu
assert torch_npu.npu is torch.npu
assert set_device is torch.npu.set_device
assert torch_npu.__version__.split("+")[0] == torch.__version__.split("+")[0]
set_device(1)
print(current_device(), torch.ones(1).npu().device, torch.ones(1).cuda().device)
"""
    assert output(command, script, "--devices", 2) == ["1 npu:1 cuda:0"]


WITHOUT_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
"""


def test_without_torch_the_operators_take_numpy_arrays(command):
    script = (
        WITHOUT_TORCH
        + """
import numpy as np
torch_npu = __import__("torch_npu")  # an import statement would have torch loaded for all PEs
var = np.zeros((1, 4, 32), np.int8)
updates = np.full((1, 1, 32), 3.0, np.float16)
torch_npu.npu_quant_scatter_(
    var, np.array([2], np.int32), updates, np.ones(32, np.float32), axis=-2, quant_axis=-1
)
print(var[0, :, 0], hasattr(torch_npu, "npu"), torch_npu.__version__)
"""
    )
    assert output(command, script) == ["[0 0 3 0] False 0+emu"]


# --- torchrun -------------------------------------------------------------------------------


@with_torch
def test_a_script_for_torchrun_and_nccl_runs_on_pes(command):
    script = """
import os
import torch
import torch.distributed as dist

device = f"cuda:{os.environ['LOCAL_RANK']}"
torch.cuda.set_device(device)
dist.init_process_group("nccl")
values = torch.full((5,), 1.0 + dist.get_rank(), device=device)
dist.all_reduce(values)
print(dist.get_world_size(), values.device, torch.cuda.device_count(), values.tolist())
dist.barrier()
dist.destroy_process_group()
"""
    lines = output(command, script, n_pes=2)
    assert sorted(lines) == [f"2 cuda:{rank} 2 {[3.0] * 5}" for rank in range(2)]


@with_torch
def test_a_script_for_hccl_without_an_address_runs_on_pes(command):
    script = """
import os
import torch, torch_npu
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
gathered = [torch.zeros(1, dtype=torch.int32).npu() for _ in range(2)]
dist.all_gather(gathered, torch.tensor([rank + 4], dtype=torch.int32).npu())
print(gathered[1].device, torch.cat(gathered).tolist())
dist.destroy_process_group()
"""
    lines = output(command, script, n_pes=2)
    assert sorted(lines) == [f"npu:{rank} [4, 5]" for rank in range(2)]


# --- the order of streams ---------------------------------------------------------------------


RACE = """
import sys, torch
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    x = torch.ones(4, device="cuda")
{repair}
print((x + 1).sum().item())
print(sorted(n for n in sys.modules if "stream_" in n and n.startswith("emu.") and "symmetric" not in n))
"""


@with_torch
def test_streams_are_checked_if_asked_for(command):
    script = RACE.format(repair="")
    done = command("run", "--check", "bounds,streams", command.script(script))
    assert done.returncode == 1
    path = command.folder / "script.py"
    assert "emu: PE 0: StreamOrderError" in done.stderr
    assert f"{path}:5: ones writes on stream 1 of cuda:0\n    x = torch.ones(4" in done.stderr
    assert f"{path}:7: add reads on the default stream of cuda:0" in done.stderr
    repaired = RACE.format(repair="torch.cuda.current_stream().wait_stream(side)")
    assert output(command, repaired, "--check", "streams")[0] == "8.0"


@with_torch
def test_without_the_check_of_streams_nothing_of_it_is_loaded(command):
    assert output(command, RACE.format(repair=""), "--check", "bounds") == ["8.0", "[]"]


@with_torch
def test_the_report_in_the_manual_is_a_true_one(command):
    page = (Path(__file__).resolve().parents[2] / "docs/torch.md").read_text()
    (program,) = re.findall(r"^```python\n(# late.py\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    shown = re.search(r"ends with\n\n((?:    .*\n)+)", page)
    done = command("run", "-n", 1, "--no-prefix", "--check", "streams", command.script(program))
    assert done.returncode == 1
    printed = done.stderr.replace(f"{command.folder}/script.py", "late.py")
    assert textwrap.dedent(shown[1]) in printed

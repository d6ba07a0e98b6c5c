"""Programs of the front ends on two hosts, which are two processes of mpiexec here, beside the same programs on one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import front_programs
import pytest
from mpi_runs import MPIEXEC, mpiexec

from emu.trace.events import Kind
from emu.trace.reading import read_trace

pytest.importorskip("mpi4py")
pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
    pytest.mark.timeout(400),  # with an empty cache two launchers and four PEs compile
]
SAME = [program.__name__ for program in front_programs.PROGRAMS]
ALL = [*SAME, *(program.__name__ for program in front_programs.IN_A_HOST)]
OF_TORCH = [name for name in ALL if name.startswith(("nccl", "hccl", "torch", "nvshmem"))]
OTHERS = [name for name in ALL if name not in OF_TORCH]
Found = list[dict[str, Any]]


class Both:
    """What programs have found on each transport; they run when the first of their kind is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, Mapping[str, Any]] = {}
        self._started: set[str] = set()
        self.from_outside: Any = None

    def of(self, name: str) -> tuple[Any, Any]:
        """Return what a program has found over hosts, and on one."""
        if name not in self._found:
            self._run(OF_TORCH if name in OF_TORCH else OTHERS)
        found = self._found[name]
        return found["mpi"], found["shm"]

    def _run(self, names: list[str]) -> None:
        assert names[0] not in self._started, "they have failed before"
        self._started.add(names[0])
        folder = self._folder / names[0]
        folder.mkdir()
        run = mpiexec(front_programs.__file__, "4", *names, folder=folder)
        assert run.returncode == 0, run.stdout
        first, second = (json.loads(path.read_text()) for path in folder.iterdir())
        assert first == second  # each host gets the results of all
        mpi, outside = first
        self.from_outside = self.from_outside or outside
        shm = json.loads(json.dumps(front_programs.run_on(4, names, "shm")))
        for name in names:
            self._found[name] = {
                "mpi": [pe[name] for pe in mpi],
                "shm": [pe[name] for pe in shm],
            }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("fronts"))


@pytest.mark.parametrize("name", SAME)
def test_a_program_of_a_front_end_finds_the_same_bits_over_hosts(name: str, both: Both) -> None:
    mpi, shm = both.of(name)
    assert mpi == shm


def test_a_partitioned_program_that_starts_its_pes_is_compared_with_the_whole_one(
    both: Both,
) -> None:
    both.of("partitioned")
    assert both.from_outside == front_programs.from_outside("shm")


def test_what_maps_memory_of_others_runs_in_a_group_of_one_host(both: Both) -> None:
    mpi, shm = both.of("torch_symmetric_memory")
    what = "Symmetric memory of torch"
    for there, here in zip(mpi, shm, strict=True):
        assert there[0] == here[0]
        assert here[1] == "no error"
        assert there[1].startswith(f"HostsError: {what} needs all PEs on one host, but group 'w")


def test_kernels_dereference_pointers_to_their_own_host_only(both: Both) -> None:
    mpi, shm = both.of("kernels_of_a_host")
    for pe, (there, here) in enumerate(zip(mpi, shm, strict=True)):
        assert there[0] == here[0]
        assert here[1] == "no error"
        assert "pe must be on this PE's host, at least first_here and below end_here" in there[1]
        first = pe // 2 * 2
        other = (pe + 2) % 4
        assert (
            f"pe = {other}, first_here = {first}, end_here = {first + 2}, my_pe = {pe}" in there[1]
        )
        assert "front_kernels.py:" in there[1]  # and the line there


def test_nvshmem_gives_views_of_its_own_host_only(both: Both) -> None:
    mpi, shm = both.of("nvshmem_host")
    for pe, (there, here) in enumerate(zip(mpi, shm, strict=True)):
        assert there[0] == here[0]
        assert here[1] == ["no error", True, "no error"]
        tensor, has_address, buffer = there[1]
        assert not has_address
        for op, said in (("get_peer_tensor: peer_pe", tensor), ("get_peer_buffer: pe", buffer)):
            assert said.startswith(f"NvshmemInvalid: nvshmem.core.{op} must be on this host"), said
            assert f"PE {(pe + 2) % 4} is on host {1 - pe // 2}" in said


def test_each_pe_has_the_variables_of_torchrun_on_several_machines(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\nprint({n: v for n, v in os.environ.items()})\n")
    run = mpiexec("-m", "emu", "run", "--pes-per-node", "2", str(script))
    assert run.returncode == 0, run.stdout
    lines = sorted(line for line in run.stdout.splitlines() if line.startswith("["))
    pes = [eval(line.partition("] ")[2]) for line in lines]
    assert [pe["RANK"] for pe in pes] == ["0", "1", "2", "3"]
    assert [pe["LOCAL_RANK"] for pe in pes] == ["0", "1", "0", "1"]
    assert [pe["GROUP_RANK"] for pe in pes] == ["0", "0", "1", "1"]
    assert [pe["NODE_RANK"] for pe in pes] == ["0", "0", "1", "1"]
    for name, value in {
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_WORLD_SIZE": "2",
        "EMU_DEVICES": "2",
    }.items():
        assert {pe[name] for pe in pes} == {value}
    for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        assert len({pe[name] for pe in pes}) == 1, name
    assert not any(name.startswith(("PMI_", "OMPI_")) for name in pes[0])


PROGRAM = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x3xf32> {
  %0 = stablehlo.add %a, %a : tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
"""


TRACED = """
import numpy as np
import emu

world = emu.world()
a, flag = world.alloc(100, np.float32, name="a"), world.alloc(1, np.int64, poison=False)
right = (world.my_pe + 1) % world.n_pes
world.put_signal(a, np.ones(100, np.float32), right, flag, 1)
world.wait_until(flag, emu.Cmp.EQ, 1)
group = world.group(f"half {world.my_pe // 2}", [world.my_pe // 2 * 2, world.my_pe // 2 * 2 + 1])
group.all_reduce(a.local)
world.barrier()
if "fail" in __import__("sys").argv and world.my_pe == 3:
    raise ValueError("seven is too many")
world.barrier()
"""


def test_the_events_of_all_hosts_are_one_trace(tmp_path: Path) -> None:
    script, file = tmp_path / "script.py", tmp_path / "all.emutrace"
    script.write_text(TRACED)
    words = ("-m", "emu", "run", "--pes-per-node", "2", "--trace", str(file))
    run = mpiexec(*words, "--trace", str(tmp_path / "all.json"), str(script))
    assert run.returncode == 0, run.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "all.emutrace",
        "all.json",
        "script.py",
    ]
    trace = read_trace(file)
    assert (trace.n_pes, trace.status, trace.meta["pes_per_host"]) == (4, "ok", 2)
    barriers = []
    for pe in range(4):
        names = [trace.sites[pe][event["site"]].name for event in trace.events[pe]]
        wanted = ["put_signal", "wait_until", "all_reduce", "barrier"]
        assert [name for name in names if name in wanted] == [*wanted, "barrier"]
        put = trace.events[pe][names.index("put_signal")]
        assert (put["peer"], put["size"]) == ((pe + 1) % 4, 400)
        assert trace.sites[pe][put["site"]].file == str(script)
        barriers.append([e["flow"] for e in trace.events[pe][-4:] if e["kind"] == Kind.BARRIER])
    assert barriers[0]
    assert barriers == [barriers[0]] * 4  # a meeting has one number on all hosts
    events = json.loads((tmp_path / "all.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events if event.get("name") == "put_signal"} == {0, 1, 2, 3}


@pytest.mark.slow
def test_the_trace_of_a_run_that_fails_says_why(tmp_path: Path) -> None:
    script, file = tmp_path / "script.py", tmp_path / "all.emutrace"
    script.write_text(TRACED)
    words = ("-m", "emu", "run", "--pes-per-node", "2", "--trace", str(file), str(script), "fail")
    assert mpiexec(*words).returncode
    status = read_trace(file).status
    assert status is not None
    assert "PE 3 raised ValueError: seven is too many" in status


def test_a_trace_that_cannot_be_written_ends_all_hosts_before_they_start(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('never')")
    file = tmp_path / "nowhere" / "all.emutrace"
    run = mpiexec("-m", "emu", "run", "--pes-per-node", "2", "--trace", str(file), str(script))
    assert run.returncode
    assert "cannot be written" in run.stdout
    assert "never" not in run.stdout


COUNTED = """
import numpy as np
import emu

world = emu.world()
n, me = world.n_pes, world.my_pe
a, flag = world.alloc(100, np.float32), world.alloc(1, np.int64, poison=False)
world.put_signal(a, np.ones(100, np.float32), (me + 1) % n, flag, 1)
world.wait_until(flag, emu.Cmp.GE, 1)
world.get(a, (me + 2) % n)
world.fetch_add(flag, 1, 0)
for name, members in {"far": [me % 2, me % 2 + 2], "near": [me // 2 * 2, me // 2 * 2 + 1]}.items():
    pair = world.group(f"{name} {members}", members)
    b = pair.alloc(7, np.int16)
    pair.put(b, np.zeros(7, np.int16), 1 - pair.my_pe)
if "fail" in __import__("sys").argv and world.my_pe == 3:
    raise ValueError("seven is too many")
world.barrier()
"""


@pytest.mark.slow
def test_the_counts_of_all_hosts_are_those_of_one_host(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(COUNTED)
    over = mpiexec("-m", "emu", "run", "--pes-per-node", "2", "--count", str(script))
    assert over.returncode == 0, over.stdout
    one = mpiexec("-m", "emu", "run", "-n", "4", "--count", str(script), n=1)
    assert one.returncode == 0, one.stdout
    begin = "no kernel was launched"  # before it some host may say that it compiles
    tables = [run.stdout[run.stdout.index(begin) :] for run in (over, one)]
    assert "bytes          to PE 0" in tables[0]
    assert tables[0] == tables[1]
    failed = mpiexec("-m", "emu", "run", "--pes-per-node", "2", "--count", str(script), "fail")
    assert failed.returncode
    assert "bytes          to PE 0" in failed.stdout  # of each host what its own PEs have left


PREDICTED = """
import numpy as np
import emu

world = emu.world()
world.barrier()
for _ in range(3):
    world.all_reduce(np.ones(1 << 16, np.float32))
    world.put(world.alloc(4, np.float32, key="a"), np.ones(4, np.float32), (world.my_pe + 1) % 4)
"""


@pytest.mark.slow
def test_a_prediction_of_all_hosts_has_the_rows_of_one_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    script = tmp_path / "script.py"
    script.write_text(PREDICTED)
    rows = []
    for words, hosts in ((["--pes-per-node", "2"], 2), (["-n", "4"], 1)):
        run = mpiexec("-m", "emu", "run", *words, "--predict", "h200", str(script), n=hosts)
        assert run.returncode == 0, run.stdout
        lines = [line.split() for line in run.stdout.splitlines()]
        table = {line[0]: line[2:5] for line in lines if line[1:2] in (["(collective)"], ["(put)"])}
        assert table["all_reduce"][0] == table["put"][0] == "12"
        rows.append(table)
        assert run.stdout.count("NVIDIA H200") == 2  # the table and its note, once
    assert rows[0] == rows[1]


HANG = """
import emu
import pypto

@pypto.frontend.jit
def waits(n_pes):
    flags = pypto.distributed.create_shmem_signal("all", n_pes)
    if emu.world().my_pe == 1:
        pypto.distributed.shmem_wait_until(flags, 2, 1)

waits(emu.world().n_pes)
emu.world().barrier()
"""


@pytest.mark.slow
def test_a_report_of_pypto_says_that_it_knows_its_own_host(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(HANG)
    run = mpiexec("-m", "emu", "run", "--pes-per-node", "2", "--timeout", "3", str(script))
    assert run.returncode
    assert "no PE has signalled these slots on any PE of this host" in run.stdout


@pytest.mark.slow
def test_the_command_for_sharded_programs_runs_over_hosts(tmp_path: Path) -> None:
    program, output = tmp_path / "program.mlir", tmp_path / "out.npz"
    program.write_text(PROGRAM)
    words = ("-m", "emu", "sdy", "run", str(program))
    run = mpiexec(*words, "--transport", "mpi", "--check", "outputs", "--output", str(output))
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("@main on 4 PEs (x=4)") == 1  # the first host tells
    assert output.exists()
    run = mpiexec(*words)
    assert run.returncode
    assert "--transport must be mpi where mpiexec or srun has started this command 2" in run.stdout


SCRIPT = """
import os, sys
from pathlib import Path

import emu

def number():
    return emu.world().my_pe

def fails():
    if emu.world().my_pe == 3:
        raise ValueError("seven is too many")
    emu.world().barrier()

def told(*args, **fields):
    try:
        return emu.launch(*args, **{"transport": "mpi", **fields})
    except Exception as error:
        return f"{type(error).__name__}: {error}"

if __name__ == "__main__":
    found = [told(number, 4), told(number, 5), told(fails, 4), told(number, 2)]
    found += [told(number, 4, link=emu.Link(bandwidth=1e9)), told(number, 4, transport="tcp")]
    found += [told(number, 4, stdin=1), told(lambda: 1, 0), told(7, 4)]
    Path(sys.argv[1], f"told.{os.getpid()}").write_text("\\n".join(map(str, found)))
"""


def test_a_process_launches_again_and_again_over_hosts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = mpiexec(str(script), str(tmp_path))
    assert run.returncode == 0, run.stdout
    tellings = [file.read_text() for file in tmp_path.glob("told.*")]
    assert len(tellings) == 2, run.stdout
    for telling in tellings:
        assert telling.startswith("[0, 1, 2, 3]\n")
        assert "n_pes must be a multiple of the number of hosts, 2, with transport='mpi'" in telling
        assert "\n[0, 1]\n" in telling  # another launch, after one that has failed
        for refused in ("link must be None", "stdin must be 'none'"):
            assert f"HostsError: {refused} in a World over several hosts" in telling
        assert "transport must be 'shm' or 'mpi', but got 'tcp'" in telling
        assert "ArgumentError: n_pes must be an integer in [1, 1024], but got 0" in telling
        assert "ArgumentError: fn must be callable, but got 7" in telling
    assert any("stopped by host 1" in telling for telling in tellings)
    assert any("1 of 4 PEs failed (PE 3)" in telling for telling in tellings)


def test_without_hosts_to_share_them_a_launch_over_hosts_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = mpiexec(str(script), str(tmp_path), n=1)
    assert run.returncode == 0, run.stdout
    (telling,) = (file.read_text() for file in tmp_path.glob("told.*"))
    assert telling.count("must be started by mpiexec (or srun) on at least 2") >= 2

"""The begin and the end of NVSHMEM, its names, and its teams."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from emulated_devices import refused
from nvshmem_start import start

import emu
import emu.accelerator

pytest.importorskip("torch")
ROOT = Path(__file__).parents[3]


class Communicator:
    """What NVSHMEM asks of a communicator of mpi4py."""

    def __init__(self, rank: Any, size: Any) -> None:
        self._rank, self._size = rank, size

    def Get_rank(self) -> Any:
        return self._rank

    def Get_size(self) -> Any:
        return self._size


def run_once_and_again() -> None:
    emu.accelerator.install()
    import nvshmem.core as nv
    import torch

    world = emu.world()
    me, n = world.my_pe, world.n_pes
    assert nv.init_status() == nv.InitStatus.STATUS_NOT_INITIALIZED
    refused(nv.my_pe, nv.NvshmemError, r"my_pe: nvshmem.core.init\(\) must be called before")
    uid = nv.get_unique_id(empty=me != 0)
    uid._data.view(np.int8)[:] = world.broadcast(uid._data.view(np.int8), 0)
    device = SimpleNamespace(device_id=me)
    nv.init(device=device, uid=uid, rank=me, nranks=n, initializer_method="uid")
    assert nv.init_status() == nv.InitStatus.STATUS_IS_INITIALIZED
    assert (nv.my_pe(), nv.n_pes()) == (me, n)
    assert nv.utils._get_device() == (device, None)
    kept = nv.tensor(3)
    assert kept.device == torch.device("cuda", me)
    nv.init(mpi_comm=Communicator(me, n), initializer_method="emulated_mpi")  # it counts
    nv.finalize()
    kept.fill_(1)
    nv.put(kept, kept, me)
    nv.finalize()
    assert nv.init_status() == nv.InitStatus.STATUS_IS_BOOTSTRAPPED
    refused(lambda: nv.put(kept, kept, 0), nv.NvshmemError, r"finalize\(\) was called since")
    refused(nv.finalize, nv.NvshmemError, r"finalize\(\) was called since")
    nv.init(initializer_method="mpi")
    refused(lambda: nv.put(kept, kept, 0), nv.NvshmemInvalid, "dst must be in memory that was not")
    nv.finalize()


def run_wrong_arguments() -> None:
    emu.accelerator.install()
    import nvshmem.core as nv

    me, n = emu.world().my_pe, emu.world().n_pes
    uid = nv.get_unique_id()
    for given, text in (
        ({}, "initializer_method must be one of 'mpi', 'uid', 'emulated_mpi', but got ''"),
        ({"initializer_method": "pmi"}, "but got 'pmi'"),
        ({"initializer_method": "uid", "rank": me, "nranks": n}, "uid must be one of get_unique"),
        (
            {
                "initializer_method": "uid",
                "rank": me,
                "nranks": n,
                "uid": nv.get_unique_id(empty=True),
            },
            "got an empty one",
        ),
        ({"initializer_method": "uid", "uid": uid, "rank": me}, "nranks must be given"),
        (
            {"initializer_method": "uid", "uid": uid, "rank": me + 1, "nranks": n},
            f"rank and nranks must be those of the launch, {me} and {n}, but got {me + 1} and {n}",
        ),
        (
            {"initializer_method": "uid", "uid": uid, "rank": me, "nranks": n + 2},
            f"but got {me} and {n + 2}",
        ),
        (
            {"initializer_method": "uid", "uid": uid, "rank": "0", "nranks": n},
            "rank must be an integer, but got '0'",
        ),
        (
            {"initializer_method": "mpi", "mpi_comm": Communicator(me, n + 1)},
            "rank of mpi_comm and size of mpi_comm must be those of the launch",
        ),
        ({"initializer_method": "mpi", "mpi_comm": 3}, r"communicator with Get_rank\(\)"),
        (
            {"initializer_method": "mpi", "device": SimpleNamespace(device_id=n)},
            "device must be there",
        ),
        (
            {"initializer_method": "mpi", "device": SimpleNamespace(device_id="a")},
            "device.device_id must be an integer",
        ),
    ):
        refused(lambda given=given: nv.init(**given), nv.NvshmemInvalid, text)  # type: ignore[misc]
    refused(
        lambda: nv.init(uid=uid, rank=me, nranks=n, initializer_method="uid"),
        nv.NvshmemInvalid,
        "uid must be rank 0's on every rank",
    )
    assert nv.init_status() == nv.InitStatus.STATUS_NOT_INITIALIZED
    nv.init(initializer_method="mpi")
    refused(
        lambda: nv.init(
            device=SimpleNamespace(device_id=1),
            initializer_method="mpi",
        ),
        nv.NvshmemInvalid,
        "device must be that of the first call",
    )


def run_teams() -> None:
    _, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    teams = nv.Teams
    for team in (teams.TEAM_WORLD, teams.TEAM_SHARED, teams.TEAM_NODE, teams.TEAM_GPU_LEADERS):
        assert (nv.team_my_pe(team), nv.team_n_pes(team)) == (me, n)
    for team in (teams.TEAM_SAME_MYPE_NODE, teams.TEAM_SAME_GPU):
        assert (nv.team_my_pe(team), nv.team_n_pes(team)) == (0, 1)
    assert nv.team_my_pe(teams.TEAM_INVALID) == nv.team_n_pes(teams.TEAM_INVALID) == -1
    # PEs n-1, n-2, …, 1: in the opposite order, without PE 0.
    team = nv.team_split_strided(teams.TEAM_WORLD, n - 1, -1, n - 1)
    if me == 0:
        assert team == teams.TEAM_INVALID
        assert nv.team_translate_pe(teams.TEAM_WORLD, 1, team) == -1
    else:
        assert team > max(teams)
        assert (nv.team_my_pe(team), nv.team_n_pes(team)) == (n - 1 - me, n - 1)
        assert nv.team_translate_pe(team, 0, teams.TEAM_WORLD) == n - 1
        assert nv.team_translate_pe(teams.TEAM_WORLD, 0, team) == -1
    x, total = nv.tensor(2), nv.tensor(2)
    x.fill_(me)
    if me:
        nv.reduce(team, total, x, "sum")
        assert total.tolist() == [n * (n - 1) / 2] * 2
        nv.barrier(team)
    same = nv.team_split_strided(teams.TEAM_WORLD, n - 1, -1, n - 1)
    assert (same == team) == (me == 0)  # another team, with the same members
    nv.team_destroy(team)
    nv.team_destroy(same)
    if me:
        refused(lambda: nv.barrier(team), nv.NvshmemInvalid, f"number of a team .*, but got {team}")
    row, column = nv.team_split_2d(teams.TEAM_WORLD, 2)
    assert nv.team_my_pe(row) == me % 2
    assert nv.team_n_pes(row) == min(2, n - me // 2 * 2)
    assert nv.team_my_pe(column) == me // 2
    assert nv.team_n_pes(column) == len(range(me % 2, n, 2))
    assert nv.team_translate_pe(column, 0, teams.TEAM_WORLD) == me % 2
    x.fill_(me)
    nv.reduce(row, total, x, "sum")
    assert total.tolist() == [sum(range(me // 2 * 2, min(n, me // 2 * 2 + 2)))] * 2
    nv.barrier(column)
    for call, text in (
        (lambda: nv.team_split_2d(0, 0), "xrange must be at least 1"),
        (lambda: nv.team_split_2d(77, 1), "parent_team must be one of Teams"),
        (lambda: nv.team_my_pe(99), "team_my_pe: team must be one of Teams or the number"),
        (lambda: nv.team_my_pe("a"), "team must be an integer"),
        (lambda: nv.barrier(-1), "team must be one of Teams"),
        (lambda: nv.team_destroy(0), "team must be one that team_split_strided has made"),
        (lambda: nv.team_split_strided(0, n, 1, 1), f"start must be in .*{n}"),
        (lambda: nv.team_split_strided(0, 0, 1, n + 1), "must pick different members"),
        (lambda: nv.team_split_strided(0, 0, 0, 2), "must pick different members"),
        (lambda: nv.team_split_strided(0, 0, 1, 0), "size must be at least 1"),
        (lambda: nv.team_translate_pe(0, n, 0), "src_pe must be"),
    ):
        refused(call, nv.NvshmemInvalid, text)
    nv.finalize()


@pytest.mark.parametrize(
    ("run", "n"),
    [(run_once_and_again, 2), (run_wrong_arguments, 2), (run_wrong_arguments, 3), (run_teams, 3)],
)
def test_the_begin_and_the_teams(run: Callable[[], None], n: int) -> None:
    emu.launch(run, n, preload=["torch"])


def test_a_unique_id_can_be_sent() -> None:
    from emu.accelerator.nvshmem.core import get_unique_id

    uid, other = get_unique_id(), get_unique_id()
    assert uid._data.nbytes == 128
    assert uid._data.tobytes() != other._data.tobytes()
    assert pickle.loads(pickle.dumps(uid))._data.tobytes() == uid._data.tobytes()
    assert not get_unique_id(empty=True)._data.view(np.int8).any()


NAMES = """
import sys
import nvshmem.core
assert "torch" in sys.modules
import nvshmem, torch
import nvshmem.core.interop.torch as interop
from nvshmem.core.nvshmem_types import NvshmemInvalid
import nvshmem.bindings.nvshmem as bindings
import emu.accelerator.nvshmem.core as ours
assert nvshmem.core is ours is sys.modules["nvshmem.core"]
assert interop is ours.interop.torch and NvshmemInvalid is ours.NvshmemInvalid
assert nvshmem.bindings.putmem is bindings.putmem
ours.init(initializer_method="mpi")
print(ours.n_pes(), ours.tensor(2).device, ours.get_version().nvshmem4py_version)
ours.finalize()
"""

GONE = """
emu.accelerator.uninstall()
assert not [name for name in sys.modules if name.partition(".")[0] == "nvshmem"]
try:
    import nvshmem.core
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("arguments", [["-m", "emu", "run", "-n", "1", "--no-prefix"], []])
def test_the_names_are_ours_even_beside_the_real_package(
    arguments: list[str], tmp_path: Path
) -> None:
    """Torch's devices are there though NVSHMEM is imported first; without a launch there is one PE.

    The name goes with the devices.
    """
    real = tmp_path / "site" / "nvshmem"
    real.mkdir(parents=True)
    (real / "__init__.py").write_text("raise ImportError('it needs a GPU')")
    script = tmp_path / "program.py"
    install = "import emu.accelerator\nemu.accelerator.install()\n"
    script.write_text(NAMES if arguments else install + NAMES + GONE)
    path = [str(ROOT), str(real.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-P", *arguments, str(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    gone = [] if arguments else ["it needs a GPU"]
    assert done.stdout.splitlines() == ["1 cuda:0 0.2.0+emu", *gone]


def run_without_launch() -> None:
    emu.accelerator.install()
    from emu.accelerator.nvshmem import core as nv
    from emu.comm.world.current import set_world

    set_world(None)
    uid = nv.get_unique_id()
    with pytest.raises(nv.NvshmemError, match="nranks is 2, but this process is no PE"):
        nv.init(uid=uid, rank=0, nranks=2, initializer_method="uid")


def test_more_ranks_than_one_need_a_launch() -> None:
    emu.launch(run_without_launch, 1)

"""How MPI is started and looked at, with an mpi4py that is written here: no MPI is needed."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from emu.comm.errors import HostsError
from emu.comm.process import mpi as bootstrap
from emu.comm.process import mpi_kinds

MPICH = "MPICH Version:      5.0.2\nMPICH Release date: ..."
OPEN_MPI = "Open MPI v5.0.11, package: Open MPI u@h Distribution, ident: 5.0.11, Sep 16, 2026\0"
INTEL = "Intel(R) MPI Library 2021.18.1 for Linux* OS\n\0"
LAUNCHERS = ("PMI_SIZE", "PMI_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")


class Mpi(ModuleType):
    """``mpi4py.MPI`` as far as a start needs it."""

    THREAD_SERIALIZED = 2
    ERRORS_RETURN = None

    def __init__(self, says: str, n: int, *, thread: int = 2, state: str = "new") -> None:
        super().__init__("mpi4py.MPI")
        self._says, self._thread, self._state = says, thread, state
        self.COMM_WORLD = SimpleNamespace(Get_size=lambda: n, Set_errhandler=lambda _: None)

    def Get_library_version(self) -> str:
        return self._says

    def Is_initialized(self) -> bool:
        return self._state != "new"

    def Is_finalized(self) -> bool:
        return self._state == "finalised"

    def Init_thread(self, level: int) -> None:
        assert level == 2
        self._state = "initialised"

    def Query_thread(self) -> int:
        assert self._state == "initialised"
        return self._thread


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*LAUNCHERS, "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MPIR_CVAR_NOLOCAL", "1")  # both are set, and stay so otherwise
    monkeypatch.setenv("FI_TCP_MAX_SAVED", "1000000")
    monkeypatch.setattr(bootstrap, "check_calls", lambda mpi: None)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Any:
    def initialise(*words: Any, **fields: Any) -> Any:
        package: Any = ModuleType("mpi4py")
        package.rc, package.MPI = SimpleNamespace(), Mpi(*words, **fields)
        monkeypatch.setitem(sys.modules, "mpi4py", package)
        monkeypatch.setitem(sys.modules, "mpi4py.MPI", package.MPI)
        found = bootstrap.initialise()
        assert found is package.MPI
        assert not package.rc.initialize
        assert not package.rc.finalize
        return found

    return initialise


def test_mpi_is_initialised_for_calls_of_any_one_thread(start: Any) -> None:
    assert start(MPICH, 1).Is_initialized()


def test_an_mpi_that_was_initialised_before_is_taken_as_it_is(start: Any) -> None:
    assert start(MPICH, 1, state="initialised")


def test_an_mpi_that_was_finalised_is_refused(start: Any) -> None:
    with pytest.raises(HostsError, match="must not have been finalised"):
        start(MPICH, 1, state="finalised")


def test_an_mpi_for_one_thread_is_refused_by_name(start: Any) -> None:
    with pytest.raises(HostsError, match=r"MPI_THREAD_SERIALIZED, .*: Open MPI v5.0.11$"):
        start(OPEN_MPI, 1, thread=1)


def test_mpich_is_not_initialised_under_the_launcher_of_open_mpi(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    with pytest.raises(HostsError, match="it is Open MPI's, and the library is MPICH Version: 5"):
        start(MPICH, 1)
    assert not sys.modules["mpi4py.MPI"].Is_initialized()  # which would end the process
    assert start(OPEN_MPI, 2)


@pytest.mark.parametrize("says", [OPEN_MPI, INTEL])
def test_processes_that_mpi_does_not_find_are_told(
    says: str, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PMI_SIZE", "3")
    name = (
        "Open MPI v5.0.11" if says == OPEN_MPI else "Intel.R. MPI Library 2021.18.1 for Linux. OS"
    )
    with pytest.raises(HostsError, match=rf"has started 3 processes, and {name} finds 1$"):
        start(says, 1)


def test_srun_without_the_interface_of_mpi_is_told(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    with pytest.raises(HostsError, match=r"has started 4 tasks, and that finds 1: srun --mpi="):
        start(MPICH, 1)
    assert start(MPICH, 4)


def test_other_hosts_are_told_of_an_error_before_the_start(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap._Start, "has_told", False)
    mpi = start(MPICH, 2)
    told: list[Any] = []
    monkeypatch.setattr(bootstrap, "initialise", lambda: mpi)
    mpi.Get_processor_name = lambda: "a"
    mpi.COMM_WORLD.Get_rank = lambda: 0
    mpi.COMM_WORLD.allgather = told.append
    with pytest.raises(ValueError, match="seven"), bootstrap.failing_together():
        raise ValueError("seven")
    assert told == []  # this is the only one
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(ValueError, match="seven"), bootstrap.failing_together():
        raise ValueError("seven")
    assert told == [{"failed": "ValueError: seven", "name": "a"}]
    mpi.COMM_WORLD.allgather = lambda mine: [mine, *told]
    with (
        pytest.raises(HostsError, match=r"host 1 \(a\) cannot start: ValueError: seven"),
        bootstrap.failing_together(),
    ):
        bootstrap.agree(mpi, 2, {})
    assert len(told) == 1  # they know it: nothing more is told


@pytest.mark.parametrize(
    ("variables", "rank"),
    [({}, 0), ({"PMI_RANK": "3"}, 3), ({"OMPI_COMM_WORLD_RANK": "1"}, 1), ({"PMI_RANK": "x"}, 0)],
)
def test_a_launcher_says_which_process_this_is(
    variables: dict[str, str], rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert bootstrap.launched_rank() == rank


@pytest.mark.parametrize(
    ("says", "name", "kind"),
    [
        (MPICH, "MPICH Version: 5.0.2", "MPICH"),
        (OPEN_MPI, "Open MPI v5.0.11", "Open MPI"),
        (INTEL, "Intel(R) MPI Library 2021.18.1 for Linux* OS", "Intel MPI"),
        ("", "", ""),
    ],
)
def test_a_library_is_named_in_one_line_without_what_c_ends_it_with(
    says: str, name: str, kind: str
) -> None:
    assert mpi_kinds.short_name(says) == name
    assert mpi_kinds.kind_of(says) == kind

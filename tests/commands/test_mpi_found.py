"""What the doctor says of MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.commands import mpi_found


def program(folder: Path, says: str) -> str:
    file = folder / "mpiexec"
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        ("HYDRA build details:", "MPICH"),
        ("mpiexec (Open MPI) 5.0.11", "Open MPI"),
        ("prterun (PRRTE) 3.0", "Open MPI"),
        ("Intel(R) MPI Library for Linux, hydra", "Intel MPI"),
        ("something else", "mpiexec"),
    ],
)
def test_a_launcher_is_known_by_what_it_says(says: str, kind: str, tmp_path: Path) -> None:
    assert mpi_found._launcher(program(tmp_path, says)) == kind


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_found, "find_mpiexec", lambda: None)
    monkeypatch.setattr(mpi_found.shutil, "which", lambda name: None)
    found = mpi_found.find_mpi(None)
    assert not found.present
    assert "as mpi4py and mpiexec or srun is missing" in found.cost
    assert "no mpiexec or srun" in found.value


def test_a_launcher_of_another_mpi_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mpiexec = program(tmp_path, "HYDRA build details:")
    monkeypatch.setattr(mpi_found, "find_mpiexec", lambda: mpiexec)
    monkeypatch.setattr(mpi_found, "_library", lambda: ("Open MPI v5.0.11", ""))
    found = mpi_found.find_mpi("4.1.2")
    assert not found.present
    assert "it is MPICH's, and the library Open MPI" in found.cost
    for library in ("MPICH Version: 5.0.2", "Intel(R) MPI Library 2021.18.1"):
        monkeypatch.setattr(mpi_found, "_library", lambda library=library: (library, ""))
        assert mpi_found.find_mpi("4.1.2").present  # it starts both


@pytest.mark.parametrize(
    ("script", "library", "why"),
    [
        ("print('Open MPI v5.0.11, package: x, ident: y\\0')", "Open MPI v5.0.11", ""),
        ("raise RuntimeError('cannot load it\\nlibmpi.so: no such file')", "", "libmpi.so: no"),
    ],
)
def test_the_library_is_named_or_why_there_is_none(
    script: str, library: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpi_found, "_LIBRARY", script)
    found = mpi_found.find_mpi("4.1.2")
    assert "\0" not in found.value
    assert (library or f"no MPI library ({why}") in found.value
    assert ("an MPI library" in found.cost) is (not library)

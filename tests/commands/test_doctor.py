"""`emu doctor`."""

import io

import pytest
from rich.console import Console

from emu.commands import doctor


def report(monkeypatch, **replaced):
    for name, parts in replaced.items():
        monkeypatch.setattr(doctor, name, lambda parts=parts: iter(parts))
    text = io.StringIO()
    status = doctor.run_doctor(Console(file=text, width=160))
    return status, text.getvalue()


def test_this_machine_has_what_is_required(command):
    done = command("doctor")
    assert done.returncode == 0, done.stderr
    for word in ("python", "numpy", "numba", "llvmlite", "ml_dtypes", "cores", "/dev/shm", "futex"):
        assert word in done.stdout
    for word in ("threading layer", "CUDA", "MPI", "torch", "kernel cache"):
        assert word in done.stdout


def test_something_required_that_is_missing_fails_and_is_named(monkeypatch):
    missing = doctor.Finding(name="numba", value="not installed", present=False, required=True)
    status, text = report(monkeypatch, _packages=[missing])
    assert status == 1
    assert "emu cannot run here: numba missing" in text


def test_something_optional_that_is_missing_does_not_fail_and_says_what_it_costs(monkeypatch):
    missing = doctor.Finding(name="torch", value="-", present=False, cost="no torch tensors")
    status, text = report(monkeypatch, _optional=[missing])
    assert status == 0
    assert "no torch tensors" in text


def test_brackets_of_what_was_found_are_printed(monkeypatch):
    missing = doctor.Finding(name="MPI", value="[x]", present=False, cost="pip install 'emu[mpi]'")
    assert "pip install 'emu[mpi]'" in report(monkeypatch, _optional=[missing])[1]


def test_a_missing_package_is_found_missing(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    assert [finding.present for finding in doctor._packages()] == [False] * len(doctor._REQUIRED)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (2048, "2 KiB"), (5 << 20, "5 MiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes_are_printed_with_a_unit(count, text):
    assert doctor._bytes(count) == text


def test_a_broken_cuda_driver_is_reported_and_not_raised(monkeypatch):
    from numba import cuda

    def broken():
        raise RuntimeError("driver too old")

    monkeypatch.setattr(cuda, "is_available", broken)
    (finding,) = [item for item in doctor._numba() if item.name == "CUDA"]
    assert not finding.present
    assert "driver too old" in finding.value


@pytest.mark.parametrize(
    ("cpu", "permitted", "expected"),
    [(False, True, []), (True, True, [(True, False)]), (True, False, [(False, True)])],
)
def test_amx_that_the_system_refuses_is_named(monkeypatch, cpu, permitted, expected):
    from dataclasses import replace

    from emu.kernels.gemm import arguments, microkernel

    layout = replace(microkernel.LAYOUT, amx=cpu)
    monkeypatch.setattr(microkernel, "LAYOUT", layout)
    monkeypatch.setattr(arguments, "LAYOUT", layout)
    monkeypatch.setattr(arguments, "is_permitted", lambda: permitted)
    found = [(finding.present, bool(finding.cost)) for finding in doctor._products()]
    assert found == expected

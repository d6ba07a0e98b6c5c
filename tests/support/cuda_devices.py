"""Runs test functions on a CUDA device: a GPU where there is one, else stand-ins.

``simulated`` is Numba's simulator, which runs the kernels' Python. ``compiled`` takes the kernels
that the package launches through the real compiler, and interprets what it made of them.

The simulator must be chosen before Numba is imported, and the rest of the tests want Numba without
it. So each test function of a folder ``on_device`` is called in a helper process, which lives as long
as the session: it imports the test's module and gets the function's name and its arguments, and
sends back how it ended. A helper that dies or hangs fails the test that it was at; the next test gets
a new one. The folder's conftest imports the hooks, and says which devices its tests run on.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
from numba import cuda

import emu

TESTS = Path(__file__).parents[1]
HELPER = TESTS / "kernels" / "cuda" / "on_device" / "helper.py"
TIMEOUT_S = 90.0
START_S = 60.0


class Helper:
    def __init__(self, device: str) -> None:
        env = dict(os.environ)
        root = str(Path(emu.__file__).parents[1])
        shared = str(Path(__file__).parent)
        env["PYTHONPATH"] = os.pathsep.join([root, shared, *filter(None, [env.get("PYTHONPATH")])])
        if device != "gpu":
            env["NUMBA_ENABLE_CUDASIM"] = "1"
        self.pipe, theirs = Pipe()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self.process = subprocess.Popen(
            [sys.executable, str(HELPER), str(theirs.fileno()), device],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self.errors,
            stderr=self.errors,
            env=env,
        )
        theirs.close()
        self._receive(START_S, "say that it is ready")

    def call(self, path: str, name: str, arguments: dict[str, Any]) -> str | None:
        """Return the traceback of a failure."""
        self.pipe.send((path, name, arguments))
        return self._receive(TIMEOUT_S, "end")

    def _receive(self, timeout_s: float, what: str) -> Any:
        try:
            if self.pipe.poll(timeout_s):
                return self.pipe.recv()
            reason = f"the helper process did not {what} within {timeout_s:g} s"
        except (EOFError, OSError):
            reason = f"the helper process died with status {self.process.wait(10)}"
        raise RuntimeError(f"{reason}\n{self.close()}")

    def close(self) -> str:
        """End the process; return what it had printed."""
        self.pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.5)
        self.process.kill()
        self.process.wait(10)
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        self.errors.close()
        return text[-4000:]


_helpers: dict[str, Helper] = {}


def parametrize_devices(metafunc: pytest.Metafunc, *, compiled: bool = False) -> None:
    """Let a test run on the GPU or, without one, on the stand-ins. Simulating a device is slow."""
    devices = ["gpu"]
    if not cuda.is_available():
        devices = ["simulated", "compiled"] if compiled else ["simulated"]
    metafunc.fixturenames.append("device")
    metafunc.parametrize("device", [pytest.param(d, marks=pytest.mark.slow) for d in devices])


@functools.cache
def no_compiler() -> str | None:
    """Say why nothing can be compiled here."""
    try:
        cuda.compile_ptx(lambda: None, (), cc=(9, 0))
    except Exception as error:  # noqa: BLE001 - Numba raises several, by what it doesn't find
        text = " ".join(str(error).split())
        return f"no CUDA compiler (pip install 'numba-cuda[cu13]'): {text[:200]}"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    device = pyfuncitem.callspec.params["device"]
    if device == "compiled" and no_compiler():
        pytest.skip(no_compiler())
    if device not in _helpers:
        _helpers[device] = Helper(device)
    try:
        failure = _helpers[device].call(str(pyfuncitem.path), pyfuncitem.originalname, arguments)
    except RuntimeError as error:
        del _helpers[device]
        failure = str(error)
    if failure is not None:
        pytest.fail(failure, pytrace=False)
    return True


def pytest_sessionfinish() -> None:
    while _helpers:
        _helpers.popitem()[1].close()

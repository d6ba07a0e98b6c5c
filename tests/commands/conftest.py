import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Command:
    """`python -m emu ARGUMENTS` in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        # The package under test, wherever it is imported from.
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", "NO_COLOR": "1"}

    def start(self, *arguments, program=("-P", "-m", "emu"), executable=sys.executable, **more):
        return subprocess.Popen(
            [executable, *program, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **more,
            start_new_session=True,  # so that nothing survives a failed test
        )

    def python(self, *arguments):
        """`python ARGUMENTS` there."""
        return self(*arguments, program=())

    def __call__(self, *arguments, timeout=90, **how):
        process = self.start(*arguments, **how)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"{process.args} did not end; it printed:\n{out}\n{err}")
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def script(self, text):
        path = self.folder / "script.py"
        path.write_text(text)
        return path


@pytest.fixture
def command(tmp_path):
    return Command(tmp_path)

"""``emu pytest``, and ``emu run pytest``: pytest with emulated devices, in this process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from emu.kernels.core import environment


def pytest_arguments(options: argparse.Namespace) -> list[str] | None:
    """Return the command line of pytest if that is what is to run on one PE: it needs no process of its own.

    With it pytest has the terminal, and its exit status is the command's.
    """
    words = options.module or [options.script, *options.arguments]
    if words[0] != "pytest" or (options.n_pes or 1) != 1 or Path("pytest").exists():
        return None
    names = ("devices", "device_model", "check", "autotune", "timeout")
    given = {name: getattr(options, name) for name in names}
    if options.poison:
        environment.pass_on({"EMU_POISON": "1"})
    if options.fault:
        environment.pass_on({"EMU_FAULT": ";".join(options.fault)})
    if options.interpret:
        program = options.program or ""
        environment.pass_on({"TRITON_INTERPRET": "1", "EMU_INTERPRET_PROGRAM": program})
    ours = [f"--emu-{name.replace('_', '-')}={v}" for name, v in given.items() if v is not None]
    return [*ours, *words[1:]]


def run_pytest(arguments: Sequence[str]) -> int:
    """Run pytest with emulated devices in this process."""
    try:
        import pytest
    except ModuleNotFoundError:
        sys.stderr.write("emu: pytest is not installed: pip install pytest\n")
        return 1
    import emu

    # pytest would rewrite emu, as it does all modules of a plugin's distribution, and warn that it comes too late.
    emu.__doc__ = f"{emu.__doc__}\nPYTEST_DONT_REWRITE"
    sys.argv = ["pytest", "-p", "emu.pytest", *arguments]
    return int(pytest.console_main())

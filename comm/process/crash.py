"""Crash reports of PEs: Python's stack, written by the signal handler of ``faulthandler``.

A process that gets SIGSEGV can do little more than write to a file that is already open. That file is the
world's segment, behind the heaps, where each PE has some address space of its own: nothing is left
behind, and the launcher, which has the segment anyway, reads it when the process has ended.
"""

from __future__ import annotations

import contextlib
import faulthandler
import linecache
import os
import re

from emu.comm.memory.segment import Segment

_SURE_BYTES = 8 << 10
"""Reserved for each PE, so that there is a report also when shared memory is what is lacking."""
_READ_BYTES = 64 << 10
_FRAMES = 30
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<name>.*)$')
_OURS = (
    "comm/process/fork_server.py",
    "comm/process/pe.py",
    "comm/process/returning.py",
    "emu/commands/run.py",
)
_FORKED = "comm/process/forked.py"
_PYTEST = re.compile(r"/(_pytest|pluggy|emu/pytest)/[^/]*\.py$")
_STANDARD = os.path.dirname(os.__file__) + os.sep
_STARTERS = (f"{_STANDARD}multiprocessing", f"{_STANDARD}runpy.py", "<frozen runpy>")


def report_crashes(segment: Segment, pe: int) -> None:
    """Make this process leave its stack in the segment when it crashes, if the system allows it."""
    start = segment.layout.crash(pe)
    with contextlib.suppress(OSError):  # no /proc, no descriptor left
        # A descriptor of its own has a position of its own; it stays open as long as the process.
        fd = os.open(f"/proc/self/fd/{segment.fd}", os.O_RDWR)
        with contextlib.suppress(OSError):
            os.posix_fallocate(fd, start, _SURE_BYTES)
        os.lseek(fd, start, os.SEEK_SET)
        faulthandler.enable(fd)


def crash_stack(segment: Segment, pe: int) -> str:
    """Return the stack of a PE that has crashed, one line per call; empty if there is none."""
    try:
        raw = os.pread(segment.fd, _READ_BYTES, segment.layout.crash(pe))
    except OSError:
        return ""
    text = raw.split(b"\0", 1)[0].decode(errors="replace")
    _, found, section = text.partition("Current thread ")
    frames = []
    for line in section.split("\n\n", 1)[0].splitlines()[1:] if found else ():
        frame = _FRAME.match(line)
        if frame is None:
            continue
        file, number = frame["file"], frame["line"]
        if file.endswith(_FORKED):
            break  # behind it is what the process did of which the PE is a fork
        if file.endswith(_OURS) or file.startswith(_STARTERS) or _PYTEST.search(file):
            continue  # how every PE begins
        source = linecache.getline(file, int(number)).strip() if number.isdecimal() else ""
        frames.append(f"    {file}:{number} in {frame['name']}: {source}".rstrip(": "))
    if frames and frames[-1].startswith("    <string>:"):
        frames.pop()  # the fork server's own command
    more = [f"    … {len(frames) - _FRAMES} calls more"] if len(frames) > _FRAMES else []
    return "\n".join(frames[:_FRAMES] + more)

"""``emu run --progress`` shows what PEs do in a terminal, and leaves alone what they print."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from emu.comm.layout import B_STATE, B_WAITING, B_WORKS, FINISHED, RUNNING, Layout
from emu.comm.memory.segment import Segment
from emu.commands.progress import Above, Display

SCRIPT = """
import time, emu
world = emu.world()
print("begins", world.my_pe, flush=True)
if world.my_pe == 1:
    time.sleep(0.9)
world.barrier()
print("ends", world.my_pe)
"""


class Terminal:
    """What a terminal of fixed size would show of a text with the few movements that are used."""

    def __init__(self) -> None:
        self.lines = [""]
        self.at = 0
        self.texts: list[str] = []

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        pass

    def write(self, text: str) -> int:
        self.texts.append(text)
        for part in re.findall(r"\x1b\[\d*[AJ]|\x1b\[[\d;]*m|\r|\n|[^\x1b\r\n]+", text):
            if part == "\n":
                self.at += 1
                if self.at == len(self.lines):
                    self.lines.append("")
            elif part.endswith("A") and part[0] == "\x1b":
                self.at -= int(part[2:-1])
                assert self.at >= 0
            elif part == "\x1b[J":
                del self.lines[self.at + 1 :]
                self.lines[self.at] = ""
            elif part[0] not in "\x1b\r":
                self.lines[self.at] += part
        return len(text)


@pytest.fixture
def display():
    segment = Segment.create(Layout(n_pes=3, heap_bytes=1 << 20))
    terminal = Terminal()
    shown = Display(segment, terminal)  # type: ignore[arg-type]
    for pe in range(3):
        segment.block(pe)[B_STATE] = RUNNING
    segment.block(1)[B_STATE] = FINISHED
    segment.block(2)[B_WAITING] = 1
    segment.block(2)[B_WORKS] = 1234
    yield shown, terminal
    segment.close()


def force(display: Display) -> None:
    display._drawn_at -= 10
    display.refresh()


def test_each_pe_has_a_row(display) -> None:
    shown, _ = display
    text = re.sub(r"\x1b\[[\d;]*m", "", shown.text(os.terminal_size((100, 40))))
    assert "3 PEs: 1 running, 1 finished, 1 waiting" in text
    rows = [line.split() for line in text.splitlines() if re.match(r" *[012] ", line)]
    rows = rows[1:]  # the first line has seconds in front
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert [row[-1] for row in rows[:2]] == ["running", "finished"]
    assert "1,234" in rows[2]


def test_the_table_is_no_higher_than_the_terminal(display) -> None:
    shown, _ = display
    text = shown.text(os.terminal_size((60, 7)))
    assert text.count("\n") < 7
    assert "(the first 1)" in text


def test_what_is_written_stands_above_the_table_and_the_table_goes(display) -> None:
    shown, terminal = display
    stream = Above(terminal, shown)  # type: ignore[arg-type]
    force(shown)
    assert len(terminal.lines) > 4
    stream.write("one\n")
    assert terminal.lines == ["one", ""]
    force(shown)
    force(shown)
    assert terminal.lines[0] == "one"
    stream.write("two, with no end")
    height = len(terminal.lines)
    force(shown)
    assert len(terminal.lines) == height  # it waits for the end of the line
    stream.write(" yet\n")
    force(shown)
    shown.close()
    force(shown)
    assert terminal.lines == ["one", "two, with no end yet", ""]


def but_compiling(lines: list[str]) -> list[str]:
    """Return the lines that show something, but for the one that says that an empty cache is filled."""
    return [line for line in lines if line.strip() and not line.startswith("emu: compiling")]


def test_without_a_terminal_there_is_no_table(command) -> None:
    done = command("run", "-n", 2, "--progress", command.script("print(1)"))
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0] 1", "[1] 1"])
    assert but_compiling(done.stderr.splitlines()) == []


def test_in_a_terminal_there_is_one_and_output_is_as_without(command) -> None:
    command(
        "run", "-n", 2, command.script(SCRIPT)
    )  # compiles what it calls: not in the table's time
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "emu", "run", "-n", "2", "--progress", command.script(SCRIPT)],
        cwd=command.folder,
        env={**command.environment, "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    seen: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(ours, 65536):
                seen.append(data)
        except OSError:  # the terminal's other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    out, _ = process.communicate(timeout=60)
    reader.join(10)
    os.close(ours)
    assert process.returncode == 0
    assert sorted(out.splitlines()) == ["[0] begins 0", "[0] ends 0", "[1] begins 1", "[1] ends 1"]
    shown = b"".join(seen).decode()
    assert "2 PEs" in shown
    assert "waiting" in shown
    assert "barrier" in shown
    screen = Terminal()
    screen.write(shown.replace("\r\n", "\n"))
    assert but_compiling(screen.lines) == []

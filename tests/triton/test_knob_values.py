"""Values of settings: tools and durations; chains of hooks are tested with the settings."""

import stat

from emu.triton.knob_values import CompileTimes, NvidiaTool


def test_durations_add_up():
    times = CompileTimes(5, [("llir", 20), ("object", 30)], 7)
    assert times.total_lowering == 50
    assert times.total == 62


def test_a_tool_says_its_version(tmp_path):
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    assert NvidiaTool.from_path(str(tool)) == NvidiaTool(str(tool), "12.8")


def test_what_is_no_tool_gives_none(tmp_path):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 0\n")
    silent.chmod(0o755)
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\nexit 3\n")
    failing.chmod(0o755)
    for path in (silent, failing, tmp_path / "absent", tmp_path):
        assert NvidiaTool.from_path(str(path)) is None

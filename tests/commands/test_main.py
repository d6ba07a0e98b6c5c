"""The command line itself: help, the version, and what is refused."""

import pytest


def test_a_link_that_cannot_be_read_says_what_is_wrong_with_it(command):
    done = command("run", "--link", "25GB,2us", "x.py")
    assert done.returncode == 2
    assert "--link: bandwidth must be in one of B/s, kB/s," in done.stderr
    assert done.stderr.rstrip().endswith("but got '25GB'")


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["run", "-n", "0", "x.py"], ["run", "-n", "two", "x.py"], ["unknown"]]
    + [["run", "--timeout", bad, "x.py"] for bad in ("0", "-1", "nan", "inf", "soon")],
    ids=" ".join,
)
def test_a_wrong_command_line_is_a_usage_error(command, arguments):
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: emu")


def test_the_version_is_printed(command):
    done = command("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("emu ")


def test_emu_alone_prints_help_with_examples(command):
    done = command()
    assert done.returncode == 0
    assert "examples:" in done.stdout
    for name in ("run", "demo", "doctor", "tiling", "sdy"):
        assert f"emu {name}" in done.stdout

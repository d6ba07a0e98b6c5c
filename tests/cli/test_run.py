"""`emu run`: what a script sees, and the exit statuses."""

import os
import signal
import sys
import time

import pytest


def test_every_pe_runs_the_script_and_lines_begin_with_its_number(command):
    script = command.script("import emu\nw = emu.world()\nprint(f'{w.my_pe} of {w.n_pes}')\n")
    done = command("run", "-n", 3, script)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert lines == ["[0] 0 of 3", "[1] 1 of 3", "[2] 2 of 3"]


def test_no_prefix_leaves_the_lines_as_they_are(command):
    script = command.script("import emu\nprint(f'I am {emu.world().my_pe}')\n")
    done = command("run", "-n", 2, "--no-prefix", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["I am 0", "I am 1"]


def test_the_script_is_main_with_its_own_arguments_and_folder(command):
    (command.folder / "beside.py").write_text("WORD = 'from beside'\n")
    script = command.script(
        "import sys, beside\n"
        "print(__name__, sys.modules['__main__'].__file__ == __file__, sys.argv, beside.WORD)\n"
        "import os; print(sys.path[0] == os.path.dirname(__file__))\n"
    )
    done = command("run", "-n", 1, "--no-prefix", script, "-n", "7", "--timeout", "a b")
    assert done.returncode == 0, done.stderr
    argv = [str(script), "-n", "7", "--timeout", "a b"]
    assert done.stdout.splitlines() == [f"__main__ True {argv} from beside", "True"]


def test_a_relative_script_is_found_and_shown_by_its_absolute_path(command):
    script = command.script("import sys; print(sys.argv, __file__)\n")
    done = command("run", "-n", 1, "--no-prefix", "script.py")
    assert done.stdout == f"['{script}'] {script}\n", done.stderr


def test_children_of_a_script_find_the_stand_ins(command):
    script = command.script(
        "import subprocess, sys\n"
        "code = 'import importlib.util as u; print(u.find_spec(\"pypto\").origin)'\n"
        "import importlib.util as u\n"
        "print(u.find_spec('pypto').origin)\n"
        "print(subprocess.run([sys.executable, '-P', '-c', code], text=True, check=True,\n"
        "                     stdout=subprocess.PIPE).stdout.strip())\n"
    )
    done = command("run", "-n", 1, "--no-prefix", script)
    assert done.returncode == 0, done.stderr
    mine, childs = done.stdout.splitlines()
    assert mine == childs
    assert "shims" in mine


def test_the_link_is_that_of_the_command_line(command):
    script = command.script("import emu\nprint(emu.world().link)\n")
    done = command("run", "-n", 1, "--no-prefix", "--link", "25GB/s,2us", script)
    assert done.stdout == "Link(bandwidth=25000000000.0, latency=2e-06)\n", done.stderr
    done = command("run", "-n", 1, "--no-prefix", script)
    assert done.stdout == "None\n", done.stderr


def test_a_link_that_cannot_be_read_says_what_is_wrong_with_it(command):
    done = command("run", "--link", "25GB,2us", "x.py")
    assert done.returncode == 2
    assert "--link: bandwidth must be in one of B/s, kB/s," in done.stderr
    assert done.stderr.rstrip().endswith("but got '25GB'")


def test_too_many_pes_are_a_usage_error(command):
    done = command("run", "-n", 5000, command.script("pass\n"))
    assert done.returncode == 2
    assert done.stderr.startswith("emu: n_pes must be")


def test_a_missing_script_is_a_usage_error(command):
    done = command("run", "absent.py")
    assert done.returncode == 2
    assert done.stderr == "emu: script must be a file, but got 'absent.py'\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["run"], ["run", "-n", "0", "x.py"], ["run", "-n", "two", "x.py"], ["unknown"]]
    + [["run", "--timeout", bad, "x.py"] for bad in ("0", "-1", "nan", "inf", "soon")],
    ids=" ".join,
)
def test_a_wrong_command_line_is_a_usage_error(command, arguments):
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: emu")


@pytest.mark.parametrize(
    ("leave", "status"),
    [
        ("sys.exit()", 0),
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("sys.exit(-1)", 255),
        ("sys.exit(256)", 1),
    ],
)
def test_sys_exit_gives_the_exit_status(command, leave, status):
    done = command("run", "-n", 2, command.script(f"import sys\n{leave}\n"))
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def test_sys_exit_with_a_message_prints_it_and_gives_1(command):
    done = command("run", "-n", 1, command.script("import sys\nsys.exit('no such weather')\n"))
    assert done.returncode == 1
    assert "no such weather" in done.stderr


def test_one_pe_that_exits_stops_the_others(command):
    script = command.script(
        "import sys, emu\nw = emu.world()\nif w.my_pe == 1: sys.exit(5)\nw.barrier()\n"
    )
    done = command("run", "-n", 3, script)
    assert done.returncode == 5


def test_an_exception_prints_the_remote_traceback_with_the_number_of_the_pe(command):
    script = command.script(
        "import emu\nw = emu.world()\n"
        "def fall():\n    raise LookupError('the cause')\n"
        "if w.my_pe == 1:\n    fall()\n"
        "w.barrier()\n"
    )
    done = command("run", "-n", 3, script)
    assert done.returncode == 1
    assert "emu: PE 1: LookupError: the cause" in done.stderr
    assert f'File "{script}", line 4, in fall' in done.stderr
    assert "PeerFailedError:" not in done.stderr


def test_an_error_that_all_pes_share_is_printed_once(command):
    done = command("run", "-n", 2, command.script("import emu\nraise LookupError('the same')\n"))
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "LookupError: the same" in done.stderr


def test_a_killed_pe_gives_128_plus_the_signal(command):
    script = command.script(
        "import os, signal, emu\nw = emu.world()\n"
        "if w.my_pe == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "w.barrier()\n"
    )
    done = command("run", "-n", 2, script)
    assert done.returncode == 128 + signal.SIGKILL
    assert "PE 1" in done.stderr


def test_a_deadlock_is_reported_after_the_time_out(command):
    script = command.script(
        "import numpy as np, emu\nw = emu.world()\n"
        "flag = w.alloc((1,), np.int32, name='flag')\n"
        "w.wait_until(flag, emu.Cmp.EQ, 1 + w.my_pe)\n"
    )
    done = command("run", "-n", 2, "--timeout", 1, script)
    assert done.returncode == 1
    assert "DeadlockError" in done.stderr
    assert "flag" in done.stderr


def test_ctrl_c_gives_130_and_leaves_no_process(command):
    marker = command.folder / "pids"
    script = command.script(
        "import os, time, emu\n"
        f"with open({str(marker)!r}, 'a') as file: file.write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(600)\n"
    )
    process = command.start("run", "-n", 2, script)
    deadline = time.monotonic() + 60
    while not marker.exists() or len(marker.read_text().splitlines()) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    for pid in map(int, marker.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_version_is_printed(command):
    done = command("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("emu ")


def test_the_default_number_of_pes_is_the_number_of_cores(command):
    done = command("run", "--no-prefix", command.script("import emu; print(emu.world().n_pes)\n"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(os.cpu_count())] * os.cpu_count()


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_pe_computes_on_one_thread(command):
    script = command.script(
        "import os, numpy as np\n"
        "a = np.ones((512, 512), np.float32)\n"
        "a @ a\n"
        "print(len(os.listdir('/proc/self/task')))\n"
    )
    done = command("run", "-n", 2, "--no-prefix", script)
    assert done.stdout.split() == ["1", "1"], done.stderr

"""`emu run`: what a script sees, and the exit statuses."""

import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from subprocess import PIPE

import pytest
from variants import thorough

from emu.commands.run import can_use_world


def test_every_pe_runs_the_script_and_lines_begin_with_its_number(command):
    script = command.script("import emu\nw = emu.world()\nprint(f'{w.my_pe} of {w.n_pes}')\n")
    done = command("run", "-n", 3, script)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert lines == ["[0] 0 of 3", "[1] 1 of 3", "[2] 2 of 3"]


@pytest.mark.slow
def test_no_prefix_leaves_the_lines_as_they_are(command):
    script = command.script("import emu\nprint(f'I am {emu.world().my_pe}')\n")
    done = command("run", "-n", 2, "--no-prefix", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["I am 0", "I am 1"]


def test_poison_fills_new_symmetric_memory(command):
    script = command.script(
        "import numpy as np, emu\n"
        "w = emu.world()\n"
        "print(np.isnan(w.alloc(4, np.float32).local).all(), w.alloc(1, np.int16).local)\n"
    )
    done = command("run", "-n", 1, "--no-prefix", "--poison", script)
    assert done.stdout == "True [-23131]\n", done.stderr
    done = command("run", "-n", 1, "--no-prefix", script)
    assert done.stdout == "False [0]\n", done.stderr


def test_an_unknown_check_is_refused(command):
    done = command("run", "--check", "rice", command.script("print(1)\n"))
    assert done.returncode == 2
    assert "argument --check" in done.stderr
    assert "must be made of race, deadlock, bounds, uninit, streams, leak" in done.stderr
    assert "but got 'rice'; did you mean 'race'?" in done.stderr


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


@pytest.mark.slow
def test_a_relative_script_is_found_and_shown_by_its_absolute_path(command):
    script = command.script("import sys; print(sys.argv, __file__)\n")
    done = command("run", "-n", 1, "--no-prefix", "script.py")
    assert done.stdout == f"['{script}'] {script}\n", done.stderr


@pytest.mark.slow
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


def test_too_many_pes_are_a_usage_error(command):
    done = command("run", "-n", 5000, command.script("pass\n"))
    assert done.returncode == 2
    assert "argument -n: must be a whole number in [1, 1024], but got '5000'" in done.stderr


def test_a_missing_script_is_a_usage_error(command):
    done = command("run", "absent.py")
    assert done.returncode == 2
    assert done.stderr == "emu: script must be a file, but got 'absent.py'\n"


@pytest.mark.parametrize(
    ("leave", "status"),
    thorough(
        [
            ("sys.exit()", 0),
            ("sys.exit(0)", 0),
            ("sys.exit(7)", 7),
            ("sys.exit(-1)", 255),
            ("sys.exit(256)", 1),
        ],
        ("sys.exit()", 0),
        ("sys.exit(7)", 7),
    ),
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


@pytest.mark.slow
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


RING = """import numpy as np, emu
w = emu.world()
x = w.alloc(1, np.int64, name='x')
w.signal_op(x, 1, 1 - w.my_pe)
w.wait_until(x, emu.Cmp.EQ, 1)
w.barrier()
print('well')
"""


def test_faults_happen_in_a_script(command):
    script = command.script(RING)
    done = command("run", "-n", 2, "--fault", "kill:pe=1,at=barrier:1", script)
    assert done.returncode == 128 + signal.SIGKILL
    assert "the fault kill:pe=1,at=barrier:1 was to do that" in done.stderr
    said = "killed before barrier (fault kill:pe=1,at=barrier:1)"
    assert f"[1] PE 1, operation 4 at {script}:6: {said}" in done.stderr
    done = command("run", "-n", 2, "--fault", "slow:pe=0,x2", "--fault", "slow:pe=1,ms=1", script)
    assert done.returncode == 0
    assert "slow from alloc on (fault slow:pe=0,x2)" in done.stderr
    assert "slow from alloc on (fault slow:pe=1,ms=1)" in done.stderr


def test_faults_come_from_the_environment_unless_they_are_given(command):
    script = command.script(RING)
    command.environment["EMU_FAULT"] = "drop-signal:from=0,to=1,nth=1;slow:pe=1,ms=1"
    done = command("run", "-n", 2, script)
    assert done.returncode == 3
    assert "signal 1 to PE 1 lost (fault drop-signal:from=0,to=1,nth=1)" in done.stderr
    assert "PE 1 waits in wait_until for x[0] EQ 1 (there: 0, last writer: nobody)" in done.stderr
    done = command("run", "-n", 2, "--fault", "slow:pe=0,ms=1", script)
    assert done.returncode == 0
    assert "lost" not in done.stderr


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (["kil:pe=0,at=op:1"], "--fault: fault 'kil:pe=0,at=op:1': its kind must be one of kill,"),
        (["kill:pe=2,at=op:1"], "fault 'kill:pe=2,at=op:1': pe must be a PE in [0, 2), one of the"),
        (["slow:pe=0,x2", "slow:pe=0,ms=1"], "it must not contradict another one, but there is"),
    ],
)
def test_wrong_faults_are_told_before_anything_starts(command, faults, said):
    options = [word for fault in faults for word in ("--fault", fault)]
    done = command("run", "-n", 2, *options, command.script("print('started')"))
    assert done.returncode == 2
    assert said in done.stderr
    assert "started" not in done.stdout


def test_pytest_in_this_process_hands_faults_on(command):
    test = command.folder / "test_it.py"
    test.write_text(
        "import emu\n\ndef number():\n    emu.world().barrier()\n    return emu.world().my_pe\n\n"
        "def test_it():\n    assert emu.launch(number, 2) == [0, 1]\n"
    )
    done = command("run", "-n", 1, "--fault", "kill:pe=1,at=barrier:1", "pytest", test)
    assert done.returncode == 1
    assert "the fault kill:pe=1,at=barrier:1 was to do that" in done.stdout


def test_a_deadlock_is_reported_after_the_time_out(command):
    script = command.script(
        "import numpy as np, emu\nw = emu.world()\n"
        "flag = w.alloc((1,), np.int32, name='flag')\n"
        "w.wait_until(flag, emu.Cmp.EQ, 1 + w.my_pe)\n"
    )
    done = command("run", "-n", 2, "--timeout", 1, script)
    assert done.returncode == 3
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


@pytest.mark.slow
def test_the_default_number_of_pes_is_the_number_of_cores(command):
    done = command("run", "--no-prefix", command.script("import emu; print(emu.world().n_pes)\n"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(os.cpu_count())] * os.cpu_count()


@pytest.mark.slow
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


# --- modules -------------------------------------------------------------------------------


@pytest.fixture
def package(command):
    """A package with a module, a `__main__`, and an inner package without one."""
    folder = command.folder / "outer"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("print('imported', __name__)\n")
    text = (
        "import os, sys\n"
        "print(__name__, __package__, __spec__.name, sys.argv, sys.path[0] == os.getcwd())\n"
    )
    for name in ("__main__.py", "tool.py"):
        (folder / name).write_text(text)
    (folder / "inner" / "__init__.py").touch()
    return folder


@pytest.mark.parametrize(
    ("module", "file"),
    thorough([("outer", "__main__.py"), ("outer.tool", "tool.py")], ("outer.tool", "tool.py")),
)
def test_a_module_runs_as_python_m_runs_it(command, package, module, file):
    arguments = ("-m", module, "-n", "7", "--stdin", "-m", "a b")
    done = command("run", "-n", 1, "--no-prefix", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout == command.python(*arguments).stdout
    assert f"{package / file}" in done.stdout
    assert done.stdout.count("imported outer") == 1


def test_every_pe_runs_the_module(command):
    (command.folder / "program.py").write_text("import emu\nprint(emu.world().my_pe)\n")
    done = command("run", "-n", 3, "--no-prefix", "-m", "program")
    assert sorted(done.stdout.split()) == ["0", "1", "2"], done.stderr


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("absent", "No module named absent"),
        ("outer.absent", "No module named outer.absent"),
        ("absent.outer", "No module named absent"),
        ("outer.tool.more", "No module named outer.tool.more; outer.tool is not a package"),
        ("outer.inner", "No module named outer.inner.__main__; outer.inner is a package"),
        ("outer/tool.py", "must be a dotted name, not a path"),
        ("", "one of these is required: SCRIPT, -m MODULE"),
    ],
)
def test_a_missing_module_is_one_line_and_starts_nothing(command, package, module, text):
    done = command("run", "-n", 2, "-m", *filter(None, [module]))
    assert done.returncode == (1 if module else 2)
    assert text in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_a_module_of_the_standard_library_runs(command):
    (command.folder / "x.json").write_text('{"b": 1}')
    done = command("run", "-n", 1, "--no-prefix", "-m", "json.tool", "--compact", "x.json")
    assert (done.returncode, done.stdout) == (0, '{"b":1}\n'), done.stderr


@pytest.mark.slow
def test_an_import_that_fails_in_a_module_is_the_modules_error(command):
    (command.folder / "program.py").write_text("import nowhere_to_be_found\n")
    done = command("run", "-n", 2, "-m", "program")
    assert done.returncode == 1
    assert "No module named 'nowhere_to_be_found'" in done.stderr
    assert "program.py" in done.stderr


# --- standard input ------------------------------------------------------------------------

ECHO = "import sys, emu\nprint(emu.world().my_pe, sys.stdin.read().split())\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "readers"),
    [
        ([], [0]),
        (["--stdin", "1"], [1]),
        (["--stdin", "all"], [0, 1, 2]),
        (["--stdin", "none"], []),
    ],
    ids=["default", "1", "all", "none"],
)
@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_standard_input_reaches_the_pes_that_were_chosen(command, choice, readers, kind):
    script, words = command.script(ECHO), command.folder / "words"
    words.write_text("a b\nc\n")
    with words.open() as file:
        process = command.start(
            "run", "-n", 3, "--no-prefix", *choice, script, stdin=PIPE if kind == "pipe" else file
        )
        out, err = process.communicate("a b\nc\n" if kind == "pipe" else None, timeout=90)
    assert process.returncode == 0, err
    found = [f"{pe} {['a', 'b', 'c'] if pe in readers else []}" for pe in range(3)]
    assert sorted(out.splitlines()) == found


@pytest.mark.parametrize("choice", thorough(["0", "all"], "0"))
def test_a_lot_of_input_arrives_whole_though_one_pe_takes_none(command, choice):
    script = command.script(
        "import sys, emu, zlib\n"
        "w = emu.world()\n"
        "if w.my_pe: print(w.my_pe, zlib.crc32(sys.stdin.buffer.read()))\n"
        if choice == "all"
        else "import sys, emu, zlib\nw = emu.world()\n"
        "if not w.my_pe: print(w.my_pe, zlib.crc32(sys.stdin.buffer.read()))\n"
    )
    data = os.urandom(6 << 20)
    path = command.folder / "data"
    path.write_bytes(data)
    with path.open("rb") as file:
        cat = subprocess.Popen(["cat"], stdin=file, stdout=PIPE)
    done = command("run", "-n", 3, "--no-prefix", "--stdin", choice, script, stdin=cat.stdout)
    cat.stdout.close()
    cat.wait(timeout=60)
    readers = [0] if choice == "0" else [1, 2]
    assert sorted(done.stdout.split("\n")[:-1]) == [f"{pe} {zlib.crc32(data)}" for pe in readers]


@pytest.mark.parametrize("choice", thorough(["0", "all", "none"], "all"))
def test_input_without_an_end_that_nobody_reads_holds_nobody(command, choice):
    endless = subprocess.Popen(["yes"], stdout=PIPE)
    script = command.script("print('done')\n")
    done = command("run", "-n", 2, "--no-prefix", "--stdin", choice, script, stdin=endless.stdout)
    endless.stdout.close()
    endless.wait(timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\ndone\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("choice", thorough(["0", "all"], "0"))
def test_a_closed_standard_input_is_an_empty_one(command, choice):
    script = command.script(ECHO)
    process = command.start(
        "-c",
        'exec "$0" -P -m emu run -n 2 --no-prefix --stdin "$1" "$2" <&-',
        sys.executable,
        choice,
        script,
        program=(),
        executable="/bin/sh",
    )
    out, err = process.communicate(timeout=90)
    assert sorted(out.splitlines()) == ["0 []", "1 []"], err


def test_lines_of_a_terminal_reach_pe_0_as_they_are_typed(command):
    script = command.script(
        "import sys, emu\n"
        "w = emu.world()\n"
        "if w.my_pe == 0:\n"
        "    print(sys.stdin.isatty(), 'first', input(), flush=True)\n"
        "    print('second', sys.stdin.readline().strip(), flush=True)\n"
        "w.barrier()\n"
    )
    ours, theirs = os.openpty()
    try:
        process = command.start("run", "-n", 2, "--no-prefix", script, stdin=theirs)
        os.write(ours, b"one\n")
        assert process.stdout.readline() == "True first one\n"
        os.write(ours, b"two\n")
        assert process.stdout.readline() == "second two\n"
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
        os.close(theirs)


def test_to_wait_for_input_is_no_deadlock(command):
    script = command.script(
        "import sys, emu\n"
        "w = emu.world()\n"
        "if w.my_pe == 0: print('ready', flush=True); print(input())\n"
        "w.barrier()\n"
    )
    process = command.start("run", "-n", 2, "--no-prefix", "--timeout", "0.5", script, stdin=PIPE)
    assert process.stdout.readline() == "ready\n"
    time.sleep(2)  # four times the time-out
    assert process.poll() is None
    out, err = process.communicate("here\n", timeout=60)
    assert (process.returncode, out) == (0, "here\n"), err


@pytest.mark.parametrize("choice", thorough(["0", "all"], "0"))
def test_ctrl_c_ends_a_program_that_waits_for_input(command, choice):
    script = command.script(
        "import emu\nw = emu.world()\n"
        "if w.my_pe == 0: print('ready', flush=True); input()\n"
        "w.barrier()\n"
    )
    process = command.start("run", "-n", 2, "--no-prefix", "--stdin", choice, script, stdin=PIPE)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert "Traceback" not in process.communicate()[1]


@pytest.mark.parametrize("value", ["3", "-1", "some", "0.5", ""])
def test_standard_input_for_a_pe_that_is_not_there_is_a_usage_error(command, value):
    done = command("run", "-n", 3, f"--stdin={value}", command.script("pass\n"))
    assert done.returncode == 2
    assert f"'all' or 'none', but got {value!r}".replace("'3'", "3") in done.stderr


# --- the cache of compiled kernels ---------------------------------------------------------


@pytest.mark.slow
def test_kernels_that_are_compiled_are_announced_once(command):
    cache = command.folder / "cache"
    command.environment["EMU_CACHE_DIR"] = str(cache)
    nothing = command("run", "-n", 2, command.script("print('hi')\n"))
    assert (nothing.returncode, nothing.stderr) == (0, "")
    script = command.script(
        "import numpy as np, emu\nw = emu.world()\na = w.alloc((8, 8), np.float32)\n"
        "w.put(a[:, 1:5], np.ones((8, 4), np.float32), 0)\nw.barrier()\n"
    )
    first = command("run", "-n", 2, script)
    assert first.returncode == 0
    assert first.stderr == (
        f"emu: compiling the kernels that this program calls for this CPU (once; kept in {cache})\n"
    )
    second = command("run", "-n", 2, script)
    assert (second.returncode, second.stderr) == (0, "")


def test_a_cache_that_others_can_write_is_refused_before_anything_starts(command):
    cache = command.folder / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    command.environment["EMU_CACHE_DIR"] = str(cache)
    for arguments in (["run", "-n", "2", command.script("print('hi')\n")], ["demo", "-n", "2"]):
        done = command(*arguments)
        assert done.returncode == 2
        assert done.stdout.strip() == ""
        assert done.stderr.startswith("emu: the folder of compiled kernels must be writable by")
        assert f"{cache} belongs to" in done.stderr
        assert "Traceback" not in done.stderr
    assert list(cache.iterdir()) == []


FULL = """
set -e
mkdir "$1"
mount -t tmpfs -o size=64k tmpfs "$1"
dd if=/dev/zero of="$1/all" bs=4k 2> /dev/null || true
shift
exec "$@"
"""


def _can_mount():
    if sys.platform != "linux" or os.geteuid() or not shutil.which("unshare"):
        return False
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not _can_mount(), reason="needs root and a mount namespace")
def test_a_full_disk_costs_time_and_one_line(command):
    full = command.folder / "full"
    command.environment |= {"EMU_CACHE_DIR": str(full / "cache"), "TMPDIR": str(full)}
    script = command.script(
        "import numpy as np, emu\nw = emu.world()\na = w.alloc(8, np.int64)\n"
        "w.put(a, np.arange(8), (w.my_pe + 1) % w.n_pes)\nw.barrier()\nprint(a.local.sum())\n"
    )
    done = command(
        *("-m", "sh", "-c", FULL, "sh", full, sys.executable, "-P", "-m", "emu", "run", "-n", 3),
        *("--no-prefix", script),
        program=(),
        executable=shutil.which("unshare"),
    )
    assert (done.returncode, done.stdout) == (0, "28\n" * 3), done.stderr
    assert done.stderr.count("CacheWarning:") == 1
    assert "No space left on device" in done.stderr


def test_a_script_without_a_world_runs_on_one_pe_and_that_is_said(command):
    done = command("run", command.script("import numpy\nprint('once')\n"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0] once\n"
    assert "script.py uses no World, so it runs on one PE" in done.stderr


@pytest.mark.slow
def test_a_script_without_a_world_runs_on_as_many_pes_as_are_asked_for(command):
    done = command("run", "-n", 2, command.script("print('twice')\n"))
    assert sorted(done.stdout.splitlines()) == ["[0] twice", "[1] twice"]
    assert "World" not in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print(1)", False),
        ("import numpy as np, os.path", False),
        ("import triton\nimport triton.language as tl", False),
        ("from emu import sdy, triton", False),
        ("import emu.triton.language as tl", False),
        ("import torch\nx = torch.ones(2, device='cuda')", False),
        ("import emu", True),
        ("import emu.tiles", True),
        ("from emu import world", True),
        ("from emu.mc2 import Hccl", True),
        ("import pypto", True),
        ("def f():\n    import torch_npu", True),
        ("import torch.distributed as dist", True),
        ("from torch import distributed", True),
        ("import torch\ntorch.distributed.init_process_group()", True),
        ("import os\nprint(os.environ['LOCAL_RANK'])", True),
        ("import transformers", True),
        ("import neighbour", True),
        ("import json", True),  # there is one of that name beside it
        ("from . import x", True),
        ("__import__(name)", True),
        ("def (:", True),
    ],
)
def test_a_script_that_may_use_a_world_is_recognised(text, expected, tmp_path):
    (tmp_path / "neighbour.py").touch()
    (tmp_path / "json").mkdir()
    script = tmp_path / "script.py"
    script.write_text(text)
    assert can_use_world(script) is expected

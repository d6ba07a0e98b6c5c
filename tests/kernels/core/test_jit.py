"""The disk cache of compiled kernels: never stale, safe when many compile at once, outside the tree."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

HELPER = """
from emu.kernels.core.jit import jit


@jit()
def helper(x):
    return x + 1
"""
CALLER = """
from emu.kernels.core.jit import jit
from emu.kernels.probe_helper import helper


@jit()
def caller(x):
    return helper(x) * 2
"""
# Prints the result, and how often the caller came from the cache and how often it was compiled.
PROGRAM = """
import json
from emu.kernels.probe_caller import caller
value = caller(10)
stats = caller.stats
print(json.dumps([value, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""


@pytest.fixture
def package(tmp_path):
    """A copy of what the cache needs of the package, with two kernels in two files."""
    kernels = tmp_path / "src" / "emu" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("__init__.py", "__init__.pyi"):
        shutil.copy(ROOT / "emu" / name, kernels.parent)
    (kernels / "core").mkdir()
    for name in (
        *("annotations.py", "cache_files.py", "cache_folder.py", "environment.py", "jit.py"),
        *("late_blas.py", "linking.py", "system.py"),
    ):
        shutil.copy(ROOT / "kernels" / "core" / name, kernels / "core")
    shutil.copy(ROOT / "kernels" / "errors.py", kernels)
    shutil.copy(ROOT / "kernels" / "jit.py", kernels)
    (kernels / "probe_helper.py").write_text(HELPER)
    (kernels / "probe_caller.py").write_text(CALLER)
    return tmp_path


def start(package, *flags, program=("-c", PROGRAM)):
    environment = {
        **os.environ,
        "PYTHONPATH": str(package / "src"),
        "EMU_CACHE_DIR": str(package / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-W", "error", *flags, "-P", *program]
    return subprocess.Popen(
        command,
        cwd=package,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process):
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return json.loads(out)


def run(package):
    return finish(start(package))


def cached_files(package, pattern="*"):
    found = (path for path in (package / "cache").rglob(pattern) if path.is_file())
    return sorted(path for path in found if not path.name.startswith("lock-"))


def test_a_second_process_loads_what_the_first_compiled(package):
    assert run(package) == [22, 0, 1]
    assert run(package) == [22, 1, 0]


@pytest.mark.slow
def test_an_edit_in_another_file_gives_the_new_result(package):
    assert run(package) == [22, 0, 1]
    (package / "src" / "emu" / "kernels" / "probe_helper.py").write_text(
        HELPER.replace("+ 1", "+ 100")
    )
    assert run(package) == [220, 0, 1]
    assert run(package) == [220, 1, 0]


@pytest.mark.slow
def test_an_edit_in_a_room_that_kernels_cannot_know_compiles_nothing_again(package):
    assert run(package) == [22, 0, 1]
    (package / "src" / "emu" / "front_end.py").write_text("x = 1\n")
    assert run(package) == [22, 1, 0]


@pytest.mark.slow
def test_eight_processes_that_compile_at_once_leave_one_usable_entry_a_kernel(package):
    results = [finish(process) for process in [start(package) for _ in range(8)]]
    assert [value for value, _, _ in results] == [22] * 8
    assert sum(misses for _, _, misses in results) == 1  # seven waited and loaded
    assert run(package) == [22, 1, 0]
    assert len(cached_files(package, "*caller*")) == 1


@pytest.mark.slow
def test_nothing_is_written_into_the_package(package):
    before = sorted(package.joinpath("src").rglob("*"))
    run(package)
    assert sorted(package.joinpath("src").rglob("*")) == before
    assert cached_files(package)


USERS = """
import json
from emu.kernels.jit import jit
from emu.kernels.probe_helper import helper


@jit
def users(x):
    return helper(x) * 2


@jit(fastmath=True)
def with_options(x):
    return x / 0.0


value = users(10)
stats = users.stats
print(json.dumps([value, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""


def run_users(package, text=USERS):
    """Run a user's program from a file of its own, outside of the package."""
    (package / "program.py").write_text(text)
    return finish(start(package, program=("program.py",)))


def test_a_users_function_is_compiled_again_after_an_edit_of_its_file(package):
    assert run_users(package) == [22, 0, 1]
    assert run_users(package) == [22, 1, 0]
    edited = USERS.replace("* 2", "* 3")
    assert run_users(package, edited) == [33, 0, 1]
    assert run_users(package, edited) == [33, 1, 0]
    assert run_users(package) == [22, 1, 0]


def test_a_users_function_is_compiled_again_after_an_edit_of_emu(package):
    assert run_users(package) == [22, 0, 1]
    edited = HELPER.replace("+ 1", "+ 100")
    (package / "src" / "emu" / "kernels" / "probe_helper.py").write_text(edited)
    assert run_users(package) == [220, 0, 1]
    assert run_users(package) == [220, 1, 0]


def test_a_function_typed_at_a_prompt_is_compiled_and_not_cached(package):
    line = (
        USERS.replace("stats = users.stats\n", "")
        .replace("print(json", "#")
        .replace("@jit\n", "@jit()\n")
    )
    found = finish(start(package, program=("-c", line + "print(users(1))")))
    assert found == 4
    assert not cached_files(package, "*users*")


def damaged(whole, damage):
    """Return the bytes of an entry after a full disk, a stray program, or a failing disk."""
    kind, _, percent = damage.partition(" at ")
    place = len(whole) * int(percent or 0) // 100
    if kind == "cut":
        return whole[:place]
    if kind == "flipped":
        return whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
    return b"not a pickle at all"


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    ["other", *(f"cut at {percent}" for percent in (0, 50, 99))]
    + [f"flipped at {percent}" for percent in (0, 2, 30, 60, 90)],
)
def test_a_damaged_entry_is_compiled_again(package, damage):
    run(package)
    for path in cached_files(package):
        path.write_bytes(damaged(path.read_bytes(), damage))
    assert run(package) == [22, 0, 1]
    assert run(package) == [22, 1, 0]


def test_a_cache_that_cannot_be_made_costs_time_only(package):
    (package / "cache").write_text("a file where the folder should be")
    process = start(package, "-W", "default")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert json.loads(out)[0] == 22
    assert err.count("CacheWarning: the folder of compiled kernels") == 1

"""Which cases of long test functions `make test` leaves to the thorough run: reads tests/long_tests.txt, and chooses it by what tests cost.

    pytest -p time_recorder --times times.txt -n 3 -m 'not slow' tests
    python tests/support/long_tests.py times.txt --seconds 1000 --longest 4

With an empty cache (``HOME=$(mktemp -d)``), as in CI. What the file leaves out today is not timed, and stays left out: empty it to choose anew.

The cases of a function may cost so many seconds together, the same for all functions, that the run takes what is asked for. A function
keeps at least one case, unless one costs more than ``--longest``: then all are thorough tests.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

LONG_TESTS = Path(__file__).parents[1] / "long_tests.txt"
"""Test functions whose cases take long together, and how many of these `make test` runs, if any; the others are thorough tests."""

ALWAYS = (
    "tests/commands/test_demo.py::test_the_command_shows_each_system_and_every_result_is_right",
    "tests/pytest_plugin/test_emulation.py::test_kernels_run_on_emulated_devices",
    "tests/comm/hosts/test_over_hosts.py::test_a_program_finds_the_same_bits_over_hosts",
    "tests/check/races/test_race_reports.py::test_a_race_is_found_and_its_repair_is_silent",
    "tests/accelerator/distributed/test_process_group.py::test_collectives_give_what_numpy_gives",
    "tests/tile/cpu/test_compiler.py::test_compiled_random_programs_do_what_the_reference_does",
)
"""Never left out: the README's first command, and one test of each way in that needs long."""

HEAD = """\
# Test functions of whose cases `make test` runs so many as the number says, spread evenly; the rest runs with the thorough tests:
# `make test MARK=slow`, of which .ci/run takes a twelfth by commit, and `make test-all`. Chosen by tests/support/long_tests.py.
"""


def read_times(text: str) -> dict[str, list[float]]:
    """Return the seconds of each case, by function, scaled to add up to the processor time of all.

    Half of a case's seconds are its processor time, half its time by the clock: servers that PEs are forked from work for many
    tests, and their processor time is seen by the one at which they end.
    """
    lines = [line.split("\t") for line in text.splitlines()]
    used, clock = (sum(float(line[k]) for line in lines) for k in (1, 2))
    cases: dict[str, list[float]] = defaultdict(list)
    for test, processor, seconds in lines:
        scaled = float(seconds) * used / clock
        own = min(float(processor), 2 * float(seconds))
        cases[test.partition("[")[0]].append((own + scaled) / 2)
    return cases


def read_long_tests(text: str) -> dict[str, int]:
    """Return how many cases of each long test `make test` runs; a line has the test and the number, or begins with ``#``."""
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            test, _, count = line.rpartition(" ")
            found[test.strip()] = int(count)
    return found


def kept(costs: list[float], limit: float) -> int:
    """Return of how many cases the usual cost stays below a limit; at least one."""
    return min(len(costs), max(1, int(len(costs) * limit / max(sum(costs), 1e-9))))


def total(cases: dict[str, list[float]], limit: float) -> float:
    """Return what the tests would cost."""
    return sum(sum(costs) * kept(costs, limit) / len(costs) for costs in cases.values())


def choose_limit(cases: dict[str, list[float]], seconds: float) -> float:
    """Return what the cases of a function may cost together, by bisection."""
    low, high = 0.0, max(sum(costs) for costs in cases.values())
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if total(cases, middle) <= seconds else (low, middle)
    return low


def main() -> None:
    """Write the file, and print what was chosen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("times", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--longest", type=float, required=True)
    options = parser.parse_args()
    cases = read_times(options.times.read_text("utf-8"))
    usual = {name: sum(costs) / len(costs) for name, costs in cases.items()}
    short = {n: c for n, c in cases.items() if usual[n] <= options.longest or n in ALWAYS}
    limit = choose_limit(short, options.seconds)
    chosen = {name: kept(costs, limit) for name, costs in short.items()}
    left_out = read_long_tests(LONG_TESTS.read_text("utf-8"))
    left_out |= {
        name: chosen.get(name, 0)
        for name, costs in cases.items()
        if name in left_out or chosen.get(name) != len(costs)
    }
    lines = [f"{name} {count}" for name, count in sorted(left_out.items())]
    LONG_TESTS.write_text(HEAD + "\n".join(lines) + "\n", "utf-8")
    print(f"{sum(map(len, cases.values()))} cases cost {sum(map(sum, cases.values())):.0f} s")
    print(
        f"{sum(chosen.values())} stay, for {total(short, limit):.0f} s: {limit:.2f} s a function; of {len(lines)} "
        f"functions cases are left out, of {len(cases) - len(short)} all"
    )


if __name__ == "__main__":
    main()

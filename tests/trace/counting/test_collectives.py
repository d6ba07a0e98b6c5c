"""Bytes of collectives by pair of PEs: as arrays are cut up, and in a run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import emu
from emu import mc2
from emu.commands.main import main
from emu.trace.counting.collectives import Collective, pairs_of
from emu.trace.counting.traffic import Traffic

ROOT = 1


def needed(name: str, n_pes: int, elements: int) -> np.ndarray:
    """Return the elements that each member (column) needs of each other one (row), element by element."""
    found = np.zeros((n_pes, n_pes), int)
    for source in range(n_pes):
        parts = np.array_split(np.arange(elements), n_pes)
        for target in range(n_pes):
            if name == "all_gather":
                found[source, target] = elements
            elif name in ("all_to_all", "reduce_scatter"):
                found[source, target] = len(parts[target])
            elif name == "all_reduce":  # what the target reduces, and what the source has reduced
                found[source, target] = len(parts[target]) + len(parts[source])
            elif name == "gather":
                found[source, target] = elements if target == ROOT else 0
            elif name == "broadcast":
                found[source, target] = elements if source == ROOT else 0
            elif name == "scatter":
                found[source, target] = len(parts[target]) if source == ROOT else 0
    np.fill_diagonal(found, 0)
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("all_gather", "all_to_all", "reduce_scatter", "all_reduce"),
        *("gather", "broadcast", "scatter"),
    ],
)
def test_each_byte_that_a_member_needs_of_another_counts_once(name: str) -> None:
    for n_pes in (1, 2, 3, 5):
        for elements in (0, n_pes, 3 * n_pes) if name != "all_reduce" else (0, 1, 7, 15):
            found = np.zeros((n_pes, n_pes), int)
            for me in range(n_pes):
                call = Collective(name, me, n_pes, elements, 4, root=ROOT % n_pes)
                for pe, nbytes in pairs_of(call):
                    assert nbytes
                    found[me, pe] += nbytes
            if n_pes > ROOT:
                np.testing.assert_array_equal(found, 4 * needed(name, n_pes, elements))


def _hccl(x: np.ndarray) -> None:
    with mc2.Hccl(emu.world()) as h:
        h.AllReduce(x, np.empty(12, np.float32), 6, repeat=2, commit=True)
        h.ReduceScatter(x, np.empty(4, np.float32), 4, commit=True)


ROWS = [[0, 3, 0], [1, 0, 2], [1, 1, 1]]
"""Rows that each of three PEs sends to each."""


def _rows_by_hccl(x: np.ndarray) -> None:
    me = emu.world().my_pe
    sent, received = ROWS[me], [row[me] for row in ROWS]
    starts = [[0, c[0], c[0] + c[1]] for c in (sent, received)]
    with mc2.Hccl(emu.world()) as h:
        h.AlltoAllV(x, sent, starts[0], None, x + 1, received, starts[1], commit=True)


CALLS = {
    "broadcast": (
        lambda w, x: w.broadcast(x if w.my_pe == 1 else None, root=1), [[0, 0, 0], [48, 0, 48], [0, 0, 0]],
    ),
    "scatter": (lambda w, x: w.scatter(x.reshape(3, 4), 0), [[0, 16, 16], [0, 0, 0], [0, 0, 0]]),
    "gather": (lambda w, x: w.gather(x, root=2), [[0, 0, 48], [0, 0, 48], [0, 0, 0]]),
    "all_reduce": (lambda w, x: w.all_reduce(x), [[0, 32, 32], [32, 0, 32], [32, 32, 0]]),
    "all_reduce again": (lambda w, x: w.all_reduce(x), [[0, 32, 32], [32, 0, 32], [32, 32, 0]]),
    "all_to_all_v": (
        lambda w, x: w.all_to_all_v(np.ones((3, 2), np.int8), ROWS[w.my_pe]),
        [[0, 6, 0], [2, 0, 4], [2, 2, 0]],
    ),
    "permute": (lambda w, x: w.permute(x, [(0, 2), (2, 1)]), [[0, 0, 48], [0, 0, 0], [0, 48, 0]]),
    "of a group": (
        lambda w, x: w.group("two", [2, 0]).all_gather(x) if w.my_pe != 1 else None,
        [[0, 0, 48], [0, 0, 0], [48, 0, 0]],
    ),
    "of a symmetric array": (
        lambda w, x: w.all_gather(w.alloc((5,), np.float64)), [[0, 40, 40], [40, 0, 40], [40, 40, 0]],
    ),
    "Hccl": (lambda _, x: _hccl(x), [[0, 48, 48], [48, 0, 48], [48, 48, 0]]),
    "AlltoAllV": (lambda _, x: _rows_by_hccl(x), [[0, 12, 0], [4, 0, 8], [4, 4, 0]]),
}  # fmt: skip
"""Calls, given the World and 48 bytes, and the bytes from each PE (row) to each."""


def run_calls() -> dict[str, list[int]]:
    world, traffic = emu.world(), Traffic()
    traffic.watch(world)
    found = {}
    for name, (call, _) in CALLS.items():
        traffic.bytes.clear()
        call(world, np.ones(12, np.float32))
        assert all(source == world.my_pe for source, _ in +traffic.bytes)
        found[name] = [traffic.bytes[world.my_pe, pe] for pe in range(world.n_pes)]
    return found


@pytest.mark.parametrize("files", [(), ("run.emutrace",)])
def test_collectives_of_three_pes(files: tuple[str, ...], tmp_path: Path) -> None:
    """Of a World that is recorded, too."""
    rows = emu.launch(run_calls, 3, timeout=60, trace=[tmp_path / file for file in files])
    for name, (_, wanted) in CALLS.items():
        assert [row[name] for row in rows] == wanted, name


def run_words() -> int:
    world, traffic = emu.world(), Traffic()
    word, out = world.alloc(1, np.int64), np.zeros(1, np.int64)
    traffic.watch(world)
    other = 1 - world.my_pe
    world.fetch_add(word, 1, other)
    world.fetch_add_nbi(out, word, 1, other)
    world.fetch_nbi(out, word, pe=other)
    world.quiet()
    return traffic.bytes[world.my_pe, other]


@pytest.mark.parametrize("files", [(), ("run.emutrace",)])
def test_atomic_operations_count_in_a_recorded_world_too(
    files: tuple[str, ...], tmp_path: Path
) -> None:
    trace = [tmp_path / file for file in files]
    assert emu.launch(run_words, 2, timeout=60, trace=trace) == [24, 24]


def test_a_collective_of_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("import emu, numpy as np\nemu.world().all_gather(np.ones(12, np.float32))")
    assert main(["run", "--count", "-n", "2", str(script)]) == 0
    text = capfd.readouterr().out
    rows = [row.split()[2:] for row in re.findall(r"^PE \d .*$", text, re.MULTILINE)]
    assert rows[2:] == [["0", "48"], ["48", "0"]]
    assert "Not counted" not in text

"""``emu run --explore`` and ``--replay``, as somebody at a terminal sees them."""

import json

import pytest

COUNT = """\
import sys
import numpy as np
import emu

world = emu.world()
count = world.alloc(1, np.int64, name="count", poison=False)
if "right" in sys.argv:
    world.fetch_add(count, 1, 0)
else:
    world.signal_op(count, world.fetch(count, 0) + 1, 0)
world.barrier()
assert world.fetch(count, 0) == world.n_pes
print("counted", *sys.argv[1:])
"""


def test_an_order_that_fails_is_shown_kept_and_repeated(command):
    (command.folder / "count.py").write_text(COUNT)
    done = command("run", "-n", "2", "--explore", "100", "--seed", "7", "count.py", "wrong")
    assert done.returncode == 1
    assert "fails: PE 0: AssertionError" in done.stdout
    assert "count.py:10" in done.stdout
    assert "AssertionError" in done.stderr
    (order,) = command.folder.glob("emu-replay-7-*.json")
    assert f"emu run --replay {order.name} repeats it" in done.stdout
    assert json.loads(order.read_text())["command"][-1] == "wrong"

    again = command("run", "--replay", order.name)
    assert again.returncode == 1
    assert "The order was repeated exactly" in again.stdout
    assert "AssertionError" in again.stderr

    other = command("run", "-n", "2", "--replay", order.name, "count.py", "right")
    assert other.returncode == 0
    assert "The order could not be repeated: operation 2 was fetch count[0]" in other.stdout

    wrong = command("run", "-n", "3", "--replay", order.name, "count.py")
    assert wrong.returncode == 2
    assert "-n must be 2, as it was when the order was found, but got 3" in wrong.stderr


def test_no_failure_is_said(command):
    (command.folder / "count.py").write_text(COUNT)
    done = command("run", "-n", "2", "--explore", "5", "count.py", "right")
    assert done.returncode == 0
    assert done.stdout.startswith("No failure in 5 runs, ")
    assert "Seed " in done.stdout
    done = command("run", "-n", "2", "--explore=all", "count.py", "right")
    assert done.returncode == 0
    assert "all orders" in done.stdout
    assert not list(command.folder.glob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "1", "x.py"], "seed must only be given with --explore"),
        (["--strategy", "pct", "x.py"], "strategy must only be given with --explore"),
        (["--explore", "0", "x.py"], "must be a whole number in [1, 1048576] or all"),
        (["--explore", "some", "x.py"], "must be a whole number in [1, 1048576] or all"),
        (["--explore", "all", "--strategy", "pct", "x.py"], "strategy must not be given with"),
        (["--explore", "3", "--replay", "o.json", "x.py"], "replay must not be given with explore"),
        (["--replay", "none.json"], "replay must be a file that a failing order was written to"),
        (["--replay", "none.json", "x.py"], "replay must be a file"),
    ],
)
def test_what_is_refused(command, arguments, message):
    (command.folder / "x.py").write_text("print('ran')\n")
    done = command("run", "-n", "2", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "ran" not in done.stdout

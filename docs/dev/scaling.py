"""A discrete-event model of the transport between hosts, checked against runs, and carried to many hosts.

    python docs/dev/scaling.py            # writes docs/_static/scaling.svg, prints the tables of docs/scaling.md

PEs and agents are actors. An actor does one task after the other; a task takes a core. In the runs that the model is fitted
to, all hosts were processes of one machine, and shared its two cores; in what is predicted each host has cores of its own.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

MEASURED = {
    (2, 1): {"barrier": 307, "put": 438},
    (3, 1): {"barrier": 831, "put": 446},
    (4, 1): {"barrier": 1483, "put": 382},
    (2, 4): {"barrier": 610, "put": 406},
    (4, 4): {"barrier": 3391, "put": 400},
}
"""Microseconds, lower quartile, by (hosts, PEs of each): 2 cores, MPICH over loopback TCP, other work on the machine."""
FITTED_TO = ((2, 1), (3, 1), (2, 4))
HEADER_BYTES, LINE, BLOCK_BYTES = 8 * 48, 64, 512
ALL_STAGING = 128 << 20


@dataclass(frozen=True)
class Costs:
    """What one step takes, in microseconds."""

    post: float = 40.0
    """A PE: a request into its port."""
    take: float = 20.0
    """An agent: taking a request."""
    send: float = 25.0
    """An agent: a record to one host."""
    receive: float = 25.0
    """An agent: a record that came."""
    wake: float = 30.0
    """Work of waking a sleeper: a core's."""
    alpha: float = 20.0
    """A message's way."""


class Machine:
    """Actors, their tasks, and the cores that these need.

    Args:
        costs: What steps take.
        cores: Cores of each pool.
    """

    def __init__(self, costs: Costs, cores: int) -> None:
        self.costs = costs
        self.now = 0.0
        self._cores = cores
        self._free: dict[int, int] = {}
        self._ready: dict[int, deque[int]] = {}
        self._tasks: dict[int, deque[tuple[float, Callable[[], None]]]] = {}
        self._pools: dict[int, int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay: float, call: Callable[[], None]) -> None:
        """Call something later."""
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, call))

    def give(self, actor: int, pool: int, takes: float, then: Callable[[], None]) -> None:
        """Give an actor a task; one that has nothing to do must be woken first."""
        tasks = self._tasks.setdefault(actor, deque())
        if not tasks:
            takes += self.costs.wake
        tasks.append((takes, then))
        if len(tasks) == 1:
            self._pools[actor] = pool
            self._ready.setdefault(pool, deque()).append(actor)
            self._dispatch(pool)

    def _dispatch(self, pool: int) -> None:
        ready = self._ready[pool]
        while ready and self._free.setdefault(pool, self._cores):
            self._free[pool] -= 1
            actor = ready.popleft()
            takes, then = self._tasks[actor][0]
            self.after(takes, lambda actor=actor, then=then: self._done(actor, pool, then))

    def _done(self, actor: int, pool: int, then: Callable[[], None]) -> None:
        self._tasks[actor].popleft()
        self._free[pool] += 1
        if self._tasks[actor]:
            self._ready[pool].append(actor)
        then()
        self._dispatch(pool)

    def run(self) -> float:
        """Run until nothing happens any more; return the time."""
        while self._events:
            self.now, _, call = heapq.heappop(self._events)
            call()
        return self.now


def barrier(costs: Costs, hosts: int, pes: int, cores: int = 0) -> float:
    """Return the time of a barrier in which each host tells every other; ``cores`` > 0 are shared by all hosts."""
    machine = Machine(costs, cores or pes + 1)

    def pool(host: int) -> int:
        return 0 if cores else host

    taken, arrived = [0] * hosts, [0] * hosts

    def release(host: int) -> None:
        arrived[host] += 1
        if arrived[host] == hosts:
            for pe in range(pes):
                machine.give(hosts + host * pes + pe, pool(host), 0.0, lambda: None)

    def take(host: int) -> None:
        taken[host] += 1
        if taken[host] < pes:
            return
        release(host)
        for step in range(1, hosts):
            to = (host + step) % hosts
            machine.give(
                host,
                pool(host),
                costs.send,
                lambda to=to: machine.after(costs.alpha, lambda: arrive(to)),
            )

    def arrive(host: int) -> None:
        machine.give(host, pool(host), costs.receive, lambda: release(host))

    def post(host: int) -> None:
        machine.give(host, pool(host), costs.take, lambda: take(host))

    for host in range(hosts):
        for pe in range(pes):
            machine.give(
                hosts + host * pes + pe, pool(host), costs.post, lambda host=host: post(host)
            )
    return machine.run()


def dissemination(costs: Costs, hosts: int, pes: int) -> float:
    """Return the time of a barrier in which hosts tell one other each, in as many rounds as the number has bits."""
    first = costs.wake + costs.post + pes * costs.take + costs.wake
    each = costs.send + costs.alpha + costs.wake + costs.receive
    return first + (hosts - 1).bit_length() * each + costs.wake


def put(costs: Costs, hosts: int, pes: int, cores: int = 0) -> float:
    """Return the time of a small put with its quiet, all others asleep."""
    there = (
        costs.post + costs.wake + costs.take + costs.send + costs.alpha + costs.wake + costs.receive
    )
    return there + costs.send + costs.alpha + costs.wake + costs.receive + costs.wake


MODELS = {"barrier": barrier, "put": put}


def error(costs: Costs, shapes: tuple[tuple[int, int], ...]) -> float:
    """Return the mean relative error of the model."""
    off = [
        abs(MODELS[name](costs, *shape, cores=2) / took - 1)
        for shape in shapes
        for name, took in MEASURED[shape].items()
    ]
    return sum(off) / len(off)


def fit() -> Costs:
    """Return the costs that are nearest to the measured times of ``FITTED_TO``."""
    draw = random.Random(22)
    best, least = Costs(), error(Costs(), FITTED_TO)
    for _ in range(4000):
        changed = {
            f.name: max(2.0, getattr(best, f.name) * draw.uniform(0.8, 1.25)) for f in fields(best)
        }
        tried = replace(best, **changed)
        found = error(tried, FITTED_TO)
        if found < least:
            best, least = tried, found
    return best


def table_bytes(hosts: int, pes: int) -> int:
    """Return what a host touches of one group's headers and staging memory, its own and the mirrors."""
    n = hosts * pes
    slot = max(LINE, min(8 << 20, ALL_STAGING // n) // n // LINE * LINE)
    return n * (2 * (HEADER_BYTES + 8 * n) + 2 * slot * n + 2 * slot + BLOCK_BYTES)


def main() -> None:
    """Fit, check, predict, draw."""
    costs = fit()
    print("costs, us:", ", ".join(f"{f.name} {getattr(costs, f.name):.0f}" for f in fields(costs)))
    for shape, times in MEASURED.items():
        model = {name: MODELS[name](costs, *shape, cores=2) for name in times}
        print(shape, *(f"{k}: measured {v}, model {model[k]:.0f} us;" for k, v in times.items()))
    rest = tuple(shape for shape in MEASURED if shape not in FITTED_TO)
    print(f"mean error: fitted {error(costs, FITTED_TO):.0%}, checked {error(costs, rest):.0%}")
    hosts = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    every = [barrier(costs, h, 8) / 1e3 for h in hosts]
    tree = [dissemination(costs, h, 8) / 1e3 for h in hosts]
    to_all = [8 * 8 * h * (costs.send + costs.receive) / 1e6 for h in hosts]
    packed = [8 * h * (costs.send + costs.receive) / 1e6 for h in hosts]
    memory = [table_bytes(h, 8) / 2**30 for h in hosts]
    beats = [100 * (h - 1) * (costs.send + costs.receive) / 1e6 for h in hosts]
    print(
        "hosts, barrier ms, by dissemination, all_to_all s, packed, tables GiB, signs of life % of a core"
    )
    for row in zip(hosts, every, tree, to_all, packed, memory, beats, strict=True):
        print("| " + " | ".join(f"{x:.3g}" for x in row) + " |")
    print(
        f"small requests: {1e6 / (costs.take + costs.send):.0f} a second out of a host, {1e6 / (costs.send + costs.receive):.0f} in"
    )
    draw_all(hosts, every, tree, to_all, packed, memory)


def draw_all(
    hosts: list[int],
    every: list[float],
    tree: list[float],
    to_all: list[float],
    packed: list[float],
    memory: list[float],
) -> None:
    """Draw what is predicted."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "emu"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    axes[0].loglog(hosts, every, "o-", label="each host tells all (as built)")
    axes[0].loglog(hosts, tree, "s--", label="dissemination")
    axes[0].set_ylabel("barrier, ms")
    axes[1].loglog(hosts, to_all, "o-", label="a record a PE (as built)")
    axes[1].loglog(hosts, packed, "s--", label="a record a host")
    axes[1].set_ylabel("small all_to_all, s")
    axes[2].loglog(hosts, memory, "o-", label="headers and staging of a group")
    axes[2].set_ylabel("GiB on each host")
    for each in axes:
        each.set_xlabel("hosts of 8 PEs")
        each.axvline(128, color="grey", linewidth=0.8, linestyle=":")
        each.legend(fontsize=8)
    target = Path(__file__).parents[1] / "_static" / "scaling.svg"
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()

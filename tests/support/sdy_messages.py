"""Collectives by messages: the algorithms that predictions assume, carried out and counted.

A `Network` passes arrays between the processes of one group, counts the bytes that each sends, and
checks that no process sends or receives twice in a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Combine = Callable[[Array, Array], Array]


class Network:
    """Messages between numbered processes, in steps."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.sent = [0] * size
        self.steps = 0

    def step(self, messages: dict[int, tuple[int, Array]]) -> dict[int, Array]:
        """Send ``{source: (target, array)}``; return what each target receives."""
        targets = [target for target, _ in messages.values()]
        assert len(set(targets)) == len(targets), "a process receives twice in a step"
        self.steps += 1
        found = {}
        for source, (target, array) in messages.items():
            assert source != target
            self.sent[source] += array.nbytes
            found[target] = array.copy()
        return found


def ring_all_gather(network: Network, parts: Sequence[Array]) -> list[list[Array]]:
    """Return all parts for each process; each step passes on what came in the step before."""
    size = network.size
    known = [{i: part} for i, part in enumerate(parts)]
    for step in range(size - 1):
        messages = {i: ((i + 1) % size, known[i][(i - step) % size]) for i in range(size)}
        for target, array in network.step(messages).items():
            known[target][(target - 1 - step) % size] = array
    return [[each[i] for i in range(size)] for each in known]


def ring_reduce_scatter(
    network: Network, chunks: list[list[Array]], combine: Combine
) -> list[tuple[int, Array]]:
    """Return for each process the number and the sum of the chunk that it ends with."""
    size = network.size
    chunks = [list(each) for each in chunks]
    for step in range(size - 1):
        messages = {i: ((i + 1) % size, chunks[i][(i - step) % size]) for i in range(size)}
        for target, array in network.step(messages).items():
            place = (target - 1 - step) % size
            chunks[target][place] = combine(array, chunks[target][place])
    return [((i + 1) % size, chunks[i][(i + 1) % size]) for i in range(size)]


def ring_all_reduce(network: Network, arrays: Sequence[Array], combine: Combine) -> list[Array]:
    """Scatter the sums of chunks, then gather them."""
    size = network.size
    chunks = [np.array_split(array.reshape(-1), size) for array in arrays]
    owned = ring_reduce_scatter(network, chunks, combine)
    known = [dict([each]) for each in owned]
    for step in range(size - 1):
        messages = {i: ((i + 1) % size, known[i][(i + 1 - step) % size]) for i in range(size)}
        for target, array in network.step(messages).items():
            known[target][(target - step) % size] = array
    return [
        np.concatenate([each[i] for i in range(size)]).reshape(arrays[0].shape) for each in known
    ]


def doubling_all_reduce(network: Network, arrays: Sequence[Array], combine: Combine) -> list[Array]:
    """Exchange whole arrays with the process at distance 1, 2, 4 …"""
    values = [array.copy() for array in arrays]
    distance = 1
    while distance < network.size:
        messages = {i: (i ^ distance, values[i]) for i in range(network.size)}
        for target, array in network.step(messages).items():
            values[target] = combine(array, values[target])
        distance *= 2
    return values


def doubling_all_gather(network: Network, parts: Sequence[Array]) -> list[list[Array]]:
    """Exchange all that is known with the process at distance 1, 2, 4 …"""
    size = network.size
    known = [{i: part} for i, part in enumerate(parts)]
    distance = 1
    while distance < size:
        order = [sorted(each) for each in known]
        messages = {
            i: (i ^ distance, np.stack([known[i][j] for j in order[i]])) for i in range(size)
        }
        for target, array in network.step(messages).items():
            known[target].update(zip(order[target ^ distance], array, strict=True))
        distance *= 2
    return [[each[i] for i in range(size)] for each in known]


def halving_reduce_scatter(
    network: Network, chunks: list[list[Array]], combine: Combine
) -> list[tuple[int, Array]]:
    """Exchange halves: each process ends with the sum of the chunk of its number."""
    size = network.size
    known = [dict(enumerate(each)) for each in chunks]
    distance = size // 2
    while distance:
        messages, numbers = {}, {}
        for i in range(size):
            away = [j for j in known[i] if (j ^ i) & distance]
            numbers[i ^ distance] = away
            messages[i] = (i ^ distance, np.stack([known[i].pop(j) for j in away]))
        for target, array in network.step(messages).items():
            for j, each in zip(numbers[target], array, strict=True):
                known[target][j] = combine(each, known[target][j])
        distance //= 2
    return [(i, known[i][i]) for i in range(size)]


def pairwise_all_to_all(network: Network, chunks: list[list[Array]]) -> list[list[Array]]:
    """In step s, each process sends to the process s places on what is meant for it."""
    size = network.size
    known = [{i: chunks[i][i]} for i in range(size)]
    for step in range(1, size):
        messages = {i: ((i + step) % size, chunks[i][(i + step) % size]) for i in range(size)}
        for target, array in network.step(messages).items():
            known[target][(target - step) % size] = array
    return [[each[i] for i in range(size)] for each in known]


def tree_broadcast(network: Network, value: Array) -> list[Array]:
    """Process 0 has the value; whoever has it sends it on."""
    known = {0: value}
    distance = 1
    while distance < network.size:
        messages = {i: (i + distance, known[i]) for i in list(known) if i + distance < network.size}
        known.update(network.step(messages))
        distance *= 2
    return [known[i] for i in range(network.size)]

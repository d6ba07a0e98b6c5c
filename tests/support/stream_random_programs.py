"""Random programs of operators, events and waits over three streams, and an exact, slow account of their order."""

from __future__ import annotations

import random
from typing import Any

N_TENSORS, N_EVENTS, SIZE = 3, 2, 12


def make(rng: random.Random, length: int) -> list[tuple[Any, ...]]:
    """Return the steps of a program."""
    kinds = {
        "add": 8,
        "fill": 3,
        "sum": 3,
        "record": 3,
        "wait_event": 3,
        "wait_stream": 3,
        "synchronize_event": 1,
        "synchronize_stream": 1,
        "item": 1,
        "synchronize": 0.2,
    }
    steps: list[tuple[Any, ...]] = []
    for _ in range(length):
        (kind,) = rng.choices(list(kinds), kinds.values())
        target, source = rng.sample(range(N_TENSORS), 2)  # operands that overlap are refused
        first, second = _view(rng, target), _view(rng, source)
        steps.append(
            (kind, rng.randrange(3), rng.randrange(3), rng.randrange(N_EVENTS), first, second)
        )
    return steps


def _view(rng: random.Random, tensor: int) -> tuple[int, int, int, int]:
    """Return a tensor's number, and a slice of it: of four elements, as all operands."""
    step = rng.choice((1, 1, 2, 3))
    start = rng.randrange(SIZE - 3 * step)
    return tensor, start, start + 3 * step + 1, step


def elements(view: tuple[int, int, int, int]) -> set[tuple[int, int]]:
    tensor, *where = view
    return {(tensor, i) for i in range(*where)}


def racy_steps(steps: list[tuple[Any, ...]]) -> list[int]:
    """Return the steps that use what an earlier one uses, one of them to write, and that no path orders."""
    edges: dict[Any, set[Any]] = {}
    last: dict[Any, Any] = {}
    events: dict[int, Any] = {}
    uses: list[tuple[int, set[Any], set[Any]]] = []
    found = []

    def node(name: Any, line: Any, *after: Any) -> None:
        edges[name] = {n for n in (last.get(line), *after) if n is not None}
        last[line] = name

    for number, (kind, one, other, event, first, second) in enumerate(steps):
        host = last.get("host")
        reads: set[Any] = set()
        writes: set[Any] = set()
        if kind == "record":
            node(number, one)
            events[event] = number
        elif kind == "wait_event":
            node(number, one, events.get(event))
        elif kind == "wait_stream":
            node(number, one, last.get(other))
        elif kind == "synchronize_event":
            node(number, "host", events.get(event))
        elif kind == "synchronize_stream":
            node(number, "host", last.get(one))
        elif kind == "synchronize":
            node(number, "host", *(last.get(line) for line in range(3)))
        else:
            node(number, one, host)
            if kind == "fill":
                writes = elements(first)
            else:
                reads = elements(second)
                writes = elements(first) if kind == "add" else set()
            if kind == "item":
                reads = {min(reads)}
                node((number, "done"), "host", number)
        before = _reachable(edges, number)
        if any((writes & (r | w)) or (reads & w) for n, r, w in uses if n not in before):
            found.append(number)
        uses.append((number, reads, writes))
    return found


def _reachable(edges: dict[Any, set[Any]], start: Any) -> set[Any]:
    seen: set[Any] = set()
    pending = [start]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending.extend(edges[node])
    return seen


def reported_steps(steps: list[tuple[Any, ...]]) -> list[int]:
    """Return the steps that the check reports."""
    import torch

    from emu.accelerator import stream_check
    from emu.accelerator.stream_errors import StreamOrderError

    stream_check.start()
    tensors = [torch.zeros(SIZE, device="cuda") for _ in range(N_TENSORS)]
    streams = [torch.cuda.Stream() for _ in range(3)]
    events = [torch.cuda.Event() for _ in range(N_EVENTS)]
    torch.cuda.synchronize()
    found = []
    for number, (kind, one, other, event, first, second) in enumerate(steps):
        target, source = (tensors[t][a:b:s] for t, a, b, s in (first, second))
        stream_check.forget_reports()
        stream, to = streams[one], events[event]
        try:
            with torch.cuda.stream(stream):
                match kind:
                    case "add":
                        target.add_(source)
                    case "fill":
                        target.fill_(1)
                    case "sum":
                        source.sum()
                    case "item":
                        source[0].item()
                    case "record":
                        to.record()
                    case "wait_event":
                        stream.wait_event(to)
                    case "wait_stream":
                        stream.wait_stream(streams[other])
                    case "synchronize_event":
                        to.synchronize()
                    case "synchronize_stream":
                        stream.synchronize()
                    case "synchronize":
                        torch.cuda.synchronize()
        except StreamOrderError:
            found.append(number)
            if kind == "item":  # what was reported was not done, and so the host did not wait
                stream.synchronize()
    torch.cuda.synchronize()
    stream_check.stop()
    return found


def compare(seeds: range, length: int) -> list[tuple[int, list[int], list[int]]]:
    """Return the seeds of programs of which the check and the account say different things, in this process."""
    import emu.accelerator

    emu.accelerator.install()
    wrong = []
    for seed in seeds:
        steps = make(random.Random(seed), length)
        expected, found = racy_steps(steps), reported_steps(steps)
        if expected != found:
            wrong.append((seed, expected, found))
    return wrong

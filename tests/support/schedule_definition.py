"""What a program of puts, signals, fences and reads may do: all outcomes, by trying every order on a list of integers.

A program is a tuple of operations for each PE; all words are PE 0's:

* ``("put", word, value)``, ``("add", word, value)``: a store that arrives at any later time, an ADD that does not return;
* ``("fence",)``, ``("quiet",)``: orders the PE's stores; lets them arrive;
* ``("fetch_add", word, value)``, ``("get", word)``: are done at once, and their results are the outcome.

At its end all stores of a PE arrive. The outcome has the results of each PE, and the words at the very end.
"""

from __future__ import annotations

import random
from typing import TypeVar

import numpy as np

import emu
from emu.comm.ops import AtomicOp

WORDS = 2

Operation = tuple[object, ...]
Program = tuple[tuple[Operation, ...], ...]
Outcome = tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]

T = TypeVar("T")

_Store = tuple[str, int, int, int]  # what, word, value, epoch
_State = tuple[
    tuple[int, ...],  # operations done
    tuple[tuple[_Store, ...], ...],  # stores on their way
    tuple[int, ...],  # epochs
    tuple[tuple[int, ...], ...],  # results
    tuple[int, ...],  # words
]


def random_program(seed: int, n_pes: int, length: int) -> Program:
    """Return a program with ``length`` operations on each PE."""
    draw = random.Random(seed)

    def one() -> Operation:
        kind = draw.choice(["put", "put", "add", "fence", "quiet", "fetch_add", "get", "get"])
        if kind in ("fence", "quiet"):
            return (kind,)
        word = draw.randrange(WORDS)
        return (kind, word) if kind == "get" else (kind, word, draw.randint(1, 9))

    return tuple(tuple(one() for _ in range(length)) for _ in range(n_pes))


def all_outcomes(program: Program, *, late: bool = True) -> set[Outcome]:
    """Return every outcome that a program may have; ``late``: whether stores may arrive late."""
    n = len(program)
    start: _State = ((0,) * n, ((),) * n, (0,) * n, ((),) * n, (0,) * WORDS)
    seen: set[_State] = set()
    left, found = [start], set()
    while left:
        state = left.pop()
        if state in seen:
            continue
        seen.add(state)
        _, stores, _, results, words = state
        following = [s for pe in range(n) for s in _followers(program, state, pe, late=late)]
        if not following:
            assert not any(stores)
            found.add((results, words))
        left += following
    return found


def _followers(program: Program, state: _State, pe: int, *, late: bool) -> list[_State]:
    done, stores, epochs, results, words = state
    found = []
    mine = stores[pe]
    first = min((s[3] for s in mine), default=0)
    for i, store in enumerate(mine):
        if store[3] == first:
            rest = (*mine[:i], *mine[i + 1 :])
            found.append((done, _with(stores, pe, rest), epochs, results, _stored(words, store)))
    if done[pe] == len(program[pe]):
        return found
    operation = program[pe][done[pe]]
    after = _with(done, pe, done[pe] + 1)
    kind, *rest_of = operation
    if kind == "fence":
        found.append((after, stores, _with(epochs, pe, epochs[pe] + 1), results, words))
    elif kind == "quiet":
        for store in mine:
            words = _stored(words, store)
        found.append((after, _with(stores, pe, ()), epochs, results, words))
    elif kind in ("put", "add"):
        store = (str(kind), int(str(rest_of[0])), int(str(rest_of[1])), epochs[pe])
        if late:
            found.append((after, _with(stores, pe, (*mine, store)), epochs, results, words))
        else:
            found.append((after, stores, epochs, results, _stored(words, store)))
    else:
        word = int(str(rest_of[0]))
        if kind == "fetch_add":  # comes behind what a fence separates from it
            for store in mine:
                if store[3] < epochs[pe]:
                    words = _stored(words, store)
            stores = _with(stores, pe, tuple(s for s in mine if s[3] == epochs[pe]))
        seen = words[word]
        if kind == "fetch_add":
            words = _with(words, word, seen + int(str(rest_of[1])))
        found.append((after, stores, epochs, _with(results, pe, (*results[pe], seen)), words))
    return found


def _stored(words: tuple[int, ...], store: _Store) -> tuple[int, ...]:
    what, word, value, _ = store
    return _with(words, word, value if what == "put" else words[word] + value)


def _with(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def run_on_pe(program: Program) -> tuple[list[int], list[int]]:
    """Run a PE's part of a program; return its results and, on PE 0, the words at the end."""
    world = emu.world()
    words = world.alloc(WORDS, np.int64, name="words", poison=False)
    results: list[int] = []
    for kind, *rest in program[world.my_pe]:
        word, value = (*rest, 0, 0)[:2]
        if kind == "put":
            world.put(words[word : word + 1], np.array([value]), 0)
        elif kind == "add":
            world.signal_op(words, value, 0, op=AtomicOp.ADD, index=word)
        elif kind == "fence":
            world.fence()
        elif kind == "quiet":
            world.quiet()
        elif kind == "fetch_add":
            results.append(world.fetch_add(words, value, 0, index=word))
        else:
            results.append(int(world.get(words, 0)[word]))
    world.barrier()
    return results, [
        world.fetch(words, 0, index=i) for i in range(WORDS)
    ] if not world.my_pe else []

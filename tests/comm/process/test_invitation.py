"""Processes that somebody else starts make up a World."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np
import pytest

import emu
from emu.comm.errors import DeadlockError, PEDiedError
from emu.comm.process.invitation import Gathering

_context = multiprocessing.get_context("fork")


def member(invitation, pe, results, how, ended):
    if how == "dies" and pe == 1:
        os._exit(1)
    world = invitation.accept(pe)
    assert emu.world() is world
    try:
        if how == "misses" and pe == 1:
            ended.wait()  # it does nothing that another PE could wait for
            return
        x = np.full(3, pe + 1.0)
        results.put((pe, world.all_reduce(x).tolist()))
    except (DeadlockError, PEDiedError) as error:
        results.put((pe, type(error).__name__))
    invitation.leave(pe)


def outcomes(how, n=2, timeout=60.0):
    gathering = Gathering(n, timeout)
    results, ended = _context.SimpleQueue(), _context.Event()
    started = [
        _context.Process(target=member, args=(gathering.invitation, pe, results, how, ended))
        for pe in range(n)
    ]
    for each in started:
        each.start()
    gathering.watch(started)
    found = dict(results.get() for _ in range(n if how == "works" else 1))
    ended.set()
    for each in started:
        each.join()
    return found


def run(how, expected, timeout):
    assert outcomes(how, timeout=timeout) == expected


@pytest.mark.parametrize(
    ("how", "expected", "timeout"),
    [
        ("works", {0: [3.0] * 3, 1: [3.0] * 3}, 60.0),
        ("dies", {0: "PEDiedError"}, 60.0),
        ("misses", {0: "DeadlockError"}, 2.0),
    ],
)
def test_invited_processes_are_pes(how, expected, timeout) -> None:
    emu.launch(run, 1, args=(how, expected, timeout))

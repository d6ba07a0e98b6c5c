"""Accesses are where NumPy finds the elements of the same views."""

from __future__ import annotations

import random

import numpy as np

from emu.stablehlo.compiled.fusion.access import (
    Access,
    are_nested,
    coalesced,
    contiguous,
    cuts,
    necessary_cuts,
)


def places(access: Access) -> np.ndarray:
    """Return the place of each element, in row-major order."""
    found = np.array(access.offset)
    for extent, stride in access.dimensions:
        found = found[..., None] + np.arange(extent) * stride
    return found.reshape([extent for extent, _ in access.dimensions])


def test_chains_of_moves_find_the_elements_that_numpy_finds() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        shape = [rng.choice((1, 2, 3, 4, 6)) for _ in range(rng.randint(1, 4))]
        access, view = contiguous(shape), np.arange(int(np.prod(shape))).reshape(shape)
        for _ in range(rng.randint(1, 5)):
            access, view = _moved(rng, access, view)
            np.testing.assert_array_equal(places(access), view)
        whole = sorted(necessary_cuts(access) | {view.size} - {1})
        assert are_nested(whole)
        split = Access(access.split([c for c in whole if c > 1]), access.offset)
        np.testing.assert_array_equal(places(split).reshape(-1), view.reshape(-1))


def _moved(rng: random.Random, access: Access, view: np.ndarray) -> tuple[Access, np.ndarray]:
    kind = rng.choice(("transpose", "broadcast", "slice", "reshape"))
    if kind == "transpose":
        order = rng.sample(range(view.ndim), view.ndim)
        return access.transpose(order), view.transpose(order)
    if kind == "broadcast" and view.ndim < 6:
        place = rng.randint(0, view.ndim)
        shape = list(view.shape)
        shape = [rng.choice((1, 3)) if n == 1 else n for n in shape]
        dims = [d + (d >= place) for d in range(view.ndim)]
        shape.insert(place, 2)
        return access.broadcast(dims, shape), np.broadcast_to(np.expand_dims(view, place), shape)
    if kind == "slice" and view.ndim:
        starts = [rng.randrange(n) for n in view.shape]
        limits = [rng.randint(s + 1, n) for s, n in zip(starts, view.shape, strict=True)]
        steps = [rng.choice((1, 2)) for _ in view.shape]
        ranges = tuple(slice(*each) for each in zip(starts, limits, steps, strict=True))
        return access.slice(starts, limits, steps), view[ranges]
    for shape in ((view.size,), (*view.shape[:1], -1), (1, *view.shape, 1)):
        other = view.reshape(shape)
        found = access.reshape(other.shape)
        if found is not None:
            return found, other
    return access, view


def test_a_reshape_that_must_move_elements_is_refused() -> None:
    turned = contiguous((4, 6)).transpose((1, 0))
    assert turned.reshape((24,)) is None
    assert turned.reshape((6, 2, 2)) == Access(((6, 1), (2, 12), (2, 6)))
    assert contiguous((4, 6)).reshape((24,)) == contiguous((24,))
    assert Access(((4, 0), (6, 0))).reshape((3, 8)) == Access(((3, 0), (8, 0)))


def test_neighbours_are_joined_where_one_stride_leads_through_both() -> None:
    assert coalesced([(2, 12), (1, 5), (3, 4), (4, 1)]) == ((24, 1),)
    assert coalesced([(2, 0), (3, 4), (4, 1)]) == ((2, 0), (12, 1))
    assert cuts((2, 1, 3, 4)) == {4, 12, 24}
    assert are_nested({4, 12, 24})
    assert not are_nested({4, 6, 24})

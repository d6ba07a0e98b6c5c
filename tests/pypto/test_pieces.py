"""Ops wait for the tiles that they need, and for no others."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from campaigns import shares
from hypothesis import given
from hypothesis import strategies as st

import emu
from emu import pypto
from emu.pypto import distributed as dist
from emu.pypto import operation, submission
from emu.pypto.pieces import MOST_PIECES, blocks_of
from emu.pypto.symbolic import overlaps
from emu.pypto.waits import TileWait

shapes = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=3)


@given(shapes)
def test_pieces_divide_a_rectangle_into_whole_tiles(axes: list[tuple[int, int]]) -> None:
    shape, tile = (tuple(x) for x in zip(*axes, strict=True))
    count = np.zeros(shape, int)
    blocks = blocks_of(shape, tile)
    for low, extent in blocks:
        count[tuple(slice(a, a + n) for a, n in zip(low, extent, strict=True))] += 1
        for a, n, size, step in zip(low, extent, shape, tile, strict=True):
            assert a % step == 0
            assert n % step == 0 or a + n == size
    assert (count == 1).all()
    assert len(blocks) <= MOST_PIECES
    tiles = math.prod(-(-size // step) for size, step in axes)
    if tiles <= MOST_PIECES:
        assert len(blocks) == tiles


def test_rectangles_overlap_where_they_share_an_element() -> None:
    assert overlaps((0, 0), (4, 4), (3, 3), (1, 1))
    assert not overlaps((0, 0), (4, 4), (4, 0), (2, 4))


ROWS, COLUMNS, TILES = 4, 24, 3


def _multiplied(t):
    matrix = np.linspace(-1, 1, COLUMNS**2, dtype=np.float32).reshape(COLUMNS, COLUMNS)
    bias = pypto.full([COLUMNS], 1.0, pypto.DT_FP32)
    product = pypto.matmul(t, pypto.from_numpy(matrix), bias=bias)
    return pypto.matmul(product, pypto.from_numpy(matrix), b_trans=True, accumulate=product)


def _normalised(t):
    centred = t - pypto.amax(t, -1, True)
    return pypto.softmax(pypto.rms_norm(centred)) * pypto.mean(t, -1, True)


REPLIES = {
    "element by element": lambda t: pypto.add(pypto.mul(t, 2.0), 1.0),
    "products": _multiplied,
    "rows": _normalised,
    "attention": lambda t: pypto.softmax(_multiplied(t)) * pypto.rms_norm(t) + t,
}
"""What PE 1 does with a tile; each row of the result is made of the same row."""


@pypto.frontend.jit
def systolic(x: pypto.Tensor, out: pypto.Tensor, columns: int, reply: str) -> None:
    """Each tile of PE 0 but the first is made of what PE 1 replies to the tile before it."""
    me = int(dist.my_symbolic_pe("world"))
    shape = [ROWS * TILES, COLUMNS]
    there = dist.create_shmem_tensor("world", 2, pypto.DT_FP32, shape)
    back = dist.create_shmem_tensor("world", 2, pypto.DT_FP32, shape)
    pypto.set_vec_tile_shapes(ROWS, columns)
    if me == 0:
        answered = dist.shmem_wait_until(back, 1, 1)
        mine = pypto.tensor(shape, pypto.DT_FP32)
        mine[0:, :] = x
        for tile in range(1, TILES):
            low = [(tile - 1) * ROWS, 0]
            mine[tile * ROWS :, :] = dist.shmem_get(back, 0, [ROWS, COLUMNS], low, pred=[answered])
        stored = dist.shmem_put(mine, [0, 0], there, 1)
        dist.shmem_signal(there, 0, 1, target_pe=1, pred=[stored])
        out[:, :] = mine
    else:
        arrived = dist.shmem_wait_until(there, 0, 1)
        got = dist.shmem_get(there, 1, pred=[arrived])
        answer = REPLIES[reply](got)
        stored = dist.shmem_put(answer, [0, 0], back, 0)
        dist.shmem_signal(back, 1, 1, target_pe=0, pred=[stored])
        out[:, :] = answer


def _systolic(columns: int, schedule: str, reply: str, backend: str) -> None:
    pypto.set_options(backend=backend)
    operation.LEAST_ELEMENTS = 1
    world = emu.world()
    pypto.set_schedule(schedule, world.my_pe)
    x = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    out = np.zeros((ROWS * TILES, COLUMNS), np.float32)
    systolic(x, out, columns, reply)
    rows = [x]
    for _ in range(TILES):
        rows.append(replied(rows[-1], reply))
    expected = np.concatenate(rows[:-1] if world.my_pe == 0 else rows[1:])
    np.testing.assert_array_equal(out, expected)


def replied(row: np.ndarray, reply: str) -> np.ndarray:
    """Return what PE 1 replies to a row of tiles, computed alone."""
    found = np.zeros_like(row)

    @pypto.frontend.jit
    def alone(t, out):
        out[:, :] = REPLIES[reply](t)

    alone(row, found)
    return found


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("schedule", ["program", "random"])
@pytest.mark.parametrize("columns", [COLUMNS, 7], ids=["rows", "tiles of two axes"])
@pytest.mark.parametrize("reply", REPLIES)
def test_tiles_that_wait_for_answers_to_other_tiles(
    reply: str, columns: int, schedule: str, backend: str
) -> None:
    emu.launch(_systolic, 2, args=(columns, schedule, reply, backend), timeout=60)


# --- random programs --------------------------------------------------------------------------------


class Exchange:
    """A random kernel: a wait whose tiles come in a random order, a get, ops, a put, and all of that once more."""

    def __init__(self, seed: int, is_exact: bool) -> None:
        self.seed, self.is_exact = seed, is_exact
        rng = random.Random(seed)
        self.shape = [rng.randrange(1, 13), rng.randrange(1, 20)]
        self.tile = [rng.randrange(1, 1 + n) for n in self.shape]
        numbers = np.random.default_rng(seed)
        self.values = numbers.standard_normal((2, *self.shape)).astype(np.float32)

    def run(self, backend: str, schedule: str, seed: int) -> list[np.ndarray]:
        """Return what the program computes and what it stores."""
        rng = random.Random(self.seed)
        out, row = (np.zeros(self.shape, np.float32) for _ in range(2))
        kernel = pypto.frontend.jit(schedule=schedule, seed=seed)(self.kernel)
        with pypto.set_options(backend=backend):
            stored = kernel(self.values[0], self.values[1], out, row, rng)
        return [out, row, *stored]

    def kernel(self, x, y, out, row, rng) -> list[np.ndarray]:
        pypto.set_vec_tile_shapes(*self.tile)
        first, second = (
            dist.create_shmem_tensor("one", 1, pypto.DT_FP32, self.shape) for _ in range(2)
        )
        # All signals are there; the waits see them one by one, see ``unsteady``.
        dist.shmem_signal(first, 0, 1, target_pe=0, pred=[dist.shmem_put(x, [0, 0], first, 0)])
        begin = dist.shmem_wait_until(first, 0, 1)
        values = [self.get(rng, first, begin), y]
        for _ in range(rng.randrange(1, 7)):
            values.append(self.op(rng, values))
        result = next(v for v in reversed(values) if v.shape == tuple(self.shape))
        stored = dist.shmem_put(result, [0, 0], second, 0)
        dist.shmem_signal(second, 0, 1, target_pe=0, pred=[stored])
        again = dist.shmem_wait_until(second, 0, 1)
        values.append(self.get(rng, second, again))
        for _ in range(rng.randrange(1, 7)):
            values.append(self.op(rng, values))
            if rng.random() < 0.4:
                self.assign(rng, row, rng.choice(values))
        for value in values[-3:]:
            self.assign(rng, out, value)
        pypto.synchronize()
        return [dist.shmem_get(data, 0).numpy() for data in (first, second)]

    def get(self, rng, data, arrived):
        """Fetch all, or a part into a tensor of zeros."""
        if rng.random() < 0.6:
            return dist.shmem_get(data, 0, pred=[arrived])
        low, extent = self.rectangle(rng)
        whole = pypto.full(self.shape, 0.5, pypto.DT_FP32)
        whole[low[0] :, low[1] :] = dist.shmem_get(data, 0, extent, low, pred=[arrived])
        return whole

    def rectangle(self, rng) -> tuple[list[int], list[int]]:
        low = [rng.randrange(n) for n in self.shape]
        return low, [rng.randrange(1, n - a + 1) for n, a in zip(self.shape, low, strict=True)]

    def assign(self, rng, target, value) -> None:
        if value.shape == tuple(self.shape):
            low, extent = self.rectangle(rng)
            target[low[0] :, low[1] :] = pypto.view(value, extent, low)

    def op(self, rng, values):
        a, b = rng.choice(values), rng.choice(values[-2:])
        names = ["add", "sub", "mul", "maximum", "amax", "column", "transpose", "view", "valid"]
        along = [
            "cumsum",
            "sort",
            "topk",
            "places",
            "quantize",
            "squeeze",
            "test",
            "concat",
            "stack",
        ]
        names += ["matmul", *along]
        more = ["exp", "sum", "mean", "var", "prod", "sums", "softmax", "rms_norm"]
        name = rng.choice(names if self.is_exact else names + more)
        if name == "amax":
            return pypto.amax(a, rng.randrange(2), True) + b
        if name in ("sum", "mean", "var", "prod"):
            return getattr(pypto, name)(a, rng.randrange(2), True) + b
        if name == "sums":
            return pypto.sum(a, [0, 1], True) + pypto.amax(a, None, True) + b
        if name in along:
            return self.along(rng, name, a, b)
        if name == "matmul":
            return self.product(rng, a, b)
        if name == "rms_norm":
            return pypto.rms_norm(a, eps=1.0) + b
        if name == "column":
            return pypto.view(a, [self.shape[0], 1], [0, rng.randrange(self.shape[1])]) * b
        if name == "transpose":
            return pypto.transpose(pypto.transpose(a, 0, 1) + 1.0, 0, 1)
        if name == "view":
            low, extent = self.rectangle(rng)
            part = pypto.view(a, extent, low) * 2.0
            self.assign(rng, a if a is not values[1] else b, b)
            return pypto.amax(pypto.amax(part, 0, True), 1, True) + b
        if name == "valid":
            low, extent = self.rectangle(rng)
            part = pypto.view(a, self.shape, low, valid_shape=extent)
            return part + b
        if name == "exp":
            return pypto.exp(pypto.minimum(a, 3.0))
        if name == "softmax":
            return pypto.softmax(pypto.minimum(a, 3.0)) - b
        return getattr(pypto, name)(a, b)

    def along(self, rng, name, a, b):
        """Combine elements along an axis."""
        axis, a = rng.randrange(2), a + b
        if name == "cumsum":
            return pypto.cumsum(pypto.maximum(pypto.minimum(a, 3.0), -3.0), axis)
        if name == "sort":
            values, places = pypto.sort(a, axis)
            return values + pypto.cast(places, pypto.DT_FP32)
        if name == "topk":
            values, places = pypto.topk(a, 1, axis)
            return values * pypto.cast(places, pypto.DT_FP32) + b
        if name == "places":
            return pypto.cast(pypto.argmax(a, axis, True), pypto.DT_FP32) - b
        if name == "quantize":
            values, scales = pypto.dynamic_quantize(a, axis)
            return pypto.cast(values, pypto.DT_FP32) * scales
        if name == "concat":
            low = [rng.randrange(n + 1) if i == axis else 0 for i, n in enumerate(self.shape)]
            return pypto.view(pypto.concat([a, b], axis), self.shape, low)
        if name == "stack":
            axis = rng.randrange(3)
            return pypto.amax(pypto.stack([a, b, a], axis), axis)
        if name == "squeeze":
            return pypto.unsqueeze(pypto.amax(a, axis), axis) + b
        return pypto.where(pypto.any(a, axis, True), a, b)

    def product(self, rng, a, b):
        """Multiply by a square matrix, with transposition, bias or accumulation."""
        whole, columns = pypto.maximum(pypto.minimum(a, b), -3.0), self.shape[1]
        if rng.random() < 0.3:  # the set one, or the rows of the other ops
            pypto.set_cube_tile_shapes([1, rng.randrange(1, 5)], [4], [4])
        matrix = pypto.from_numpy(
            np.linspace(-1, 1, columns**2, dtype=np.float32).reshape(columns, -1)
        )
        kind = rng.choice(["plain", "transposed", "added", "biased"])
        product = pypto.matmul(whole, matrix)
        if kind == "transposed":
            return pypto.matmul(pypto.matmul(whole, product, b_trans=True), whole, a_trans=True)
        if kind == "added":
            return pypto.matmul(whole, matrix, b_trans=True, accumulate=product)
        if kind == "biased":
            return pypto.matmul(product, matrix, bias=pypto.full([columns], 3.0, pypto.DT_FP32))
        return product


def unsteady(rng: random.Random) -> None:
    """Let each look at the slots of a wait miss most of what has come."""
    look = TileWait.poll

    def poll(self: TileWait) -> bool:
        left, self.left = self.left, []
        hidden = [slot for slot in left if rng.random() < 0.7]
        self.left = [slot for slot in left if slot not in hidden]
        look(self)
        self.left = sorted([*self.left, *hidden])
        return not self.left

    TileWait.poll = poll  # type: ignore[method-assign]


def compare(seeds: range, least: int) -> int:
    """Run programs divided and whole, by both backends; return how many were divided."""
    operation.LEAST_ELEMENTS = least
    rng, divided = random.Random(seeds[0]), 0
    unsteady(rng)
    divide = submission.submit_divided

    def count(*args):
        nonlocal divided
        is_divided = divide(*args)
        divided += is_divided
        return is_divided

    submission.submit_divided = count
    for seed in seeds:
        exact = bool(seed % 2)
        program = Exchange(seed, exact)
        found = {
            (backend, schedule): program.run(backend, schedule, seed)
            for backend in ("native", "reference")
            for schedule in ("random", "program")
        }
        for (backend, schedule), values in found.items():
            wanted = found["reference" if exact else backend, "random"]
            for x, y in zip(values, wanted, strict=True):
                text = f"seed {seed}, {backend}, {schedule}"
                np.testing.assert_array_equal(x + 0.0, y + 0.0, err_msg=text)
    return divided


@pytest.mark.parametrize("least", [1, 60])
def test_random_programs_compute_the_same_tile_by_tile(least):
    assert emu.launch(compare, 1, args=(range(10), least))[0] > 5


@pytest.mark.slow
@pytest.mark.timeout(400)  # on a busy machine it takes more than two minutes
@pytest.mark.parametrize("share", shares(2))
def test_many_random_programs_compute_the_same_tile_by_tile(share):
    begin = 1000 * (share + 1)
    assert emu.launch(compare, 1, args=(range(begin, begin + 60), 60 * (share % 2)))[0] > 20

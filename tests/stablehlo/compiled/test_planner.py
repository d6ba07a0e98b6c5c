"""Planned memory: programs of views, updates, loops and branches compute what the reference computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stablehlo_compiled import check, function

N = 4
SQUARE = f"tensor<{N}x{N}xi32>"


class Writer:
    """Writes random programs of square matrices of integers, whose results are exact."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.values = [f"%a{i}" for i in range(count)]
        self._next = 0

    def new(self) -> str:
        self._next += 1
        return f"%v{self._next}"

    def pick(self) -> str:
        # The newest ones are used more often, so that others die.
        index = min(int(self.rng.exponential(2.5)), len(self.values) - 1)
        return self.values[-1 - index]

    def emit(self, text: str) -> str:
        name = self.new()
        self.lines.append(f"{name} = {text}")
        return name

    def scalar(self) -> str:
        value = int(self.rng.integers(-2, N + 2))
        return self.emit(f"stablehlo.constant dense<{value}> : tensor<i32>")

    def add(self, depth: int) -> None:
        kinds = ["binary", "transpose", "reverse", "flat", "update", "window", "pad", "join", "dot"]
        kinds += ["binary"] * 4 + (["loop", "branch"] * 2 if depth else [])
        found = getattr(self, f"_{self.rng.choice(kinds)}")(depth)
        self.values += found if isinstance(found, list) else [found]

    def _binary(self, depth: int) -> str:
        name = self.rng.choice(["add", "subtract", "multiply", "maximum", "xor"])
        return self.emit(f"stablehlo.{name} {self.pick()}, {self.pick()} : {SQUARE}")

    def _transpose(self, depth: int) -> str:
        return self.emit(
            f"stablehlo.transpose {self.pick()}, dims = [1, 0] : ({SQUARE}) -> {SQUARE}"
        )

    def _reverse(self, depth: int) -> str:
        return self.emit(f"stablehlo.reverse {self.pick()}, dims = [1] : {SQUARE}")

    def _flat(self, depth: int) -> str:
        flat = f"tensor<{N * N}xi32>"
        line = self.emit(f"stablehlo.reshape {self.pick()} : ({SQUARE}) -> {flat}")
        return self.emit(f"stablehlo.reshape {line} : ({flat}) -> {SQUARE}")

    def _update(self, depth: int) -> str:
        row = f"tensor<1x{N}xi32>"
        part = self.emit(
            f"stablehlo.slice {self.pick()} [{N - 1}:{N}, 0:{N}] : ({SQUARE}) -> {row}"
        )
        start = self.scalar(), self.scalar()
        return self.emit(
            f"stablehlo.dynamic_update_slice {self.pick()}, {part}, {start[0]}, {start[1]} : "
            f"({SQUARE}, {row}, tensor<i32>, tensor<i32>) -> {SQUARE}"
        )

    def _window(self, depth: int) -> str:
        row = f"tensor<{N}x1xi32>"
        start = self.scalar(), self.scalar()
        part = self.emit(
            f"stablehlo.dynamic_slice {self.pick()}, {start[0]}, {start[1]}, sizes = [{N}, 1] : "
            f"({SQUARE}, tensor<i32>, tensor<i32>) -> {row}"
        )
        return self.emit(f"stablehlo.broadcast_in_dim {part}, dims = [0, 1] : ({row}) -> {SQUARE}")

    def _pad(self, depth: int) -> str:
        value = self.scalar()
        return self.emit(
            f"stablehlo.pad {self.pick()}, {value}, low = [1, -2], high = [-1, 2], interior = [0, 0] : "
            f"({SQUARE}, tensor<i32>) -> {SQUARE}"
        )

    def _join(self, depth: int) -> str:
        half = f"tensor<{N // 2}x{N}xi32>"
        parts = [
            self.emit(f"stablehlo.slice {self.pick()} [{a}:{b}, 0:{N}] : ({SQUARE}) -> {half}")
            for a, b in ((0, N // 2), (N // 2, N))
        ]
        return self.emit(
            f"stablehlo.concatenate {', '.join(parts)}, dim = 0 : ({half}, {half}) -> {SQUARE}"
        )

    def _dot(self, depth: int) -> str:
        return self.emit(
            f"stablehlo.dot_general {self.pick()}, {self.pick()}, contracting_dims = [1] x [0] : "
            f"({SQUARE}, {SQUARE}) -> {SQUARE}"
        )

    def _inner(self, arguments: list[str], depth: int) -> Writer:
        inner = Writer(self.rng, 0)
        inner._next = self._next + 1000 * (depth + 1)
        inner.values = [*self.values, *arguments]
        for _ in range(int(self.rng.integers(0, 5))):
            inner.add(depth - 1)
        self._next = inner._next
        return inner

    def _loop(self, depth: int) -> list[str]:
        count = int(self.rng.integers(1, 4))
        name = self.new()
        carried = [f"{name}_c{i}" for i in range(count)]
        starts = [self.pick() for _ in carried]
        counter, limit = self.scalar(), int(self.rng.integers(0, 4))
        types = ", ".join(["tensor<i32>"] + [SQUARE] * count)
        # What the condition reads must still be there when the body has begun to write.
        inner = self._inner(carried, depth)
        returned = [inner.pick() for _ in carried]
        if self.rng.random() < 0.3:
            returned = [str(r) for r in self.rng.permutation(carried)]
        given = ", ".join(
            f"{c} = {s}" for c, s in zip([f"{name}_i", *carried], [counter, *starts], strict=True)
        )
        self.lines.append(
            f"{name}:{count + 1} = stablehlo.while({given}) : {types} cond {{\n"
            f"{name}_l = stablehlo.constant dense<{limit}> : tensor<i32>\n"
            f"{name}_t = stablehlo.compare LT, {name}_i, {name}_l : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            f"stablehlo.return {name}_t : tensor<i1>\n}} do {{\n"
            + "\n".join(inner.lines)
            + f"\n{name}_o = stablehlo.constant dense<1> : tensor<i32>\n"
            f"{name}_n = stablehlo.add {name}_i, {name}_o : tensor<i32>\n"
            f"stablehlo.return {', '.join([f'{name}_n', *returned])} : {types}\n}}"
        )
        return [f"{name}#{i + 1}" for i in range(count)]

    def _branch(self, depth: int) -> list[str]:
        count = int(self.rng.integers(1, 3))
        index = self.scalar()
        name = self.new()
        blocks = []
        types = ", ".join([SQUARE] * count)
        for _ in range(2):
            inner = self._inner([], depth)
            returned = ", ".join(inner.pick() for _ in range(count))
            blocks.append(
                "{\n" + "\n".join(inner.lines) + f"\nstablehlo.return {returned} : {types}\n}}"
            )
        self.lines.append(
            f'{name}:{count} = "stablehlo.case"({index}) ({", ".join(blocks)}) : '
            f"(tensor<i32>) -> ({types})"
        )
        return [f"{name}#{i}" for i in range(count)]


def program(seed: int, count: int, length: int, results: int) -> str:
    rng = np.random.default_rng(seed)
    writer = Writer(rng, count)
    for _ in range(length):
        writer.add(2)
    returned = [writer.pick() for _ in range(results)]
    types = ", ".join([SQUARE] * results)
    body = "\n".join(writer.lines) + f"\nreturn {', '.join(returned)} : {types}"
    return function(body, ", ".join(f"%a{i}: {SQUARE}" for i in range(count)), types)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 14), st.integers(1, 3))
def test_random_programs(seed: int, count: int, length: int, results: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-100, 100, (N, N)).astype(np.int32) for _ in range(count)]
    check(program(seed, count, length, results), *inputs, fallbacks=None)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 10), st.integers(1, 3))
def test_random_programs_with_donated_inputs(
    seed: int, count: int, length: int, results: int
) -> None:
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-100, 100, (N, N)).astype(np.int32) for _ in range(count)]
    donated = [i for i in range(count) if rng.random() < 0.7]
    check(program(seed, count, length, results), *inputs, fallbacks=None, donated=donated)


def test_a_loop_needs_no_memory_per_round() -> None:
    text = """
    func.func @main(%a: tensor<1000xf32>) -> tensor<1000xf32> {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = stablehlo.while(%i = %z, %x = %a) : tensor<i32>, tensor<1000xf32> cond {
        %n = stablehlo.constant dense<5> : tensor<i32>
        %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      } do {
        %o = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %o : tensor<i32>
        %y = stablehlo.add %x, %x : tensor<1000xf32>
        %w = stablehlo.multiply %y, %x : tensor<1000xf32>
        stablehlo.return %j, %w : tensor<i32>, tensor<1000xf32>
      }
      return %0#1 : tensor<1000xf32>
    }"""
    bound = check(text, np.linspace(-1, 1, 1000, dtype=np.float32), rtol=1e-6)
    # The carried value lies where it is returned; there are only the counter and the test besides.
    assert bound.buffer_bytes <= 4 * 64


def test_an_update_in_a_loop_is_made_in_place() -> None:
    text = """
    func.func @main(%a: tensor<100x64xf32>) -> tensor<100x64xf32> {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %f = stablehlo.constant dense<0.0> : tensor<100x64xf32>
      %0:2 = stablehlo.while(%i = %z, %x = %f) : tensor<i32>, tensor<100x64xf32> cond {
        %n = stablehlo.constant dense<100> : tensor<i32>
        %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      } do {
        %o = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %o : tensor<i32>
        %s = stablehlo.dynamic_slice %a, %i, %z, sizes = [1, 64] : (tensor<100x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
        %u = stablehlo.add %s, %s : tensor<1x64xf32>
        %y = stablehlo.dynamic_update_slice %x, %u, %i, %z : (tensor<100x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<100x64xf32>
        stablehlo.return %j, %y : tensor<i32>, tensor<100x64xf32>
      }
      return %0#1 : tensor<100x64xf32>
    }"""
    rng = np.random.default_rng(0)
    bound = check(text, rng.normal(size=(100, 64)).astype(np.float32))
    assert bound.buffer_bytes <= 1024


@pytest.mark.parametrize("donated", [(), (0,)])
def test_a_donated_input_holds_the_result(donated: tuple[int, ...]) -> None:
    text = function(
        "%0 = stablehlo.add %a, %b : tensor<8xf32>\nreturn %0 : tensor<8xf32>",
        "%a: tensor<8xf32>, %b: tensor<8xf32>",
        "tensor<8xf32>",
    )
    a, b = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    bound = check(text, a, b, donated=donated)
    (found,) = bound([a, b])
    assert (found is a) == bool(donated)
    assert found.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_where_a_loop_starts_stays_what_it_was() -> None:
    text = f"""
    func.func @main(%a: {SQUARE}) -> ({SQUARE}, {SQUARE}) {{
      %z = stablehlo.constant dense<0> : tensor<i32>
      %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({SQUARE}, {SQUARE}) -> {SQUARE}
      %0:2 = stablehlo.while(%i = %z, %x = %b) : tensor<i32>, {SQUARE} cond {{
        %n = stablehlo.constant dense<3> : tensor<i32>
        %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      }} do {{
        %o = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %o : tensor<i32>
        %y = stablehlo.add %x, %x : {SQUARE}
        stablehlo.return %j, %y : tensor<i32>, {SQUARE}
      }}
      %c = stablehlo.add %b, %0#1 : {SQUARE}
      %d = stablehlo.dot_general %b, %c, contracting_dims = [1] x [0] : ({SQUARE}, {SQUARE}) -> {SQUARE}
      return %c, %d : {SQUARE}, {SQUARE}
    }}"""
    check(text, np.arange(N * N, dtype=np.int32).reshape(N, N))


def test_an_update_may_be_a_part_of_what_it_updates() -> None:
    half = f"tensor<{N - 1}x{N}xi32>"
    body = f"""
    %z = stablehlo.constant dense<0> : tensor<i32>
    %o = stablehlo.constant dense<1> : tensor<i32>
    %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({SQUARE}, {SQUARE}) -> {SQUARE}
    %s = stablehlo.slice %b [0:{N - 1}, 0:{N}] : ({SQUARE}) -> {half}
    %u = stablehlo.dynamic_update_slice %b, %s, %o, %z : ({SQUARE}, {half}, tensor<i32>, tensor<i32>) -> {SQUARE}
    %t = stablehlo.transpose %u, dims = [1, 0] : ({SQUARE}) -> {SQUARE}
    %r = stablehlo.add %u, %t : {SQUARE}
    return %r : {SQUARE}"""
    check(function(body, f"%a: {SQUARE}", SQUARE), np.arange(N * N, dtype=np.int32).reshape(N, N))

"""Wrong arguments to the core end in errors that name them, and change nothing.

``EMU_FUZZ_CALLS`` sets how many calls are made. Default: some thousand.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fuzzing import Fuzzer, Target

import emu
from emu.comm.errors import ArgumentError, StoppedError, SymmetricMemoryError
from emu.comm.memory.stop import INTERRUPTED, publish_stop
from emu.comm.world.array import SymmetricArray
from emu.comm.world.group import Group
from emu.comm.world.world import World

Worlds = Callable[..., list[World]]
Arguments_ = Callable[[], dict[str, Any]]

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "4000"))
GE, SET, ADD = emu.Cmp.GE, emu.AtomicOp.SET, emu.AtomicOp.ADD


class Core:
    """PE 1 of three in this process, in a world that was stopped: a wait that would block raises."""

    def __init__(self, worlds: Worlds, link: emu.Link | None = None) -> None:
        self.heap_bytes = 1 << 16
        self.all = worlds(3, heap_bytes=self.heap_bytes, link=link)
        self.world = self.all[1]
        self.alone = self.world.group("alone", [1])
        self.segment = self.world.segment
        other = worlds(2, heap_bytes=1 << 16)[1]
        self.foreign = other.alloc((4, 6), np.float32, name="foreign")
        self.x = self.world.alloc((4, 6), np.float32, name="x", key="x")
        self.words = self.world.alloc(4, np.int64, name="words")
        self.locks = self.world.alloc(4, np.int64, name="locks")
        self.unsigned = self.world.alloc((2, 2), np.uint32, name="unsigned")
        self.mine = self.alone.alloc((4, 6), np.float32, name="mine")
        self.freed = self.alone.alloc(3, np.int64, name="freed")
        self.freed.free()
        publish_stop(self.segment, INTERRUPTED, "stopped by the test")

    def state(self) -> tuple[Any, ...]:
        """Return all that an error must leave as it was."""
        layout, memory = self.segment.layout, self.segment.bytes
        heaps = [
            memory[start : start + self.heap_bytes].tobytes()
            for start in range(layout.heaps, layout.total, layout.stride)
        ]
        # Of the tables their beginning: entries are taken from there.
        some = layout.groups + 64 * layout.group_bytes
        control = memory[:some].tobytes(), self.segment.allocations[:64].tobytes()
        groups = [(name, sorted(group._by_key)) for name, group in self.world._groups.items()]
        return control, heaps, groups, self.x.freed, self.mine.freed, len(self.world._on_finish)

    def extra(self) -> list[Any]:
        """Return values of the room's own types."""
        return [
            self.x, self.x[1:, ::2], self.x[0, 0], self.words, self.words[1:3], self.unsigned, self.mine, self.freed,
            self.foreign, self.world, self.alone, SET, ADD, GE, emu.Cmp.EQ, emu.Link(), [(self.words, 0, GE, 1)],
            [(self.words, 0, GE)], [(self.words, 9, GE, 1)], [(self.x, 0, GE, 1)], [(0, 1), (1, 1)], [(0, 3)],
        ]  # fmt: skip

    # --- how targets are called ------------------------------------------------------------

    def ends(self, function: Callable[..., Any], group: Group | None = None) -> Callable[..., Any]:
        """Have a call that would wait end as one that returned, and be as if it had never come."""

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            try:
                return function(*arguments, **named)
            except StoppedError:
                start = (group or self.world).barrier_address - self.segment.address
                self.segment.bytes[start : start + 4] = 0
                return None

        return call

    def gives_back(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Free what was allocated."""

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> None:
            function(*arguments, **named).free()

        return call

    def targets(self) -> Iterator[Target]:
        yield from self.memory_targets()
        yield from self.scope_targets()
        yield from self.word_targets()
        yield from self.nonblocking_targets()
        yield from self.lock_targets()
        yield from self.collective_targets(self.world)
        yield from self.collective_targets(self.alone)
        yield from self.group_targets()
        yield from self.array_targets()

    def target(
        self, method: str, good: Arguments_, *, of: Any = None, call: Any = None, **more: Any
    ) -> Target:
        owner = of if of is not None else self.world
        also = dict.fromkeys(good(), ("symmetric array",))  # one that was freed
        for name, words in more.pop("also", {}).items():
            also[name] = (*also.get(name, ()), *words)
        more["also"] = also
        function = call or self.ends(
            getattr(owner, method), owner if isinstance(owner, Group) else None
        )
        return Target(
            name=f"{type(owner).__name__}.{method}", function=function, arguments=good, **more
        )

    def memory_targets(self) -> Iterator[Target]:
        tile, whole = np.ones((2, 3), np.float32), np.ones((4, 6), np.float32)
        for op in (SET, ADD):
            yield self.target("put", lambda op=op: {"dst": self.x, "src": whole, "pe": 2, "op": op})
            yield self.target(
                "put",
                lambda op=op: {"dst": self.x, "src": tile, "pe": 0, "offsets": (1, 2), "op": op},
            )
        yield self.target("get", lambda: {"src": self.x, "pe": 2})
        yield self.target(
            "get",
            lambda: {
                "src": self.x,
                "pe": 2,
                "offsets": (1, 2),
                "shape": (2, 3),
                "out": tile.copy(),
            },
            also={"out": ("shape",)},
        )
        yield self.target(
            "put_signal",
            lambda: {
                "dst": self.x, "src": tile, "pe": 2, "signal": self.words, "value": 3, "index": 1,
                "offsets": (0, 0), "op": SET, "sig_op": ADD,
            },
        )  # fmt: skip
        yield self.target(
            "alloc",
            lambda: {
                "shape": (2, 3),
                "dtype": np.int16,
                "name": "new",
                "key": "new",
                "poison": False,
            },
            of=self.alone,
            call=self.gives_back(self.alone.alloc),
            also={"shape": ("symmetric heap",), "dtype": ("symmetric heap",)},
        )
        yield self.target(
            "alloc",
            lambda: {"shape": 7, "dtype": "float32"},
            of=self.alone,
            call=self.gives_back(self.alone.alloc),
            also={"shape": ("symmetric heap",), "dtype": ("symmetric heap",)},
        )
        yield self.target("find_allocs", lambda: {"prefix": "x"})

    def scope_targets(self) -> Iterator[Target]:
        for name in ("reading", "writing"):
            yield self.target(name, lambda: {"array": self.x, "pe": 2})
            yield self.target(name, lambda: {"array": self.mine, "pe": None})

    def word_targets(self) -> Iterator[Target]:
        yield self.target(
            "fetch_add", lambda: {"target": self.words, "value": 1, "pe": 0, "index": 1}
        )
        yield self.target(
            "swap", lambda: {"target": self.unsigned, "value": 1, "pe": 0, "index": 3}
        )
        yield self.target(
            "compare_swap",
            lambda: {"target": self.words, "expected": 1, "value": 1, "pe": 0, "index": 1},
        )
        yield self.target("fetch", lambda: {"target": self.words, "pe": 0, "index": 1})
        yield self.target(
            "signal_op", lambda: {"signal": self.words, "value": 1, "pe": 0, "op": ADD, "index": 1}
        )
        for name in ("wait_until", "test"):
            yield self.target(
                name, lambda: {"signal": self.words, "cmp": GE, "value": 1, "index": 1}
            )
        for name in (
            "wait_until_all",
            "wait_until_any",
            "wait_until_some",
            "test_all",
            "test_any",
            "test_some",
        ):
            yield self.target(
                name,
                lambda: {"signals_": self.words, "cmp": GE, "values": [1, 2], "indices": [0, 3]},
                also={
                    "signals_": ("signal", "symmetric array", "index"),
                    "values": ("value",),
                    "indices": ("index", "values", "words"),
                },
            )
        yield self.target(
            "wait_for",
            lambda: {
                "words": [(self.words, 0, GE, 1), (self.unsigned, 3, GE, 1)],
                "describe": "a wait of the test",
                "needed": 2,
            },
            also={"words": ("signal", "index", "cmp", "value", "needed")},
        )

    def nonblocking_targets(self) -> Iterator[Target]:
        tile = np.ones((2, 3), np.float32)
        yield self.target(
            "put_nbi", lambda: {"dst": self.x, "src": tile, "pe": 0, "offsets": (1, 2), "op": ADD}
        )
        yield self.target(
            "get_nbi",
            lambda: {
                "src": self.x,
                "pe": 2,
                "out": tile.copy(),
                "offsets": (1, 2),
                "shape": (2, 3),
            },
            also={"shape": ("out",)},
        )
        yield self.target(
            "put_signal_nbi",
            lambda: {
                "dst": self.x, "src": tile, "pe": 2, "signal": self.words, "value": 3, "index": 1,
                "offsets": (0, 0), "op": SET, "sig_op": ADD,
            },
        )  # fmt: skip
        for name, values in (
            ("fetch_add_nbi", {"value": 1}),
            ("swap_nbi", {"value": 1}),
            ("compare_swap_nbi", {"expected": 1, "value": 1}),
            ("fetch_nbi", {}),
        ):
            yield self.target(
                name,
                lambda values=values: {
                    "out": np.zeros(4, np.int64), "target": self.words, **values, "pe": 0, "index": 1, "out_index": 2
                },
                also={"target": ("out",)},
            )  # fmt: skip

    def lock_targets(self) -> Iterator[Target]:
        for name in ("set_lock", "test_lock", "clear_lock"):
            yield self.target(
                name, lambda: {"lock": self.locks, "index": 2}, call=self.unlocks(name)
            )

    def unlocks(self, name: str) -> Callable[..., None]:
        """Have a lock that was taken given back, and taken before it is given back."""

        def call(**named: Any) -> None:
            if name == "clear_lock":
                self.world.test_lock(**named)
            try:
                taken = getattr(self.world, name)(**named)
            except StoppedError:
                return
            if name == "set_lock" or taken:
                self.world.clear_lock(**named)

        return functools.wraps(getattr(self.world, name))(call)

    def collective_targets(self, group: Group) -> Iterator[Target]:
        n = group.n_pes
        one, rows = np.ones((5,), np.float32), np.ones((n, 5), np.float32)
        pairs = [(i, (i + 1) % n) for i in range(n)]
        root = {"array": one, "root": 0}
        for name, good in (
            ("broadcast", lambda: {**root, "out": one.copy()}),
            ("scatter", lambda: {"array": rows, "root": group.my_pe, "out": one.copy()}),
            ("scatter", lambda: {"array": None if n > 1 else rows, "root": 0, "out": one.copy()}),
            ("gather", lambda: {"array": one, "root": group.my_pe, "out": rows.copy()}),
            ("all_gather", lambda: {"array": one, "out": rows.copy()}),
            ("all_to_all", lambda: {"array": rows, "out": rows.copy()}),
            ("all_to_all_v", lambda: {"array": rows, "send_counts": [1] * n, "out": np.ones((9, 5), np.float32)}),
            ("permute", lambda: {"array": one, "pairs": pairs, "out": one.copy()}),
            ("all_reduce", lambda: {"array": one, "op": "avg", "out": one.copy()}),
            ("reduce_scatter", lambda: {"array": rows, "op": "max", "out": one.copy()}),
        ):  # fmt: skip
            yield self.target(
                name,
                good,
                of=group,
                also={
                    "array": ("out", "send_counts", "op 'avg'"),
                    "root": ("array", "out"),
                    "pairs": ("source", "target"),
                },
                # That so few rows fit is known when the members have met.
                keep=frozenset({"out"} if name == "all_to_all_v" and n == 1 else {}),
            )

    def group_targets(self) -> Iterator[Target]:
        yield self.target("group", lambda: {"name": "alone", "pes": [1]})
        yield self.target("group", lambda: {"name": "alone"})
        yield self.target("world_pe", lambda: {"pe": 2})
        yield self.target("route", lambda: {"array": self.x, "pe": 2})
        yield self.target("release", lambda: {"array": self.x})
        yield self.target("report_recovery", lambda: {"array": self.x, "world_pe": 0})
        yield self.target("on_finish", lambda: {"callback": print}, call=self.forgets())
        yield Target(
            name="Link", function=emu.Link, arguments=lambda: {"bandwidth": 1e9, "latency": 1e-6}
        )
        yield Target(
            name="Link.parse",
            function=emu.Link.parse,
            arguments=lambda: {"text": "25GB/s,2us"},
            also={"text": ("bandwidth", "latency")},
        )

    def forgets(self) -> Callable[[Any], None]:
        def on_finish(callback: Any) -> None:
            self.world.on_finish(callback)
            self.world._on_finish.pop()

        return on_finish

    def array_targets(self) -> Iterator[Target]:
        array = functools.partial(self.target, of=self.x)
        yield array("on", lambda: {"pe": 2})
        yield array("element_offset", lambda: {"index": 3})
        yield array(
            "__getitem__",
            lambda: {"key": (1, slice(0, 3))},
            positional=("key",),
            also={"key": ("symmetric view",)},
        )
        yield array(
            "__setitem__",
            lambda: {"key": (1, slice(0, 3)), "value": [1, 2, 3]},
            positional=("key", "value"),
            also={"key": ("value must broadcast",)},
        )


def public_methods() -> set[str]:
    """Return the public methods of the core that take arguments."""
    names = set()
    for kind in (World, SymmetricArray, emu.Link):
        for name, member in inspect.getmembers(kind, callable):
            public = not name.startswith("_") or name in ("__getitem__", "__setitem__")
            if public and list(inspect.signature(member).parameters) not in ([], ["self"]):
                names.add(name)
    return names


@pytest.fixture(params=[None, emu.Link(bandwidth=1e18)], ids=["plain", "linked"])
def core(worlds: Worlds, request: pytest.FixtureRequest) -> Core:
    return Core(worlds, request.param)


def test_every_public_method_is_called_with_wrong_arguments(core: Core) -> None:
    assert public_methods() - {target.name.split(".")[-1] for target in core.targets()} == set()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_wrong_arguments(core: Core, seed: int) -> None:
    targets = list(core.targets())
    fuzzer = Fuzzer(
        targets,
        (ArgumentError, SymmetricMemoryError),
        seed=seed,
        state=core.state,
        extra=core.extra,
    )
    fuzzer.run(CALLS // 4).check()

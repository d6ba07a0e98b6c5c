"""The program of one device: which operations run how often, and what they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from emu.mlir.attributes import StringAttr, SymbolRefAttr
from emu.mlir.ir import Block, Operation
from emu.mlir.symbols import SymbolTable
from emu.sdy.costs.loops import trip_count
from emu.sdy.dialect.functions import callee_name
from emu.sdy.provenance.names import line_of

_CHOICES = {"stablehlo.case", "stablehlo.if"}


@dataclass(frozen=True)
class Runs:
    """How often an operation runs.

    Attributes:
        count: Number of runs that are counted.
        uncertainty: Why that is not exact; empty if it is.
    """

    count: int
    uncertainty: str = ""


Weight = Callable[[Operation], tuple[float, float]]
"""What one run of an operation takes: seconds of communication, and FLOPs."""


@dataclass
class RunCounter:
    """Counts the runs of the operations of a module.

    Attributes:
        module: The program of one device.
        weight: What one run of an operation takes: of branches, the one that takes most is counted.
    """

    module: Operation
    weight: Weight
    _functions: dict[str, dict[Operation, Runs]] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._table = SymbolTable(self.module)

    def runs(self, function: Operation) -> dict[Operation, Runs]:
        """Return how often each operation runs when a function is called once."""
        return self._block(function.body())

    def _block(self, block: Block) -> dict[Operation, Runs]:
        found: dict[Operation, Runs] = {}
        for op in block:
            _add(found, {op: Runs(1)})
            if op.name == "stablehlo.while":
                self._loop(op, found)
            elif op.name in _CHOICES:
                self._choice(op, found)
            else:
                called = self._called(op)
                if called is not None:
                    _add(found, self._function(called))
        return found

    def _loop(self, op: Operation, found: dict[Operation, Runs]) -> None:
        condition, body = (self._block(region.blocks[0]) for region in op.regions)
        times = trip_count(op)
        if times is None:
            why = f"the loop{_at(op)} runs an unknown number of times: once is counted"
            _add(found, condition, 1, why)
            _add(found, body, 1, why)
        else:
            _add(found, condition, times + 1)
            _add(found, body, times)

    def _choice(self, op: Operation, found: dict[Operation, Runs]) -> None:
        branches = [self._block(region.blocks[0]) for region in op.regions]
        weights = [self._weight_of(branch) for branch in branches]
        chosen = max(range(len(branches)), key=lambda index: weights[index], default=0)
        for index, branch in enumerate(branches):
            if index == chosen:
                why = f"in branch {index} of {len(branches)}{_at(op)}: counted, since it takes most"
                _add(found, branch, 1, why if len(branches) > 1 else "")
            else:
                why = f"in branch {index} of {len(branches)}{_at(op)}: not counted, another takes more"
                _add(found, branch, 0, why)

    def _weight_of(self, runs: dict[Operation, Runs]) -> tuple[float, float]:
        seconds = flops = 0.0
        for op, each in runs.items():
            if each.count:
                time, work = self.weight(op)
                seconds += time * each.count
                flops += work * each.count
        return seconds, flops

    def _called(self, op: Operation) -> str | None:
        if op.name == "func.call":
            return callee_name(op)
        target = op.properties.get("decomposition") if op.name == "stablehlo.composite" else None
        return target.root if isinstance(target, SymbolRefAttr) else None

    def _function(self, name: str) -> dict[Operation, Runs]:
        if name not in self._functions:
            function = self._table.lookup(name)
            if function is None or name in self._open or not function.regions[0].blocks:
                return {}  # a declaration; or recursion, which StableHLO has not
            self._open.add(name)
            self._functions[name] = self._block(function.body())
            self._open.discard(name)
        return self._functions[name]


def _at(op: Operation) -> str:
    place = line_of(op.location)
    return f" at {place}" if place else ""


def _add(
    found: dict[Operation, Runs], more: dict[Operation, Runs], times: int = 1, why: str = ""
) -> None:
    """Add the runs of operations inside of one that runs several times."""
    for op, runs in more.items():
        known = found.get(op, Runs(0))
        reasons = dict.fromkeys(r for r in (known.uncertainty, why, runs.uncertainty) if r)
        found[op] = Runs(known.count + runs.count * times, "; ".join(reasons))


def uncounted(runs: dict[Operation, Runs], is_known: Callable[[Operation], bool]) -> Iterator[str]:
    """Yield the names of operations whose FLOPs are not known, with their runs."""
    counts: Counter[str] = Counter()
    for op, each in runs.items():
        if each.count and not is_known(op):
            target = op.properties.get("call_target_name")
            name = f"{op.name} @{target.value}" if isinstance(target, StringAttr) else op.name
            counts[name] += each.count
    for name, count in counts.most_common():
        yield name if count == 1 else f"{name} ({count} times)"

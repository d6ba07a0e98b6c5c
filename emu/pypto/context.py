"""State of the PyPTO programs of one PE, and the functions that set it.

A PE is a process, and one thread of it runs PyPTO programs: there is one :class:`Context` per process.
It is not thread-local, because creates are counted: the n-th create of a group on one PE belongs to the
n-th on every other, which a second count in another thread would break.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

from emu.kernels.core.messages import shown
from emu.pypto.backend import Backend, Chosen, check_backend
from emu.pypto.errors import ArgumentError
from emu.pypto.graph import Graph, find_world
from emu.pypto.lifetimes import Lifetimes
from emu.pypto.node import Scope, drawn_order
from emu.pypto.symbolic import Shape, as_flag, as_int

if TYPE_CHECKING:
    from emu.comm.world.group import Group

Schedule = Literal["program", "random"]
Precision = Literal["exact", "native"]


@dataclass(slots=True)
class Settings:
    """Settings of scopes whose kernel does not give its own.

    Attributes:
        schedule: Order of ops that nothing orders.
        seed: Seed of a random schedule.
        allow_mixed_add: Whether FP16 and BF16 may be added into FP32 memory.
        precision: Of matrix products.
    """

    schedule: Schedule = "program"
    seed: int = 0
    allow_mixed_add: bool = False
    precision: Precision = "exact"


class Context:
    """State of one PE.

    Attributes:
        graph: The ops that have not run.
        settings: Settings of new scopes.
        kernel_depth: Number of kernels that the program is inside of.
        vec_tile: Tile shape of vector and communication ops; empty: not set.
        cube_tile: Tile shapes of ``matmul``; empty: not set.
        groups: The groups that this PE has used, by name.
        group_sizes: Number of PEs that creates were given, by name of the group.
        lifetimes: Lifetimes of symmetric memory, by name of the group.
    """

    __slots__ = (
        "cube_tile",
        "graph",
        "group_sizes",
        "groups",
        "kernel_depth",
        "lifetimes",
        "settings",
        "vec_tile",
    )

    def __init__(self) -> None:
        self.graph = Graph()
        self.settings = Settings()
        self.kernel_depth = 0
        self.vec_tile: Shape = ()
        self.cube_tile: tuple[list[int], ...] = ()
        self.groups: dict[str, Group] = {}
        self.group_sizes: dict[str, int] = {}
        self.lifetimes: dict[str, Lifetimes] = {}


CONTEXT = Context()


def check_schedule(schedule: object, seed: object) -> None:
    """Raise an error unless these are a schedule and a seed of one."""
    if not isinstance(schedule, str) or schedule not in ("program", "random"):
        raise ArgumentError(f'schedule must be "program" or "random", but got {shown(schedule)}')
    as_int(seed, "seed")


def new_scope(
    schedule: Schedule | None = None,
    seed: int | None = None,
    allow_mixed_add: bool | None = None,
    is_kernel: bool = False,
) -> Scope:
    """Return a scope; what is None comes from :func:`set_schedule` and :func:`set_options`."""
    settings = CONTEXT.settings
    schedule = settings.schedule if schedule is None else schedule
    seed = settings.seed if seed is None else seed
    mixed = settings.allow_mixed_add if allow_mixed_add is None else allow_mixed_add
    check_schedule(schedule, seed)
    world = find_world()
    my_pe = 0 if world is None else world.my_pe
    rng = None if schedule == "program" else drawn_order(int(seed), my_pe)
    scope = Scope(rng, mixed, is_kernel)
    if world is not None:
        scope.steer(world)
    return scope


class Restore:
    """Result of a setter: leaving it as a context manager undoes the setting."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._undo()


def set_schedule(schedule: Schedule, seed: int = 0) -> Restore:
    """Choose the order in which nodes run that nothing orders.

    Args:
        schedule: ``"program"`` (the default): as written, each as soon as it may. ``"random"``: a
            legal order drawn with ``random.Random``, another one for every PE.
        seed: Seed of the draw.

    Returns:
        A context manager that restores the schedule before; it may be ignored.
    """
    graph, settings = CONTEXT.graph, CONTEXT.settings
    scope = new_scope(schedule, seed)
    before = (settings.schedule, settings.seed, graph.scope, graph.scope.rng)

    def apply(name: Schedule, number: int, on: Scope, rng: random.Random | None) -> None:
        graph.flush()
        settings.schedule, settings.seed, on.rng = name, number, rng
        graph.update()

    apply(schedule, seed, graph.scope, scope.rng)
    return Restore(lambda: apply(*before))


def check_precision(precision: object) -> Precision:
    """Return the precision of products if it is one, else raise an error."""
    for name in get_args(Precision):
        if isinstance(precision, str) and precision == name:
            return cast("Precision", name)
    raise ArgumentError(f"precision must be 'exact' or 'native', but got {shown(precision)}")


def set_options(
    *,
    allow_mixed_add: bool | None = None,
    backend: Backend | None = None,
    precision: Precision | None = None,
) -> Restore:
    """Set options of the emulator; what is None stays.

    Args:
        allow_mixed_add: Allow ADD of FP16 or BF16 into FP32 shared memory; each element is widened
            before it is added. At the start of a program: False, where a store needs equal data types.
        backend: Who computes local ops. ``"native"``: compiled kernels, several ops in one where they fit. ``"reference"``:
            NumPy, op by op, which defines what they mean. At the start of a program: ``EMU_PYPTO_BACKEND``, else native.
        precision: Of the matrix products that follow. ``"exact"``: each sum is a chain of fused multiply-adds in FP32, the same
            on every CPU. ``"native"``: BF16 is multiplied by the CPU's own instruction where it has one, in other bits, as
            :func:`emu.kernels.matmul` says. At the start of a program: exact.

    Returns:
        A context manager that restores the options before; it may be ignored.

    Raises:
        ArgumentError: An option is none that there is; nothing has changed then.
    """
    graph, settings = CONTEXT.graph, CONTEXT.settings
    scope = graph.scope
    before = (settings.allow_mixed_add, scope.allow_mixed_add, Chosen.name, settings.precision)
    mixed = None if allow_mixed_add is None else as_flag(allow_mixed_add, "allow_mixed_add")
    name = None if backend is None else check_backend(backend)
    products = settings.precision if precision is None else check_precision(precision)

    def undo() -> None:
        graph.flush()
        settings.allow_mixed_add, scope.allow_mixed_add, Chosen.name, settings.precision = before

    settings.precision = products

    if mixed is not None:
        settings.allow_mixed_add = scope.allow_mixed_add = mixed
    if name is not None:
        graph.flush()
        Chosen.name = name
    return Restore(undo)


def synchronize() -> None:
    """Run until every op of this PE so far is complete.

    Kernels do so at their end. Outside of kernels call it before anything that may block without
    the graph's knowledge, as ``emu.world().barrier()`` does.
    """
    CONTEXT.graph.drain()

"""The plan of collectives: each step is legal, and they end where they should."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

import emu.sdy
from emu.sdy.dialect.attributes import (
    AllToAllParamList,
    AxisRef,
    DimensionSharding,
    ListOfAxisRefLists,
    Mesh,
    MeshAxis,
    SubAxisInfo,
    TensorSharding,
)
from emu.sdy.dialect.axes import add_or_merge, lists_overlap, total_size
from emu.sdy.passes.export.collective_plan import Step, _Planner, plan

Dims = list[list[AxisRef]]


@st.composite
def meshes(draw: st.DrawFn, sizes: tuple[int, ...]) -> Mesh:
    picked = draw(st.lists(st.sampled_from(sizes), min_size=1, max_size=4))
    return Mesh(tuple(MeshAxis("abcd"[i], size) for i, size in enumerate(picked)))


@st.composite
def shardings(draw: st.DrawFn, mesh: Mesh, rank: int) -> TensorSharding:
    """Some axes, or halves of axes, in some order on some dimensions."""
    pieces: list[AxisRef] = []
    for axis in mesh.axes:
        if axis.size % 2 == 0 and axis.size > 2 and draw(st.booleans()):
            halves = (SubAxisInfo(1, 2), SubAxisInfo(2, axis.size // 2))
            pieces += [AxisRef(axis.name, half) for half in halves]
        else:
            pieces.append(AxisRef(axis.name))
    dims: Dims = [[] for _ in range(rank)]
    for axis in draw(st.permutations(pieces)):
        dim = draw(st.integers(-1, rank - 1))
        if dim >= 0:
            add_or_merge(dims[dim], axis, mesh)
    return TensorSharding("mesh", tuple(DimensionSharding(tuple(axes)) for axes in dims))


@st.composite
def reshards(
    draw: st.DrawFn, sizes: tuple[int, ...]
) -> tuple[Mesh, TensorSharding, TensorSharding, list[int]]:
    mesh = draw(meshes(sizes))
    rank = draw(st.integers(1, 3))
    source, target = draw(shardings(mesh, rank)), draw(shardings(mesh, rank))
    shape = [
        a.sharded_size(mesh) * b.sharded_size(mesh)
        for a, b in zip(source.dims, target.dims, strict=True)
    ]
    return mesh, source, target, shape


def pieces(axes: list[AxisRef], mesh: Mesh) -> list[tuple[str, int, int]]:
    """The axes as chains of prime digits, so that equal cuts are equal lists."""
    found = []
    for axis in axes:
        pre, size = (1, mesh.axis_size(axis.name)) if axis.sub_axis is None else (0, 0)
        if axis.sub_axis is not None:
            pre, size = axis.sub_axis.pre_size, axis.sub_axis.size
        factor = 2
        while size > 1:
            if size % factor == 0:
                found.append((axis.name, pre, factor))
                pre, size = pre * factor, size // factor
            else:
                factor += 1
    return found


def axes_per_dim(step: Step) -> tuple[tuple[AxisRef, ...], ...]:
    assert isinstance(step.axes, ListOfAxisRefLists)
    return step.axes.lists


def check(step: Step, before: TensorSharding, mesh: Mesh) -> None:
    """The step's axes make its sharding out of the one before."""
    old = [list(dim.axes) for dim in before.dims]
    new = [list(dim.axes) for dim in step.sharding.dims]
    everything = [axis for axes in new for axis in axes]
    for index, axis in enumerate(everything):
        assert not lists_overlap([axis], everything[index + 1 :])
    match step.op:
        case "sdy.all_gather":
            for a, b, taken in zip(old, new, axes_per_dim(step), strict=True):
                assert pieces(a, mesh) == pieces([*b, *taken], mesh)
        case "sdy.all_slice":
            for a, b, added in zip(old, new, axes_per_dim(step), strict=True):
                assert pieces([*a, *added], mesh) == pieces(b, mesh)
        case "sdy.all_to_all":
            assert isinstance(step.axes, AllToAllParamList)
            (param,) = step.axes.params
            moved, source, target = param.axes, param.src_dim, param.tgt_dim
            assert pieces(old[source], mesh) == pieces([*new[source], *moved], mesh)
            assert pieces([*old[target], *moved], mesh) == pieces(new[target], mesh)
        case "sdy.collective_permute":
            assert [total_size(a, mesh) for a in old] == [total_size(b, mesh) for b in new]
        case other:
            raise AssertionError(other)


@settings(max_examples=150, deadline=None)
@given(reshards((2, 4, 8)))
def test_steps_are_legal_and_reach_the_target(
    case: tuple[Mesh, TensorSharding, TensorSharding, list[int]],
) -> None:
    mesh, source, target, shape = case
    current = source
    for step in plan(source, target, mesh, shape):
        check(step, current, mesh)
        current = step.sharding
    assert current.dims == target.dims


@settings(max_examples=100, deadline=None)
@given(reshards((2, 3, 4, 5, 6)))
def test_any_sizes_do_no_harm(
    case: tuple[Mesh, TensorSharding, TensorSharding, list[int]],
) -> None:
    """Also where the end may not be reached, there are few steps and no errors."""
    mesh, source, target, shape = case
    steps = plan(source, target, mesh, shape)
    assert len(steps) <= 2 * (3 + 2 * len(shape) * len(mesh.axes))
    assert all(math.prod(d.sharded_size(mesh) for d in s.sharding.dims) >= 1 for s in steps)


class CheckedPlanner(_Planner):
    """A planner that checks its state after each step."""

    def _emit(self, *args, **kwargs) -> None:  # type: ignore[no-untyped-def]  # as the base's
        super()._emit(*args, **kwargs)
        for dim in self.dims:
            assert set(dim.have) <= self.have_set
            assert dim.capacity >= 1
            current, have = pieces(dim.current, self.mesh), pieces(dim.have, self.mesh)
            assert current[len(current) - len(have) :] == have
            assert not (dim.have and dim.want) or dim.have[0] != dim.want[0]
        for axes in (
            [a for d in self.dims for a in d.have],
            [a for d in self.dims for a in d.want],
        ):
            assert not any(lists_overlap([a], axes[i + 1 :]) for i, a in enumerate(axes))

    def completed(self) -> list[list[tuple[str, int, int]]]:
        """The common prefixes with the wanted axes after them."""
        prefixes = []
        for dim in self.dims:
            current, have = pieces(dim.current, self.mesh), pieces(dim.have, self.mesh)
            prefixes.append(current[: len(current) - len(have)] + pieces(dim.want, self.mesh))
        return prefixes


@settings(max_examples=150, deadline=None)
@given(reshards((2, 4, 8)))
def test_the_state_is_consistent_after_each_step(
    case: tuple[Mesh, TensorSharding, TensorSharding, list[int]],
) -> None:
    mesh, source, target, shape = case
    planner = CheckedPlanner(source, target, mesh, shape)
    wanted = [pieces(list(dim.axes), mesh) for dim in target.dims]
    assert planner.completed() == wanted
    assert planner.run() == plan(source, target, mesh, shape)
    assert planner.completed() == wanted


def test_nothing_to_do() -> None:
    mesh = Mesh((MeshAxis("a", 2),))
    sharding = TensorSharding("mesh", (DimensionSharding((AxisRef("a"),)),))
    assert plan(sharding, sharding, mesh, [8]) == []


def test_another_end_is_worth_a_warning() -> None:
    module = emu.sdy.parse("""
sdy.mesh @grid = <["a"=3, "b"=2, "c"=5]>
func.func @main(%a: tensor<30x12xf32> {sdy.sharding = #sdy.sharding<@grid, [{"b"}, {"a"}]>})
    -> tensor<30x12xf32> {
  %0 = sdy.reshard %a <@grid, [{"a", "c"}, {"b"}]> : tensor<30x12xf32>
  %1 = sdy.reshard %a <@grid, [{}, {"a"}]> : tensor<30x12xf32>
  %2 = stablehlo.add %0, %1 : tensor<30x12xf32>
  return %2 : tensor<30x12xf32>
}
""")
    (warning,) = emu.sdy.run_passes(module, "func.func(sdy-reshard-to-collectives)")
    assert '[{"c", "a"}, {"b"}]' in warning.message
    assert str(warning.location).endswith(":5:8")

"""Shardings of ``emu.sdy.jit``: bound to a mesh, checked against arguments, and uneven ones."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError
from emu.sdy.execution.arguments import parse_mesh
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.jax import imported_jax

Tree: TypeAlias = Any
"""A pytree of JAX."""

MeshLike: TypeAlias = Any
"""A mesh of JAX, abstract or not, or sizes by the names of axes."""


def abstract_mesh(mesh: MeshLike) -> MeshLike:
    """Return a mesh of JAX that needs no devices; None for none.

    Raises:
        ArgumentError: It is no mesh.
    """
    if mesh is None:
        return None
    jax = imported_jax("emu.sdy.jit")
    if isinstance(mesh, jax.sharding.Mesh):
        return mesh.abstract_mesh
    if isinstance(mesh, jax.sharding.AbstractMesh):
        return mesh
    try:
        axes = parse_mesh(mesh).axes
    except ExecutionError as error:
        raise ArgumentError(f"{error}; a mesh of JAX will do, too") from None
    return jax.sharding.AbstractMesh(
        tuple(axis.size for axis in axes), tuple(axis.name for axis in axes)
    )


def within(mesh: MeshLike) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which specs name the axes of a mesh."""
    import jax

    return contextlib.nullcontext() if mesh is None else jax.sharding.use_abstract_mesh(mesh)


def named(jax: Any, name: str, shardings: Tree, mesh: MeshLike) -> Tree:
    """Return a pytree of shardings whose specs are bound to the mesh.

    Raises:
        ArgumentError: It holds something else, a spec that does not fit the mesh, or another mesh.
    """

    def bound(value: Any) -> Any:
        if isinstance(value, jax.sharding.PartitionSpec):
            if mesh is None:
                raise ArgumentError(f"{name}: {value} needs a mesh; give mesh= to emu.sdy.jit")
            try:
                return jax.sharding.NamedSharding(mesh, value)
            except ValueError as error:
                raise ArgumentError(f"{name}: {error}") from None
        if isinstance(value, jax.sharding.NamedSharding):
            own = value.mesh.shape_tuple
            if mesh is not None and own != mesh.shape_tuple:
                raise ArgumentError(
                    f"{name} must be shardings on the mesh {_sizes(mesh.shape_tuple)}, but got one on "
                    f"{_sizes(own)}"
                )
            return value
        if value is None or isinstance(value, jax.sharding.Sharding):
            return value
        raise ArgumentError(
            f"{name} must hold PartitionSpec, NamedSharding or None, but got "
            f"{shown(value, with_type=True)}"
        )

    found = jax.tree.map(bound, shardings, is_leaf=_is_leaf(jax))
    return tuple(found) if isinstance(found, list) else found


def _sizes(axes: Sequence[tuple[str, int]]) -> str:
    return ",".join(f"{name}={size}" for name, size in axes)


def _is_leaf(jax: Any) -> Callable[[object], bool]:
    kinds = (jax.sharding.PartitionSpec, jax.sharding.Sharding)
    return lambda value: value is None or isinstance(value, kinds)


def of_leaves(jax: Any, name: str, shardings: Tree, values: Tree) -> tuple[Tree, bool]:
    """Return a sharding for each leaf of a pytree, None for an uneven one, and whether there are such.

    Args:
        jax: The module.
        name: "in_shardings" or "out_shardings".
        shardings: A prefix of the pytree, of shardings or None.
        values: The pytree, of arrays or their types.

    Raises:
        ArgumentError: It is no prefix, or a sharding has more dimensions than its array.
    """
    is_uneven = False

    def evened(sharding: Any, leaf: Any) -> Any:
        nonlocal is_uneven
        if sharding is None or _is_even(jax, name, sharding, leaf.shape):
            return sharding
        is_uneven = True
        return None

    return _mapped(jax, name, evened, shardings, values), is_uneven


def _mapped(
    jax: Any, name: str, function: Callable[[Any, Any], Any], shardings: Tree, values: Tree
) -> Tree:
    """Return a pytree of ``function(sharding, leaf)``."""

    def over(sharding: Any, part: Tree) -> Tree:
        return jax.tree.map(functools.partial(function, sharding), part)

    try:
        return jax.tree.map(over, shardings, values, is_leaf=_is_leaf(jax))
    except ArgumentError:
        raise
    except ValueError as error:  # of structures
        whole = "arguments" if name == "in_shardings" else "results"
        raise ArgumentError(
            f"{name} must be a pytree prefix of the {whole}, but is {shown(shardings)}: {error}"
        ) from None


def _is_even(jax: Any, name: str, sharding: Any, shape: Sequence[int]) -> bool:
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return True
    spec, sizes = sharding.spec, dict(sharding.mesh.shape_tuple)
    if len(spec) > len(shape):
        raise ArgumentError(
            f"{name}: {spec} has {len(spec)} dimensions, but its array has the shape {list(shape)}"
        )
    for size, axes in zip(shape, spec, strict=False):
        names = axes if isinstance(axes, tuple) else (axes,)
        if size % math.prod(sizes.get(each, 1) for each in names):
            return False
    return True


def constrained(
    jax: Any,
    function: Callable[..., Tree],
    static: Collection[int],
    in_shardings: Tree,
    out_shardings: Tree,
) -> Callable[..., Tree]:
    """Return a function that constrains the shardings of its arguments and results itself.

    JAX refuses uneven shardings of arguments and results, but not uneven constraints. It is all the same
    to what is run: Shardy's passes make shards even where a program begins and ends.
    """

    def bound(sharding: Any, leaf: Any) -> Any:
        if not isinstance(sharding, jax.sharding.NamedSharding):
            return leaf
        return jax.lax.with_sharding_constraint(leaf, sharding)

    @functools.wraps(function)
    def wrapper(*args: Tree, **kwargs: Tree) -> Tree:
        given = list(args)
        if in_shardings is not None:
            places = [i for i in range(len(args)) if i not in static]
            dynamic = tuple(args[i] for i in places)
            for i, each in zip(
                places, _mapped(jax, "in_shardings", bound, in_shardings, dynamic), strict=True
            ):
                given[i] = each
        found = function(*given, **kwargs)
        if out_shardings is None:
            return found
        return _mapped(jax, "out_shardings", bound, out_shardings, found)

    return wrapper


def static_parameters(
    function: Callable[..., Tree], numbers: Sequence[int], names: Sequence[str]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the positions and the names of static arguments: each may be passed in both ways."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # of a builtin, nothing is known
        return tuple(numbers), tuple(names)
    both = {
        i: p.name
        for i, p in enumerate(parameters)
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    }
    by_name = {name: i for i, name in both.items()}
    all_numbers = dict.fromkeys([*numbers, *(by_name[n] for n in names if n in by_name)])
    all_names = dict.fromkeys([*names, *(both[i] for i in numbers if i in both)])
    return tuple(all_numbers), tuple(all_names)


def split(
    args: Sequence[Tree],
    kwargs: Mapping[str, Tree],
    numbers: Sequence[int],
    names: Collection[str],
) -> tuple[dict[int, object], dict[str, object]]:
    """Return the static arguments by position and by name."""
    count = len(args)
    places = sorted({n % count for n in numbers if -count <= n < count})
    return {i: args[i] for i in places}, {n: x for n, x in kwargs.items() if n in names}

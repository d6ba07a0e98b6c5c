"""``emu.sdy.jit``: functions of JAX that run on PEs, compiled once per signature."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np

from emu.comm.process.launch_options import LaunchOptions
from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError
from emu.mlir.ir import Operation
from emu.sdy.execution.arguments import parse_mesh
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.execution.executable import Check, Executable
from emu.sdy.execution.executable import compile as compile_module
from emu.sdy.execution.picture import picture
from emu.sdy.jax import from_jax, imported_jax
from emu.stablehlo.reference.values import Array

Tree: TypeAlias = Any
"""A pytree of JAX."""

MeshLike: TypeAlias = Any
"""A mesh of JAX, abstract or not, or sizes by the names of axes."""


@overload
def jit(
    function: Callable[..., Tree],
    *,
    mesh: MeshLike = None,
    in_shardings: Tree = None,
    out_shardings: Tree = None,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
    check: Check | None = None,
    options: LaunchOptions | None = None,
) -> JittedFunction: ...


@overload
def jit(
    function: None = None,
    *,
    mesh: MeshLike = None,
    in_shardings: Tree = None,
    out_shardings: Tree = None,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
    check: Check | None = None,
    options: LaunchOptions | None = None,
) -> Callable[[Callable[..., Tree]], JittedFunction]: ...


def jit(
    function: Callable[..., Tree] | None = None,
    *,
    mesh: MeshLike = None,
    in_shardings: Tree = None,
    out_shardings: Tree = None,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
    check: Check | None = None,
    options: LaunchOptions | None = None,
) -> JittedFunction | Callable[[Callable[..., Tree]], JittedFunction]:
    """Return a function of JAX that runs on as many PEs as its mesh has devices.

    At the first call with arguments of certain shapes, dtypes and static values JAX traces the
    function in this process, Shardy's passes partition it, and the program of one device is compiled;
    later calls only run it. PEs do not import JAX. It is also a decorator: ``@emu.sdy.jit(mesh=…)``.

    Args:
        function: A function of arrays and pytrees, without side effects.
        mesh: The mesh: sizes by axis name (``{"x": 2, "y": 4}`` or ``"x=2,y=4"``), or a mesh of JAX,
            abstract or not. Within ``function``, constraints may name its axes. Default: that of the shardings.
        in_shardings: As for ``jax.jit``: a pytree prefix of the arguments without static ones, of
            ``PartitionSpec`` (where ``mesh`` is given), ``NamedSharding`` or None. Default: what
            propagation finds.
        out_shardings: The same for the results.
        static_argnums: Positions of arguments that are traced as constants; they must be hashable.
            Default: none.
        donate_argnums: Positions of arguments whose buffers results may take inside the program.
            Arrays of the caller are never written to. Default: none.
        check: As for ``emu.sdy.compile``. Default: None.
        options: Settings of launches. Default: those of ``emu.LaunchOptions()``.

    Returns:
        The function. Its results are pytrees of NumPy arrays of global shapes.

    Raises:
        ImportError: JAX is not installed, or too old.
        ArgumentError: ``function`` is not callable, the mesh is none, or a sharding names no axis.

    Example:
        >>> step = emu.sdy.jit(step, mesh={"data": 2, "model": 4}, in_shardings=(None, P("data")))
        >>> weights = step(weights, batch)
    """
    settings = _Settings(
        _abstract_mesh(mesh),
        in_shardings,
        out_shardings,
        _numbers("static_argnums", static_argnums),
        _numbers("donate_argnums", donate_argnums),
        check,
        options,
    )
    if function is None:
        return functools.partial(JittedFunction, settings=settings)
    return JittedFunction(function, settings)


@dataclass(frozen=True)
class _Settings:
    """What a function was jitted with."""

    mesh: MeshLike
    in_shardings: Tree
    out_shardings: Tree
    static_argnums: tuple[int, ...]
    donate_argnums: tuple[int, ...]
    check: Check | None
    options: LaunchOptions | None


@dataclass(frozen=True)
class _Compiled:
    """A function for one signature.

    Attributes:
        executable: The program.
        dtypes: Dtype of each leaf of the arguments.
        outputs: Types of the results, as a pytree.
    """

    executable: Executable
    dtypes: tuple[np.dtype[np.generic], ...]
    outputs: Tree


class JittedFunction:
    """A function of JAX that runs on PEs; made by ``emu.sdy.jit``."""

    def __init__(self, function: Callable[..., Tree], settings: _Settings) -> None:
        if not callable(function):
            raise ArgumentError(
                f"function must be a function, but got {shown(function, with_type=True)}"
            )
        if hasattr(function, "trace") and hasattr(function, "lower"):
            raise ArgumentError(
                "function must be a plain function, but got one that jax.jit made; give the "
                "shardings to emu.sdy.jit"
            )
        functools.update_wrapper(self, function)
        self._settings = settings
        mesh = settings.mesh
        jax = imported_jax("emu.sdy.jit")
        shardings = {
            name: _named(jax, name, value, mesh)
            for name, value in (
                ("in_shardings", settings.in_shardings),
                ("out_shardings", settings.out_shardings),
            )
            if value is not None
        }
        # Arguments that are not used stay: the program's inputs are then the leaves, one by one.
        self._jitted = jax.jit(
            function,
            keep_unused=True,
            static_argnums=settings.static_argnums,
            donate_argnums=settings.donate_argnums,
            **shardings,
        )
        self._compiled: dict[object, _Compiled] = {}

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        """Run the function on PEs.

        Args:
            *args: Its arguments.
            **kwargs: Its keyword arguments; none where ``in_shardings`` are given.

        Returns:
            Its results: NumPy arrays in the pytree that the function returns.

        Raises:
            ArgumentError: A static argument cannot be hashed, or an argument is no array.
            MismatchError: As of ``emu.sdy.compile``, where ``check`` is given.
        """
        compiled, leaves = self._look_up(args, kwargs)
        inputs = [_array(x, dtype) for x, dtype in zip(leaves, compiled.dtypes, strict=True)]
        return _tree(compiled.outputs, compiled.executable(*inputs, options=self._settings.options))

    def compile(self, *args: Tree, **kwargs: Tree) -> Executable:
        """Return the program for arguments like these: arrays or ``jax.ShapeDtypeStruct``."""
        return self._look_up(args, kwargs)[0].executable

    def lower(self, *args: Tree, **kwargs: Tree) -> Operation:
        """Return the module for arguments like these, as Shardy receives it."""
        import jax

        static, dynamic = self._split(args)
        return self._lowered(*_typed(jax, dynamic, kwargs, {i: args[i] for i in static}))

    def picture(self, *args: Tree, **kwargs: Tree) -> str:
        """Return a text figure of which devices hold which blocks of arguments and results."""
        import jax

        compiled, _ = self._look_up(args, kwargs)
        partitioned = compiled.executable.partitioned
        _, dynamic = self._split(args)
        paths = [*jax.tree_util.tree_leaves_with_path((dynamic, kwargs))]
        names = [_named_leaf(self, path) for path, _ in paths]
        results = jax.tree_util.tree_leaves_with_path(compiled.outputs)
        names += [f"result{jax.tree_util.keystr(path)}" for path, _ in results]
        placements = [*partitioned.inputs, *partitioned.results]
        return "\n".join(
            picture(name, placement, partitioned.n_devices)
            for name, placement in zip(names, placements, strict=True)
        )

    def close(self) -> None:
        """End the PEs of all signatures; a call that follows starts others."""
        for each in self._compiled.values():
            each.executable.close()

    def _look_up(
        self, args: tuple[Tree, ...], kwargs: dict[str, Tree]
    ) -> tuple[_Compiled, list[Any]]:
        import jax

        if kwargs and self._settings.in_shardings is not None:
            raise ArgumentError(
                f"keyword arguments must be given by position beside in_shardings, but got "
                f"{', '.join(kwargs)}"
            )
        static, dynamic = self._split(args)
        leaves, structure = jax.tree.flatten((dynamic, kwargs))
        values = tuple((type(args[i]), args[i]) for i in sorted(static))
        types = tuple(_aval(jax, x) for x in leaves)
        key = (values, structure, types)
        try:
            found = self._compiled.get(key)
        except TypeError:
            raise ArgumentError(
                f"static arguments must be hashable, but got {shown([v for _, v in values])}"
            ) from None
        if found is None:
            typed = _typed(jax, dynamic, kwargs, {i: args[i] for i in static})
            module = self._lowered(*typed)
            executable = compile_module(module, check=self._settings.check)
            dtypes = tuple(_physical(jax, t) for t in types)
            found = _Compiled(executable, dtypes, self._outputs(*typed))
            self._compiled[key] = found
        return found, leaves

    def _split(self, args: Sequence[Tree]) -> tuple[set[int], list[Tree]]:
        """Return the positions of static arguments, and the arguments with None in their place."""
        count = len(args)
        static = {n % count for n in self._settings.static_argnums if -count <= n < count}
        return static, [None if i in static else x for i, x in enumerate(args)]

    def _lowered(self, args: Sequence[Tree], kwargs: Mapping[str, Tree]) -> Operation:
        with _within(self._settings.mesh):
            return from_jax(self._jitted, *args, **kwargs)

    def _outputs(self, args: Sequence[Tree], kwargs: Mapping[str, Tree]) -> Tree:
        import jax

        with _within(self._settings.mesh):
            # JAX keeps the trace: this traces nothing anew.
            traced = self._jitted.trace(*args, **kwargs)
        return jax.tree.map(lambda each: each.dtype, traced.out_info)


# Arguments and results


def _named_leaf(function: Callable[..., Tree], path: tuple[Any, ...]) -> str:
    """Return the name of an argument's leaf, as the function knows it: ``weights['w']``."""
    import jax

    is_keyword, which, *rest = path[0].idx, path[1], *path[2:]
    if is_keyword:
        name = str(which.key)
    else:
        parameters = [*inspect.signature(function).parameters.values()]
        known = [
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        name = known[which.idx] if which.idx < len(known) else f"args[{which.idx}]"
    return name + str(jax.tree_util.keystr(tuple(rest)))


def _numbers(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """Return positions of arguments as a tuple."""
    found = (value,) if isinstance(value, int) else tuple(value) if _is_sequence(value) else None
    if found is None or any(type(each) is not int for each in found):
        raise ArgumentError(
            f"{name} must be a number or numbers, but got {shown(value, with_type=True)}"
        )
    return found


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _aval(jax: Any, leaf: Any) -> Any:
    """Return the type that JAX gives a leaf of the arguments."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.core.ShapedArray(leaf.shape, leaf.dtype, leaf.weak_type)
    try:
        return jax.typeof(leaf).update(sharding=None)
    except OverflowError as error:
        raise ArgumentError(f"arguments must fit the dtype that JAX gives them: {error}") from None
    except TypeError:
        raise ArgumentError(
            f"arguments must be arrays or pytrees of them, but got {shown(leaf, with_type=True)}; "
            "static_argnums takes others"
        ) from None


def _typed(
    jax: Any, dynamic: Sequence[Tree], kwargs: Mapping[str, Tree], static: Mapping[int, object]
) -> tuple[list[Tree], dict[str, Tree]]:
    """Return arguments with types in the place of arrays.

    JAX's arrays lie on a device of JAX's, which does not go with shardings over the mesh's.
    """

    def typed(leaf: Any) -> Any:
        aval = _aval(jax, leaf)
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

    args = [
        static[i] if i in static else jax.tree.map(typed, each) for i, each in enumerate(dynamic)
    ]
    return args, jax.tree.map(typed, dict(kwargs))


def _is_key(jax: Any, dtype: Any) -> bool:
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def _physical(jax: Any, aval: Any) -> np.dtype[np.generic]:
    """Return the dtype of a leaf's elements; a key of random numbers is words."""
    return np.dtype(np.uint32 if _is_key(jax, aval.dtype) else aval.dtype)


def _array(leaf: object, dtype: np.dtype[np.generic]) -> Array:
    """Return an argument as the program takes it."""
    import jax

    if isinstance(leaf, jax.ShapeDtypeStruct):
        raise ArgumentError("arguments of a call must be arrays, but got a jax.ShapeDtypeStruct")
    if isinstance(leaf, jax.Array) and _is_key(jax, leaf.dtype):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).astype(dtype, copy=False)


def _tree(outputs: Tree, results: Sequence[Array]) -> Tree:
    """Return results in the function's pytree; keys of random numbers are keys again."""
    import jax

    dtypes, structure = jax.tree.flatten(outputs)
    found = [
        # JAX names the generator of a key's dtype nowhere else.
        jax.random.wrap_key_data(jax.numpy.asarray(array), impl=dtype._impl.name)
        if _is_key(jax, dtype)
        else array
        for array, dtype in zip(results, dtypes, strict=True)
    ]
    return jax.tree.unflatten(structure, found)


# Meshes and shardings


def _abstract_mesh(mesh: MeshLike) -> MeshLike:
    """Return a mesh of JAX that needs no devices; None for none."""
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


def _within(mesh: MeshLike) -> Any:
    """Return a context in which specs name the axes of a mesh."""
    import contextlib

    import jax

    return contextlib.nullcontext() if mesh is None else jax.sharding.use_abstract_mesh(mesh)


def _named(jax: Any, name: str, shardings: Tree, mesh: MeshLike) -> Tree:
    """Return a pytree of shardings whose specs are bound to the mesh."""
    kinds = (jax.sharding.PartitionSpec, jax.sharding.Sharding)

    def bound(value: object) -> object:
        if isinstance(value, jax.sharding.PartitionSpec):
            if mesh is None:
                raise ArgumentError(f"{name}: {value} needs a mesh; give mesh= to emu.sdy.jit")
            try:
                return jax.sharding.NamedSharding(mesh, value)
            except ValueError as error:
                raise ArgumentError(f"{name}: {error}") from None
        if value is None or isinstance(value, jax.sharding.Sharding):
            return value
        raise ArgumentError(
            f"{name} must hold PartitionSpec, NamedSharding or None, but got "
            f"{shown(value, with_type=True)}"
        )

    return jax.tree.map(bound, shardings, is_leaf=lambda x: x is None or isinstance(x, kinds))

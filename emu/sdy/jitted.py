"""``emu.sdy.jit``: functions of JAX that run on PEs, compiled once per signature."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from emu.comm.process.launch_options import MPI, LaunchOptions
from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError, check_flag
from emu.mlir.ir import Operation
from emu.sdy.execution.arguments import check_choice
from emu.sdy.execution.arrays import DeviceArray
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.execution.executable import CHECKS, Check, Executable
from emu.sdy.execution.executable import compile as compile_module
from emu.sdy.execution.picture import picture
from emu.sdy.jax import from_jax, imported_jax
from emu.sdy.jit_shardings import (
    MeshLike,
    Tree,
    abstract_mesh,
    constrained,
    named,
    of_leaves,
    split,
    static_parameters,
    within,
)
from emu.stablehlo.reference.values import Array


@overload
def jit(
    function: Callable[..., Tree],
    *,
    mesh: MeshLike = None,
    in_shardings: Tree = None,
    out_shardings: Tree = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    gather: bool = True,
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
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    gather: bool = True,
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
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    gather: bool = True,
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
            ``PartitionSpec`` (where ``mesh`` is given), ``NamedSharding`` or None. Uneven shards
            are padded inside; the argument lies whole on each PE. Default: what propagation finds.
        out_shardings: The same for the results.
        static_argnums: Positions of arguments that are traced as constants; they must be hashable.
            Default: none.
        static_argnames: Names of such arguments. Default: none but those of ``static_argnums``.
        donate_argnums: Positions of arguments whose buffers results may take inside the program.
            An ``emu.sdy.DeviceArray`` given for one has no value afterwards; arrays of the caller are
            never written to. Default: none.
        gather: Whether results come to this process as NumPy arrays. False leaves them on the PEs:
            they are ``emu.sdy.DeviceArray``, which a call takes as arguments; if it wants them
            sharded as they are, it copies nothing. Keys of random numbers always come. Default: True.
        check: As for ``emu.sdy.compile``. Default: None.
        options: Settings of launches. Default: those of ``emu.LaunchOptions()``.

    Returns:
        The function. Its results are pytrees of arrays of global shapes.

    Raises:
        ImportError: JAX is not installed, or too old.
        ArgumentError: An argument is wrong: ``function`` is not callable, the mesh is none, a sharding
            names no axis, a number or name is none of a parameter.
        ExecutionError: ``check`` or ``options`` are wrong, or ``gather`` is False beside ``check`` or ``transport="mpi"``.

    Example:
        >>> step = emu.sdy.jit(step, mesh={"data": 2, "model": 4}, in_shardings=(None, P("data")))
        >>> weights = step(weights, batch)
    """
    check_flag("gather", gather)
    check_choice("check", check, CHECKS)
    if check is not None and not gather:
        raise ExecutionError("gather must be True for a function that is checked")
    if options is not None and not isinstance(options, LaunchOptions):
        raise ExecutionError(
            f"options must be an emu.LaunchOptions or None, but is {shown(options)}"
        )
    if options is not None and options.transport == MPI and not gather:
        raise ExecutionError("gather must be True with transport='mpi': PEs end with the call")
    settings = _Settings(
        abstract_mesh(mesh),
        in_shardings,
        out_shardings,
        _numbers("static_argnums", static_argnums),
        _names("static_argnames", static_argnames),
        _numbers("donate_argnums", donate_argnums),
        gather,
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
    static_argnames: tuple[str, ...]
    donate_argnums: tuple[int, ...]
    gather: bool
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
        self._function = function
        self._settings = settings
        jax = imported_jax("emu.sdy.jit")
        self._static = static_parameters(
            function, settings.static_argnums, settings.static_argnames
        )
        self._shardings = {
            name: named(jax, name, value, settings.mesh)
            for name, value in (
                ("in_shardings", settings.in_shardings),
                ("out_shardings", settings.out_shardings),
            )
            if value is not None
        }
        self._jitted = self._jit(function, **self._shardings)
        self._compiled: dict[object, _Compiled] = {}

    def _jit(self, function: Callable[..., Tree], **shardings: Tree) -> Any:
        """Return what ``jax.jit`` makes of a function, with these shardings."""
        import jax

        numbers, names = self._static
        try:
            # Arguments that are not used stay: the program's inputs are then the leaves, one by one.
            return jax.jit(
                function,
                keep_unused=True,
                static_argnums=numbers,
                static_argnames=names,
                donate_argnums=self._settings.donate_argnums,
                **shardings,
            )
        except ValueError as error:
            raise ArgumentError(
                "static_argnums, static_argnames and donate_argnums must be different parameters of "
                f"the function: {error}"
            ) from None

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return the function as a method: ``self`` is its first argument, which must be static or a pytree."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        """Run the function on PEs.

        Args:
            *args: Its arguments.
            **kwargs: Its keyword arguments; none where ``in_shardings`` are given.

        Returns:
            Its results, in the pytree that the function returns: NumPy arrays, or, with ``gather=False``,
            ``emu.sdy.DeviceArray``.

        Raises:
            ArgumentError: A static argument cannot be hashed, an argument is no array, or was donated to
                a call before, or shardings do not go with the arguments.
            MismatchError: As of ``emu.sdy.compile``, where ``check`` is given.
        """
        compiled, leaves = self._look_up(args, kwargs)
        inputs = [_array(x, dtype) for x, dtype in zip(leaves, compiled.dtypes, strict=True)]
        run, settings = compiled.executable, self._settings
        if settings.gather:
            return _tree(compiled.outputs, run(*inputs, options=settings.options))
        return _tree(compiled.outputs, run(*inputs, options=settings.options, gather=False))

    def compile(self, *args: Tree, **kwargs: Tree) -> Executable:
        """Return the program for arguments like these: arrays or ``jax.ShapeDtypeStruct``."""
        return self._look_up(args, kwargs)[0].executable

    def lower(self, *args: Tree, **kwargs: Tree) -> Operation:
        """Return the module for arguments like these, as Shardy receives it."""
        import jax

        return self._lowered(*_typed(jax, args, kwargs, self._split(args, kwargs)))[0]

    def picture(self, *args: Tree, **kwargs: Tree) -> str:
        """Return a text figure of which devices hold which blocks of arguments and results."""
        import jax

        compiled, _ = self._look_up(args, kwargs)
        partitioned = compiled.executable.partitioned
        paths = [*jax.tree_util.tree_leaves_with_path(self._dynamic(args, kwargs))]
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
        static = self._split(args, kwargs)
        leaves, structure = jax.tree.flatten(self._dynamic(args, kwargs))
        places = [*static[0].items(), *sorted(static[1].items())]
        values = tuple((place, type(value), value) for place, value in places)
        types = tuple(_aval(jax, x) for x in leaves)
        key = (values, structure, types)
        try:
            found = self._compiled.get(key)
        except TypeError:
            raise ArgumentError(
                f"static arguments must be hashable, but got {shown([v for *_, v in values])}"
            ) from None
        if found is None:
            module, outputs = self._lowered(*_typed(jax, args, kwargs, static))
            executable = compile_module(module, check=self._settings.check)
            dtypes = tuple(_physical(jax, t) for t in types)
            found = _Compiled(executable, dtypes, outputs)
            self._compiled[key] = found
        return found, leaves

    def _split(
        self, args: Sequence[Tree], kwargs: Mapping[str, Tree]
    ) -> tuple[dict[int, object], dict[str, object]]:
        """Return the static arguments by position and by name."""
        return split(args, kwargs, *self._static)

    def _dynamic(
        self, args: Sequence[Tree], kwargs: Mapping[str, Tree]
    ) -> tuple[list[Tree], dict[str, Tree]]:
        """Return the arguments with None in the place of static ones."""
        places, names = self._split(args, kwargs)
        return (
            [None if i in places else x for i, x in enumerate(args)],
            {name: x for name, x in kwargs.items() if name not in names},
        )

    def _lowered(self, args: Sequence[Tree], kwargs: Mapping[str, Tree]) -> tuple[Operation, Tree]:
        """Return the module for arguments of these types, and the dtypes of the results."""
        import jax

        with within(self._settings.mesh):
            static = self._split(args, kwargs)[0]
            jitted = self._evened(args, static)
            try:
                module = from_jax(jitted, *args, **kwargs)
            except (AssertionError, ValueError):
                # An uneven out_sharding, perhaps, or one of another structure, of which JAX may assert
                # only that it is none: without them the results have shapes.
                jitted = self._evened_results(args, kwargs, static)
                if jitted is None:
                    raise
                module = from_jax(jitted, *args, **kwargs)
            # JAX keeps the trace: this traces nothing anew.
            traced = jitted.trace(*args, **kwargs)
        return module, jax.tree.map(lambda each: each.dtype, traced.out_info)

    def _evened(self, args: Sequence[Tree], static: Collection[int]) -> Any:
        """Return the jitted function, which constrains uneven arguments itself."""
        import jax

        shardings = self._shardings.get("in_shardings")
        if shardings is None:
            return self._jitted
        dynamic = tuple(x for i, x in enumerate(args) if i not in static)
        evened, is_uneven = of_leaves(jax, "in_shardings", shardings, dynamic)
        if not is_uneven:
            return self._jitted
        function = constrained(jax, self._function, static, shardings, None)
        return self._jit(function, **{**self._shardings, "in_shardings": evened})

    def _evened_results(
        self, args: Sequence[Tree], kwargs: Mapping[str, Tree], static: Collection[int]
    ) -> Any:
        """Return a jitted function that constrains uneven arguments and results; None where none is."""
        import jax

        outs = self._shardings.get("out_shardings")
        if outs is None:
            return None
        ins = self._shardings.get("in_shardings")
        given = {}
        if ins is not None:
            dynamic = tuple(x for i, x in enumerate(args) if i not in static)
            given["in_shardings"], _ = of_leaves(jax, "in_shardings", ins, dynamic)
        plain = self._jit(constrained(jax, self._function, static, ins, None), **given)
        results = plain.trace(*args, **kwargs).out_info
        evened, is_uneven = of_leaves(jax, "out_shardings", outs, results)
        if not is_uneven:
            return None
        function = constrained(jax, self._function, static, ins, outs)
        return self._jit(function, **given, out_shardings=evened)


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


def _names(name: str, value: str | Sequence[str]) -> tuple[str, ...]:
    """Return names of arguments as a tuple."""
    found = (value,) if isinstance(value, str) else tuple(value) if _is_sequence(value) else None
    if found is None or not all(isinstance(each, str) for each in found):
        raise ArgumentError(
            f"{name} must be a name or names, but got {shown(value, with_type=True)}"
        )
    return found


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _aval(jax: Any, leaf: Any) -> Any:
    """Return the type that JAX gives a leaf of the arguments."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.core.ShapedArray(leaf.shape, leaf.dtype, leaf.weak_type)
    if isinstance(leaf, DeviceArray):
        if leaf.is_donated:
            raise ArgumentError(f"arguments must have a value, but {leaf!r} was donated to a call")
        return jax.core.ShapedArray(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))
    if isinstance(leaf, jax.core.Tracer):
        raise ArgumentError(
            "arguments must be arrays with values, but got a tracer of JAX: transform the function "
            f"(jax.grad, jax.vmap, jax.jit) inside of emu.sdy.jit, not around it: {shown(leaf)}"
        )
    try:
        return jax.typeof(leaf).update(sharding=None)
    except (RuntimeError, ValueError) as error:  # it is deleted, or has a mask
        raise ArgumentError(f"arguments must be arrays with values: {error}") from None
    except OverflowError as error:
        raise ArgumentError(f"arguments must fit the dtype that JAX gives them: {error}") from None
    except TypeError:
        raise ArgumentError(
            f"arguments must be arrays or pytrees of them, but got {shown(leaf, with_type=True)}; "
            "static_argnums takes others"
        ) from None


def _typed(
    jax: Any,
    args: Sequence[Tree],
    kwargs: Mapping[str, Tree],
    static: tuple[Mapping[int, object], Mapping[str, object]],
) -> tuple[list[Tree], dict[str, Tree]]:
    """Return arguments with types in the place of arrays.

    JAX's arrays lie on a device of JAX's, which does not go with shardings over the mesh's.
    """
    places, names = static

    def typed(leaf: Any) -> Any:
        aval = _aval(jax, leaf)
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

    return (
        [x if i in places else jax.tree.map(typed, x) for i, x in enumerate(args)],
        {name: x if name in names else jax.tree.map(typed, x) for name, x in kwargs.items()},
    )


def _is_key(jax: Any, dtype: Any) -> bool:
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def _physical(jax: Any, aval: Any) -> np.dtype[np.generic]:
    """Return the dtype of a leaf's elements; a key of random numbers is words."""
    return np.dtype(np.uint32 if _is_key(jax, aval.dtype) else aval.dtype)


def _array(leaf: object, dtype: np.dtype[np.generic]) -> Array | DeviceArray:
    """Return an argument as the program takes it."""
    import jax

    if isinstance(leaf, DeviceArray):
        return leaf if leaf.dtype == dtype else leaf.numpy().astype(dtype)
    if isinstance(leaf, jax.ShapeDtypeStruct):
        raise ArgumentError("arguments of a call must be arrays, but got a jax.ShapeDtypeStruct")
    if isinstance(leaf, jax.Array) and _is_key(jax, leaf.dtype):
        leaf = jax.random.key_data(leaf)
    try:
        return np.asarray(leaf).astype(dtype, copy=False)
    except RuntimeError as error:  # JAX has deleted it
        raise ArgumentError(f"arguments must be arrays with values: {error}") from None


def _tree(outputs: Tree, results: Sequence[Array] | Sequence[DeviceArray]) -> Tree:
    """Return results in the function's pytree; keys of random numbers are keys again."""
    import jax

    dtypes, structure = jax.tree.flatten(outputs)
    found = [
        # JAX names the generator of a key's dtype nowhere else.
        jax.random.wrap_key_data(jax.numpy.asarray(np.asarray(array)), impl=dtype._impl.name)
        if _is_key(jax, dtype)
        else array
        for array, dtype in zip(results, dtypes, strict=True)
    ]
    return jax.tree.unflatten(structure, found)

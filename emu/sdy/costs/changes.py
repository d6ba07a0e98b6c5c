"""Changes to a module before its cost is predicted: other sizes of axes, other shardings of arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from emu.kernels.core.messages import shown
from emu.mlir import parse
from emu.mlir.arguments import ArgumentError
from emu.mlir.diagnostics import Diagnostics, MlirError
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.mlir.verify import verify
from emu.sdy.costs.arguments import MOST_DEVICES
from emu.sdy.dialect.attributes import ManualAxes, Mesh, MeshAxis, TensorSharding
from emu.sdy.dialect.functions import (
    func_arg_sharding,
    func_result_sharding,
    function_type,
    set_func_arg_sharding,
)
from emu.sdy.dialect.meshes import find_mesh
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.import_.meshes import LiftInlinedMeshes
from emu.sdy.provenance.names import ValueName, line_of, name_of


def meshes_of(module: Operation) -> list[tuple[str, Mesh]]:
    """Return the meshes of a module with their names, the one of most devices first."""
    found = [
        (op.symbol_name or "", mesh)
        for op in module.body()
        for mesh in [op.properties.get("mesh")]
        if op.name == "sdy.mesh" and isinstance(mesh, Mesh)
    ]
    return sorted(found, key=lambda pair: -pair[1].total_size)


@dataclass(frozen=True)
class Boundary:
    """An argument or a result of the main function.

    Attributes:
        name: What messages call it.
        type: Its type.
        sharding: Its sharding, if it has one.
    """

    name: str
    type: Type
    sharding: TensorSharding | None


def boundaries(function: Operation) -> Iterator[Boundary]:
    """Yield the arguments and the results of a function whose values have names."""
    for index, argument in enumerate(function.body().arguments):
        name = name_of(argument)
        text = f"argument {index}" if name is None else name.name
        yield Boundary(text, argument.type, func_arg_sharding(function, index))
    for index, type_ in enumerate(function_type(function).results):
        yield Boundary(f"result#{index}", type_, func_result_sharding(function, index))


def uneven(function: Operation) -> Iterator[str]:
    """Yield, in words, the dimensions of arguments and results that are not divided evenly."""
    for each in boundaries(function):
        mesh = find_mesh(function, each.sharding.mesh) if each.sharding is not None else None
        if mesh is None or each.sharding is None or not isinstance(each.type, TensorType):
            continue
        for dim, (size, sharding) in enumerate(
            zip(each.type.shape, each.sharding.dims, strict=False)
        ):
            shards = sharding.sharded_size(mesh)
            if size is not None and size % shards:
                axes = ", ".join(
                    f"{a.stripped_text()} of size {a.size(mesh)}" for a in sharding.axes
                )
                yield (
                    f"dimension {dim} of {each.name} has {size} elements, which the {shards} shards "
                    f"along {axes} do not divide evenly"
                )


def change_mesh(module: Operation, main: Operation, sizes: Mapping[str, int]) -> None:
    """Give axes of all meshes other sizes.

    Raises:
        ArgumentError: An axis is unknown, or of a manual computation; sizes do not fit shapes.
    """
    run_pass(LiftInlinedMeshes(), module, Session(verify_each=False))
    meshes = [op for op in module.body() if op.name == "sdy.mesh"]
    known = {axis.name: axis.size for _, mesh in meshes_of(module) for axis in mesh.axes}
    for name in sizes:
        if name not in known:
            some = ", ".join(f"{axis}={size}" for axis, size in known.items())
            raise ArgumentError(
                f"mesh must name axes of the module ({some or 'it has none'}), but got {shown(name)}"
            )
    _check_manual(module, {n for n, size in sizes.items() if size != known[n]}, sizes)
    for op in meshes:
        mesh = op.properties["mesh"]
        assert isinstance(mesh, Mesh)
        axes = tuple(MeshAxis(a.name, sizes.get(a.name, a.size)) for a in mesh.axes)
        if axes == mesh.axes:
            continue
        changed = Mesh(axes)  # an order of devices is that of the old sizes
        if changed.total_size > MOST_DEVICES:
            raise ArgumentError(
                f"mesh must have at most {MOST_DEVICES} devices, but has {changed.total_size}"
            )
        op.properties["mesh"] = changed
        op.attributes.pop("stablehlo.mesh", None)
    for problem in uneven(main):
        raise ArgumentError(f"mesh must divide what it shards, but {problem}")
    _verify(module, f"mesh must fit the module's shardings, but {_sizes_text(sizes)} does not")


def _check_manual(module: Operation, changed: set[str], sizes: Mapping[str, int]) -> None:
    for op in module.walk():
        manual = op.properties.get("manual_axes")
        if op.name != "sdy.manual_computation" or not isinstance(manual, ManualAxes):
            continue
        for axis in manual.axes:
            if axis in changed:
                where = line_of(op.location)
                raise ArgumentError(
                    f"mesh must keep the size of axis {axis!r}, whose local shapes are written in the "
                    f"manual computation{f' at {where}' if where else ''}, but got {sizes[axis]}"
                )


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def _verify(module: Operation, message: str) -> None:
    diagnostics = Diagnostics()
    if not verify(module, diagnostics):
        raise ArgumentError(f"{message}: {diagnostics.errors[0].message}")


def change_shardings(module: Operation, main: Operation, shardings: Mapping[str, str]) -> None:
    """Give arguments of the main function other shardings.

    Raises:
        ArgumentError: An argument or an axis is unknown, or a sharding cannot be read or does not fit.
    """
    names = {
        name.name: argument.index
        for argument in main.body().arguments
        for name in [name_of(argument)]
        if isinstance(name, ValueName)
    }
    for name, text in shardings.items():
        if name not in names:
            some = ", ".join(list(names)[:8]) or "none"
            raise ArgumentError(
                f"shardings must name arguments of @main ({some}), but got {name!r}"
            )
        argument = main.body().arguments[names[name]]
        set_func_arg_sharding(main, argument.index, _sharding(module, name, argument.type, text))
        for problem in uneven(main):
            if problem.split(" has ")[0].endswith(f" of {name}"):
                raise ArgumentError(
                    f"shardings[{name!r}] must divide the argument, but got {shown(text)}: {problem}"
                )


def _sharding(module: Operation, name: str, type_: Type, text: str) -> TensorSharding:
    meshes = meshes_of(module)
    if not meshes:
        raise ArgumentError(f"shardings[{name!r}] needs a mesh, but the module has none")
    mesh_name, mesh = meshes[0]
    whole = text.strip() if text.strip().startswith("<") else f"<@{mesh_name}, {text.strip()}>"
    program = (
        f'"sdy.mesh"() <{{mesh = #sdy.mesh{mesh.stripped_text()}, sym_name = "{mesh_name}"}}> : () -> ()\n'
        f"func.func @main(%x: {type_} {{sdy.sharding = #sdy.sharding{whole}}}) {{ return }}"
    )
    try:
        found = func_arg_sharding(parse(program).body().operations[1], 0)
    except MlirError as error:
        why = error.diagnostics[0].message if error.diagnostics else str(error)
        raise ArgumentError(
            f"shardings[{name!r}] must be a sharding of {type_}, as in '[{{\"x\"}}, {{}}]', but got "
            f"{shown(text)}: {why}"
        ) from None
    if found is None:
        raise ArgumentError(f"shardings[{name!r}] must be a sharding, but got {shown(text)}")
    return found

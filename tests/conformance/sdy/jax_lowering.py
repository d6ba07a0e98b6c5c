"""What programs of JAX are made of: meshes, sharded arguments, and their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct, lax
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

from emu.sdy.jax import legalized_text

U = P.UNCONSTRAINED
MESH = AbstractMesh((2, 4), ("data", "model"))
WIDE = AbstractMesh((16, 8), ("data", "model"))
CUBE = AbstractMesh((2, 3, 4), ("x", "y", "z"))
LINE = AbstractMesh((6,), ("x",))
ONES = AbstractMesh((1, 4), ("one", "x"))

Program = tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]
PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    """Register a program: what gives a function, its arguments and jit's options."""
    PROGRAMS[make.__name__] = make
    return make


def shaped(
    shape: Sequence[int], spec: Any = None, mesh: AbstractMesh = MESH, dtype: Any = jnp.float32
) -> ShapeDtypeStruct:
    """An argument, sharded if a spec is given."""
    if spec is None:
        return ShapeDtypeStruct(tuple(shape), dtype)
    return ShapeDtypeStruct(tuple(shape), dtype, sharding=NamedSharding(mesh, spec))


def constrained(x: Any, *spec: Any, mesh: AbstractMesh = MESH) -> Any:
    """``with_sharding_constraint``."""
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def lowered(make: Callable[[], Program], *, legalized: bool = False) -> tuple[str, str]:
    """The text of a program, without and with locations; without CHLO if asked for."""
    function, arguments, options = make()
    if options.pop("exported", False):
        from jax import export

        text = export.export(jax.jit(function))(*arguments).mlir_module()
        return text, text
    low = jax.jit(function, **options).trace(*arguments).lower(lowering_platforms=("cpu",))
    plain, located = low.as_text(), low.as_text(debug_info=True)
    if legalized:
        plain, located = (
            legalized_text(low, locations=each) or text
            for each, text in ((False, plain), (True, located))
        )
    return plain, located

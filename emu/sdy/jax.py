"""StableHLO modules of JAX functions, with their shardings, without compilation.

JAX traces and lowers; nothing is compiled, and no device is needed beyond the one
that JAX always has. A mesh larger than the machine is a
``jax.sharding.AbstractMesh``. Needs the extra ``jax``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import emu.sdy.dialect  # noqa: F401  # registers the dialects that `parse` is to know
from emu.kernels.core.messages import shown
from emu.mlir import parse
from emu.mlir.arguments import ArgumentError, check_flag, check_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from emu.mlir.ir import Operation

_OLDEST = (0, 5)
_CHLO_PASS = "func.func(chlo-legalize-to-stablehlo)"


def from_jax(
    function: Callable[..., Any],
    *args: Any,
    in_shardings: Any = None,
    out_shardings: Any = None,
    platform: str = "cpu",
    locations: bool = True,
    legalize_chlo: bool = True,
    **kwargs: Any,
) -> Operation:
    """Lower a function to StableHLO with sdy shardings.

    Args:
        function: A function, or the result of ``jax.jit``.
        *args: Arguments: arrays, or ``jax.ShapeDtypeStruct``, which may carry
            shardings.
        in_shardings: As for ``jax.jit``; only for a function that is not
            jitted. Its meshes may be ``AbstractMesh``.
        out_shardings: The same for results.
        platform: The platform to lower for. Default: "cpu".
        locations: Keep the lines of the Python source as locations.
            Default: yes.
        legalize_chlo: Lower CHLO (``erf``, ``square``, ``top_k`` …) to StableHLO,
            with jaxlib's own pass. XLA does so before Shardy, which has no rules
            for CHLO, so that shardings stop at it. Default: yes.
        **kwargs: Keyword arguments of the function.

    Returns:
        The module as Shardy receives it, before propagation.

    Raises:
        ImportError: JAX is not installed, or too old.
        ArgumentError: Shardings are given for a function that is jitted
            already, or an argument of this function (not of yours) is wrong.

    Example:
        >>> mesh = jax.sharding.AbstractMesh((16, 16), ("data", "model"))
        >>> sharding = jax.sharding.NamedSharding(mesh, P("data", "model"))
        >>> module = emu.sdy.from_jax(jnp.tanh, x, in_shardings=sharding)
    """
    if not callable(function):
        raise ArgumentError(
            f"function must be a function, but got {shown(function, with_type=True)}"
        )
    check_text("platform", platform, "the name of a platform")
    check_flag("locations", locations)
    check_flag("legalize_chlo", legalize_chlo)
    jax = imported_jax("emu.sdy.from_jax")
    shardings = {
        name: value
        for name, value in (("in_shardings", in_shardings), ("out_shardings", out_shardings))
        if value is not None
    }
    if not hasattr(function, "trace"):
        try:
            function = jax.jit(function, **shardings)
        except TypeError as error:  # JAX names the argument and the value
            raise ArgumentError(str(error)) from None
    elif shardings:
        raise ArgumentError(
            f"{' and '.join(shardings)}: the function is jitted already; "
            "give the shardings to jax.jit"
        )
    lowered = function.trace(*args, **kwargs).lower(  # type: ignore[attr-defined]  # jitted
        lowering_platforms=(platform,)
    )
    text = legalized_text(lowered, locations=locations) if legalize_chlo else None
    if text is None:
        text = lowered.as_text(debug_info=locations)
    name = getattr(function, "__name__", "function")
    return parse(text, file=f"<{name} lowered by jax>")


def legalized_text(lowered: Any, *, locations: bool) -> str | None:
    """Return the text of a result of ``jax.jit(f).lower()``, with CHLO lowered to StableHLO.

    None if it has no CHLO, or if jaxlib cannot lower one of its operations.
    """
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import stablehlo

    module = lowered.compiler_ir("stablehlo")
    if "chlo." not in str(module) or not hasattr(stablehlo, "register_stablehlo_passes"):
        return None
    stablehlo.register_stablehlo_passes()
    with module.context, ir.Location.unknown():
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
        manager = passmanager.PassManager.parse(f"builtin.module({_CHLO_PASS})")
        try:
            manager.run(copy.operation)
        except ir.MLIRError:  # an operation that jaxlib cannot lower stays
            return None
        return str(copy.operation.get_asm(enable_debug_info=locations))


def imported_jax(caller: str) -> Any:
    """Return the module ``jax``; raise ImportError, which names the caller, where it does not do."""
    try:
        import jax
    except ImportError:
        raise ImportError(f"{caller} needs JAX: pip install 'tile-emu[jax]'", name="jax") from None
    version = tuple(int(n) for n in re.findall(r"\d+", jax.__version__)[:2])
    if version < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ImportError(f"{caller} needs jax >= {oldest}, found {jax.__version__}")
    if not jax.config.jax_use_shardy_partitioner:  # pyright: ignore[reportAttributeAccessIssue]  # made at run time
        raise ImportError(
            f"{caller} needs Shardy in JAX: jax.config.update('jax_use_shardy_partitioner', True)"
        )
    return jax

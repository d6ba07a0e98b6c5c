"""The module of a jitted JAX function, with its shardings, without compiling it.

JAX traces and lowers; nothing is compiled and no device is needed beyond the
one that JAX always has. A mesh larger than the machine is an
``jax.sharding.AbstractMesh``. Needs the extra ``jax``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from emu.sdy.mlir import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from emu.sdy.mlir.ir import Operation

__all__ = ["from_jax"]

_OLDEST = (0, 5)


def from_jax(
    function: Callable[..., Any],
    *args: Any,
    in_shardings: Any = None,
    out_shardings: Any = None,
    platform: str = "cpu",
    locations: bool = True,
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
        platform: For which platform it is lowered. Default: "cpu".
        locations: Keep the lines of the Python source as locations.
            Default: yes.
        **kwargs: Keyword arguments of the function.

    Returns:
        The module, as JAX hands it to Shardy: before propagation.

    Raises:
        ImportError: JAX is not installed, or too old.
        ValueError: Shardings are given for a function that is jitted already.

    Example:
        >>> mesh = jax.sharding.AbstractMesh((16, 16), ("data", "model"))
        >>> sharding = jax.sharding.NamedSharding(mesh, P("data", "model"))
        >>> module = emu.sdy.from_jax(jnp.tanh, x, in_shardings=sharding)
    """
    jax = _jax()
    shardings = {
        name: value
        for name, value in (("in_shardings", in_shardings), ("out_shardings", out_shardings))
        if value is not None
    }
    if not hasattr(function, "trace"):
        function = jax.jit(function, **shardings)
    elif shardings:
        raise ValueError(
            f"{' and '.join(shardings)}: the function is jitted already; "
            "give the shardings to jax.jit"
        )
    lowered = function.trace(*args, **kwargs).lower(  # type: ignore[attr-defined]  # jitted
        lowering_platforms=(platform,)
    )
    text = lowered.as_text(debug_info=locations)
    name = getattr(function, "__name__", "function")
    return parse(text, file=f"<{name} lowered by jax>")


def _jax() -> Any:
    try:
        import jax
    except ImportError:
        raise ImportError(
            "emu.sdy.from_jax needs JAX: pip install 'tile-emu[jax]'", name="jax"
        ) from None
    version = tuple(int(n) for n in re.findall(r"\d+", jax.__version__)[:2])
    if version < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ImportError(f"emu.sdy.from_jax needs jax >= {oldest}, found {jax.__version__}")
    if not jax.config.jax_use_shardy_partitioner:
        raise ImportError(
            "emu.sdy.from_jax needs Shardy in JAX: "
            "jax.config.update('jax_use_shardy_partitioner', True)"
        )
    return jax

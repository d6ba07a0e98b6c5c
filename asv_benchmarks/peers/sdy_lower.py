"""JAX lowers a training step of a transformer: writes the module as Shardy receives it.

    sdy_lower.py LAYERS [locations] [small]

The mesh is 2 x 4; nothing is compiled, and no device is needed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax  # after its settings
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec
from rows import jax_models

from emu.sdy.jax import legalized_text


def main() -> None:
    locations = "locations" in sys.argv
    mesh = AbstractMesh((2, 4), ("data", "model"))
    model = jax_models.transformer(mesh, "small" in sys.argv, layers=int(sys.argv[1]))

    def placed(tree):  # a NamedSharding for each PartitionSpec
        return jax.tree.map(
            lambda spec: NamedSharding(mesh, spec),
            tree,
            is_leaf=lambda each: isinstance(each, PartitionSpec),
        )

    step = jax.jit(
        model.function, in_shardings=placed(model.specs), out_shardings=placed(model.results)
    )
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), model.arguments)
    lowered = step.trace(*shapes).lower(lowering_platforms=("cpu",))
    text = legalized_text(lowered, locations=locations)
    sys.stdout.write(lowered.as_text(debug_info=locations) if text is None else text)


if __name__ == "__main__":
    main()

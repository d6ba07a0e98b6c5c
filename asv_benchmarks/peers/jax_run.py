"""JAX on virtual CPU devices: compiles a program of ``rows/jax_models.py``, and runs its steps when asked.

    jax_run.py PROGRAM DEVICES FOLDER [small]

It writes the module as Shardy receives it and the arguments into the folder (``module.mlir``,
``arguments.npz``), then a line of JSON: seconds of the compilation and of the first step, and the first
step's last result. Each line that it reads is a number of steps; it answers with the seconds of the
clock and of the processor. The state stays on the devices from step to step, and is donated.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

PROGRAM, DEVICES, FOLDER = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
# After flags of the caller's, such as --xla_cpu_max_isa=AVX2.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
)
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax  # after its settings
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from rows import jax_models


def main() -> None:
    shape = (2, 4) if DEVICES == 8 else (1, DEVICES)
    mesh = Mesh(np.array(jax.devices()[:DEVICES]).reshape(shape), ("data", "model"))
    model = jax_models.MODELS[PROGRAM](mesh, "small" in sys.argv)

    def placed(tree):  # a NamedSharding for each PartitionSpec
        return jax.tree.map(
            lambda spec: NamedSharding(mesh, spec),
            tree,
            is_leaf=lambda each: isinstance(each, PartitionSpec),
        )

    shardings = placed(model.specs)
    step = jax.jit(
        model.function,
        in_shardings=shardings,
        out_shardings=placed(model.results),
        donate_argnums=0,
    )
    lowered = step.lower(*model.arguments)
    leaves = jax.tree.leaves(model.arguments)
    np.savez(FOLDER / "arguments.npz", *leaves)
    from emu.sdy.jax import legalized_text

    text = legalized_text(lowered, locations=True) or lowered.as_text(debug_info=True)
    (FOLDER / "module.mlir").write_text(text, encoding="utf-8")

    state, *others = (jax.device_put(a, s) for a, s in zip(model.arguments, shardings, strict=True))
    jax.block_until_ready((state, others))
    start = time.perf_counter()
    compiled = lowered.compile()
    compiling = time.perf_counter() - start
    start = time.perf_counter()
    state, value = jax.block_until_ready(compiled(state, *others))
    first = time.perf_counter() - start
    told = {
        "compile": compiling,
        "first": first,
        "state": len(jax.tree.leaves(state)),
        "value": float(np.asarray(value).ravel()[0]),
    }
    print(json.dumps(told), flush=True)
    for line in sys.stdin:
        start, spent = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            state, value = compiled(state, *others)
            jax.block_until_ready((state, value))
        times = time.perf_counter() - start, time.process_time() - spent
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()

"""Write the programs of this folder, and what JAX computes of them.

    PYTHONPATH=.:tests/support:tests/sdy python tests/sdy/execution/programs/make.py

with an interpreter that has jax. Inputs are numbers that need no generator: see ``inputs``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from test_jax_programs import MESHES, PROGRAMS, Axes

import emu.sdy

HERE = Path(__file__).parent
CASES = {
    "embedding": "4x2",
    "lstm_scan": "2x4",
    "mixture_of_experts": "8",
    "mlp_adam": "2x2x2",
    "ring_attention": "2x4",
}


def inputs(shapes: list[Any]) -> list[np.ndarray]:
    """Return arrays of numbers between -1 and 1, or of whole numbers below 32."""
    found = []
    for index, each in enumerate(shapes):
        count = np.arange(int(np.prod(each.shape)), dtype=np.int64) + 7 * index
        if np.issubdtype(each.dtype, np.integer):
            values = count * 5 % 32
        else:
            values = (count * 37 % 101 - 50) / 50
        found.append(values.reshape(each.shape).astype(each.dtype))
    return found


def main() -> None:
    """Write all."""
    expected = {}
    for name, mesh in CASES.items():
        function, arguments, specs = PROGRAMS[name](Axes(MESHES[mesh]))
        jitted = emu.sdy.jit(function, mesh=MESHES[mesh], in_shardings=specs)
        text = emu.sdy.to_text(jitted.lower(*arguments))
        (HERE / f"{name}.mlir").write_text(text, encoding="utf-8")
        leaves, structure = jax.tree.flatten(arguments)
        given = jax.tree.unflatten(structure, inputs(leaves))
        results = jax.jit(getattr(function, "alone", function))(*given)
        expected[name] = [np.asarray(x).reshape(-1)[:12].tolist() for x in jax.tree.leaves(results)]
    text = json.dumps(expected, indent=1)
    (HERE / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Memory of the PEs of a partitioned program, beside what its shards and planned buffers take.

    python asv_benchmarks/sdy_memory.py [FILE.mlir]

Without a file it is a layer of 2048 x 2048 on a mesh of 2 x 4. A PE's peak is what its heap has taken (the
mean of all), and its private memory beside that of the interpreter, libraries and kernels.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import emu.sdy
from emu.commands.sdy.run import random_array

LAYER = """
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(
    %x: tensor<2048x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %w: tensor<2048x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
    %v: tensor<2048x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
    -> (tensor<2048x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %1 = stablehlo.tanh %0 : tensor<2048x2048xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
      : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %2 : tensor<2048x2048xf32>
}
"""


def main() -> None:
    """Print a line per PE."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    module = emu.sdy.parse(LAYER if path is None else path.read_text())
    rng = np.random.default_rng(0)
    with emu.sdy.compile(module) as program:
        inputs = [random_array(rng, each.type) for each in program.partitioned.inputs]
        for _ in range(3):
            program(*inputs, gather=False)
        resident = program._resident
        assert resident is not None, "the program runs on one device"
        shards = resident.memory.nbytes
        segment = resident.session.segment
        heap = (segment.backed_bytes() - segment.layout.control_bytes) // resident.session.n_pes
        for pe, usage in enumerate(resident.usage()):
            planned, used = shards + usage.buffers, heap + usage.private
            print(
                f"PE {pe}: shards {_mib(shards)} + buffers {_mib(usage.buffers)} = {_mib(planned)} MiB; "
                f"peak: heap {_mib(heap)} + private {_mib(usage.private)} = {_mib(used)} MiB, "
                f"{used / max(planned, 1):.2f} of it"
            )


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:.1f}"


if __name__ == "__main__":
    main()

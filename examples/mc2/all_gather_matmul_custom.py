"""AllGatherMatmulCustom written with Hccl, as its kernel is: 8 ranks, M=512, K=5120, N=640, fp16.

Beside this file lie the operator's prototype (.json) and what its host side fills in (.h), both as
published, so two misspelt keys of the prototype are reported. The bytes of the tiling data tell the
communication server which argument is sent and which is gathered into.

Run with: emu run -n 8 examples/mc2/all_gather_matmul_custom.py
or, which starts 8 PEs by itself: python examples/mc2/all_gather_matmul_custom.py
"""

import warnings
from pathlib import Path

import numpy as np

import emu
from emu.comm.tiling import read_macros
from emu.kernels.matmul import matmul
from emu.mc2 import Hccl, all_gather_matmul, compare, read_prototypes

HERE = Path(__file__).resolve().parent
RANKS, M, K, N = 8, 512, 5120, 640
TILE = 448  # rows of a full tile; the tail has the 64 that are left


def host():
    """Return what the host side hands to the kernel: the operator's prototype and tiling data."""
    with warnings.catch_warnings():
        if emu.world().my_pe != 0:  # one rank says what is misspelt
            warnings.simplefilter("ignore")
        prototypes = read_prototypes(HERE / "all_gather_matmul_custom.json")
    prototype = prototypes["AllGatherMatmulCustom"]
    text = read_macros((HERE / "all_gather_matmul_custom.h").read_text(encoding="utf-8"))
    message = text.instances["tiling"].msg
    assert message.sendArgIndex == prototype.index_of("x1")
    assert message.recvArgIndex == prototype.index_of("y")
    assert message.commOutArgIndex == prototype.index_of("gather_out")
    return prototype, text.instances["tiling"].to_bytes()


def kernel(group, tiling, x1, x2, y, gather_out):
    """Multiply this rank's rows while those of the others come; then each tile that has come."""
    rows, tiles = x1.shape[0], x1.shape[0] // TILE
    tail = rows - tiles * TILE
    with Hccl(group, tiling=tiling, args=(x1, x2, None, y, gather_out)) as hccl:
        rank, ranks, stride = hccl.GetRankId(), hccl.GetRankDim(), x1.size
        main = hccl.AllGather(
            x1, gather_out, TILE * K, strideCount=stride, repeat=tiles, commit=True
        )
        rest = hccl.AllGather(
            x1[rows - tail :], gather_out[rows - tail :], tail * K, strideCount=stride, commit=True
        )
        matmul(x1, x2, out=y[rank * rows : (rank + 1) * rows])
        starts = range(0, rows, TILE)
        for handle, start in zip([main] * tiles + [rest], starts, strict=True):
            hccl.Wait(handle)
            for other in set(range(ranks)) - {rank}:
                part = slice(other * rows + start, other * rows + min(start + TILE, rows))
                matmul(gather_out[part], x2, out=y[part])


def main():
    """Run the kernel and the ready-made operator, and compare both with NumPy."""
    world = emu.world()
    x1s = [
        np.random.default_rng(pe).uniform(-1, 1, (M, K)).astype(np.float16)
        for pe in range(world.n_pes)
    ]
    x2 = np.random.default_rng(100 + world.my_pe).uniform(-1, 1, (K, N)).astype(np.float16)
    x1 = x1s[world.my_pe]
    prototype, tiling = host()
    bound = prototype.bind([x1, x2], {"group": world.name})
    y = np.empty((world.n_pes * M, N), np.float16)
    gather_out = np.empty((world.n_pes * M, K), np.float16)
    kernel(world, tiling, x1, x2, y, gather_out)

    gathered = np.concatenate(x1s)
    assert np.array_equal(gather_out, gathered)
    found = compare(y, gathered.astype(np.float32) @ x2.astype(np.float32))
    assert found, found
    ready = all_gather_matmul(**bound.inputs, **bound.attributes, tile_rows=TILE, tiling=tiling)
    assert np.array_equal(ready[0], y)
    assert np.array_equal(ready[1], gather_out)
    if world.my_pe == 0:
        print(
            f"AllGatherMatmulCustom on {world.n_pes} ranks: {len(tiling)} bytes of tiling, {found}"
        )


if __name__ == "__main__":
    try:
        emu.world()
    except emu.CommError:  # started with python: this process is no PE
        emu.launch(main, RANKS)
    else:
        main()

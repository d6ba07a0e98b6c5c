"""Two groups at once, each gathering a different number of rows from each member; some have none.

It needs 2 PEs or more.
Run with: emu run -n 8 examples/pypto/two_groups.py
"""

import sys

import numpy as np
import pypto

import emu
from emu.pypto.testing import assert_close, random_array

dist = pypto.distributed


@pypto.frontend.jit
def gather_ragged(x, counts, out, group_name, n_pes):
    """Gather the first ``counts[0, pe]`` rows of each member's x, close together."""
    rows, columns = x.shape
    me = dist.my_symbolic_pe(group_name)
    data = dist.create_shmem_tensor(group_name, n_pes, x.dtype, [n_pes, rows, columns])
    pypto.set_vec_tile_shapes(1, 4, 8)  # neither 4 nor 8 divides: tail tiles in both axes
    ragged = pypto.reshape(x, [1, rows, columns], valid_shape=[1, counts[0, me], columns])
    mine = dist.shmem_view(data, [1, rows, columns], [me, 0, 0])
    for pe in pypto.loop(n_pes):
        stored = dist.shmem_put(ragged, [0, 0, 0], mine, pe)
        dist.shmem_signal(mine, me, 1, target_pe=pe, pred=[stored])
    start = 0
    for pe in pypto.loop(n_pes):
        count = counts[0, pe]
        part = dist.shmem_view(
            data, [1, rows, columns], [pe, 0, 0], valid_shape=[1, count, columns]
        )
        arrived = dist.shmem_wait_until(part, pe, 1)
        piece = dist.shmem_get(part, me, pred=[arrived])
        out[start:, :] = pypto.reshape(piece, [rows, columns], valid_shape=[count, columns])
        start = start + count


def check(dtype, rows=7, columns=11):
    """Run it and compare; return the largest relative error."""
    world = emu.world()
    half = world.n_pes // 2
    left = world.my_pe < half
    # Odd members first: a group's numbers are its own.
    members = [p for p in range(world.n_pes) if (p < half) == left][::-1]
    name = "left" if left else "right"
    group = world.group(name, members)
    counts = np.array([[(3 * p) % (rows + 1) for p in members]], np.int32)
    parts = [random_array(p, (rows, columns), dtype) for p in members]
    expected = np.concatenate([x[:n] for x, n in zip(parts, counts[0], strict=True)])
    out = np.zeros((group.n_pes * rows, columns), dtype.np_dtype)
    gather_ragged(parts[group.my_pe], counts, out, name, group.n_pes)
    np.testing.assert_array_equal(out[len(expected) :], 0)
    return assert_close(out[: len(expected)], expected, group.n_pes)


if __name__ == "__main__":
    if emu.world().n_pes < 2:
        sys.exit("2 PEs or more are needed: emu run -n 8 examples/pypto/two_groups.py")
    for dtype in (pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32):
        check(dtype)
    if emu.world().my_pe == 0:
        print(f"two_groups: {emu.world().n_pes} PEs in 2 groups, 4 data types: right")

"""MatMul+AllReduce+Add+RMSNorm, the end of a tensor-parallel layer, one shot.

Run with: emu run -n 8 examples/pypto/matmul_allreduce_rmsnorm.py
"""

import numpy as np
import pypto

import emu
from emu.pypto.testing import assert_close, random_array

dist = pypto.distributed
EPS = 1e-6


@pypto.frontend.jit
def layer_end(x, w, residual, gamma, out, n_pes):
    me = dist.my_symbolic_pe("tp")
    data = dist.create_shmem_tensor("tp", n_pes, out.dtype, list(out.shape))
    pypto.set_vec_tile_shapes(4, out.shape[1])
    partial = pypto.matmul(x, w, out.dtype)
    for pe in pypto.loop(n_pes):
        added = dist.shmem_put(partial, [0, 0], data, pe, put_op=pypto.AtomicType.ADD)
        dist.shmem_signal(data, 0, 1, target_pe=pe, sig_op=pypto.AtomicType.ADD, pred=[added])
    total = dist.shmem_get(data, me, pred=[dist.shmem_wait_until(data, 0, n_pes)])
    hidden = pypto.cast(total + residual, pypto.DT_FP32)
    mean_square = pypto.sum(hidden * hidden, -1, keepdim=True) / float(out.shape[1])
    normal = hidden * pypto.rsqrt(mean_square + EPS) * pypto.cast(gamma, pypto.DT_FP32)
    out[:, :] = pypto.cast(normal, out.dtype)


def check(dtype, rows=6, depth=8, columns=16):
    """Run it and compare; return the largest relative error."""
    world = emu.world()
    n_pes, me = world.n_pes, world.my_pe
    xs = [random_array(pe, (rows, depth), dtype) for pe in range(n_pes)]
    ws = [random_array(100 + pe, (depth, columns), dtype) for pe in range(n_pes)]
    residual = random_array(200, (rows, columns), dtype)
    gamma = random_array(201, (1, columns), dtype)
    out = np.zeros((rows, columns), dtype.np_dtype)
    layer_end(xs[me], ws[me], residual, gamma, out, n_pes)
    wide = [[a.astype(np.float64) for a in arrays] for arrays in (xs, ws)]
    hidden = sum(x @ w for x, w in zip(*wide, strict=True)) + residual.astype(np.float64)
    scale = 1 / np.sqrt((hidden**2).mean(axis=1, keepdims=True) + EPS)
    return assert_close(out, hidden * scale * gamma.astype(np.float64), n_pes)


if __name__ == "__main__":
    for dtype in (pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16):
        check(dtype)
    if emu.world().my_pe == 0:
        print(f"matmul_allreduce_rmsnorm: {emu.world().n_pes} PEs, 3 data types: right")

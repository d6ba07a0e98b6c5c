"""The two examples of the shmem_store page with the data type corrected, on 8 PEs.

It needs 8 PEs, as the page says.
Run it with ``emu run -n 8 examples/pypto/shmem_store_fixed.py``.
"""

import sys

import numpy as np
import pypto

import emu

SHAPE = (16, 64)


def values(pe):
    """Return what PE ``pe`` stores: small integers, which BF16 adds without rounding."""
    return ((np.arange(16 * 64).reshape(SHAPE) + pe) % 7).astype(pypto.DT_BF16.np_dtype)


def store(dst_pe, put_op):
    input_tensor = pypto.from_numpy(values(emu.world().my_pe), "input_tensor")
    shmem_tensor = pypto.distributed.create_shmem_tensor(
        group_name="tp",
        n_pes=8,
        dtype=pypto.DT_BF16,
        shape=input_tensor.shape,
    )
    pypto.set_vec_tile_shapes(16, 64)
    store_out = pypto.experimental.shmem_store(
        src=input_tensor,
        offsets=[0, 0],
        dst=shmem_tensor,
        dst_pe=dst_pe,
        put_op=put_op,
    )
    everyone = pypto.distributed.shmem_barrier_all(shmem_tensor, pred=[store_out])
    loaded = pypto.experimental.shmem_load(shmem_tensor, dst_pe, pred=[everyone])
    return loaded.numpy().astype(np.float64)


def check():
    """Run both and compare."""
    stored = np.stack([values(pe) for pe in range(8)]).astype(np.float64)
    np.testing.assert_array_equal(store(2, pypto.AtomicType.ADD), stored.sum(axis=0))
    # Eight PEs store to the same place, and any may be last, element by element.
    assert (store(3, pypto.AtomicType.SET) == stored).any(axis=0).all()


if __name__ == "__main__":
    if emu.world().n_pes != 8:
        sys.exit(
            "8 PEs are needed, as the page says: emu run -n 8 examples/pypto/shmem_store_fixed.py"
        )
    check()
    if emu.world().my_pe == 0:
        print("shmem_store with ADD and with SET: right on 8 PEs")

"""The two examples of the shmem_store page as they are printed there: both must be refused.

The source is BF16 and the symmetric tensor FP16, which the page itself forbids.

It needs 8 PEs, as the page says.
Run with: emu run -n 8 examples/pypto/shmem_store_as_printed.py
"""

import sys

import pypto

import emu


def example_1():
    input_tensor = pypto.tensor([16, 64], pypto.DT_BF16, "input_tensor")
    shmem_shape = input_tensor.shape
    shmem_tensor = pypto.distributed.create_shmem_tensor(
        group_name="tp",
        n_pes=8,
        dtype=pypto.DT_FP16,
        shape=shmem_shape,
    )
    pypto.set_vec_tile_shapes(16, 64)
    store_out = pypto.experimental.shmem_store(
        src=input_tensor,
        offsets=[0, 0],
        dst=shmem_tensor,
        dst_pe=2,
        put_op=pypto.AtomicType.ADD,
    )
    return store_out


def example_2():
    input_tensor = pypto.tensor([16, 64], pypto.DT_BF16, "input_tensor")
    shmem_shape = input_tensor.shape
    shmem_tensor = pypto.distributed.create_shmem_tensor(
        group_name="tp",
        n_pes=8,
        dtype=pypto.DT_FP16,
        shape=shmem_shape,
    )
    pypto.set_vec_tile_shapes(16, 64)
    store_out = pypto.experimental.shmem_store(
        src=input_tensor,
        offsets=[0, 0],
        dst=shmem_tensor,
        dst_pe=3,
        put_op=pypto.AtomicType.SET,
    )
    return store_out


def check():
    """Run both; return their error messages."""
    messages = []
    for example in (example_1, example_2):
        try:
            example()
        except pypto.DTypeError as error:
            messages.append(str(error))
        else:
            raise AssertionError(f"{example.__name__} must be refused, but it ran")
    return messages


if __name__ == "__main__":
    if emu.world().n_pes != 8:
        sys.exit(
            "8 PEs are needed, as the page says: emu run -n 8 examples/pypto/shmem_store_as_printed.py"
        )
    for number, message in enumerate(check(), 1):
        if emu.world().my_pe == 0:
            print(f"example {number}: {message}")

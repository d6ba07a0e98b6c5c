"""Every rule of the shmem functions is checked, with the argument, the value and the bound in the error."""

from __future__ import annotations

import numpy as np
import pytest

import emu

N_PES = 2


class Kit:
    """What the cases below use; made on each PE."""

    def __init__(self):
        import emu.pypto as p

        self.p, self.d = p, p.distributed
        self.t = self.d.create_shmem_tensor("tp", N_PES, p.DT_FP32, [8, 16])
        self.t4 = self.d.create_shmem_tensor("tp", N_PES, p.DT_FP32, [2, 2, 8, 16])
        self.sig = self.d.create_shmem_signal("tp", N_PES)
        self.x = p.from_numpy(np.ones((4, 8), np.float32))
        self.token = p.tensor([1, 1], p.DT_INT32)
        p.set_vec_tile_shapes(4, 8)

    def put(self, src=None, offsets=(0, 0), dst=None, dst_pe=0, **kwargs):
        src, dst = (self.x if src is None else src), (self.t if dst is None else dst)
        return self.d.shmem_put(src, list(offsets), dst, dst_pe, **kwargs)

    def tensor(self, shape, dtype="DT_FP32"):
        return self.p.tensor(shape, getattr(self.p, dtype))

    def huge(self):
        # Only declared by a view with nothing valid: no memory is needed to refuse it.
        return self.p.view(self.x, [2**16, 2**16], [0, 0], valid_shape=[0, 0])

    def without_tile(self, rank_of_tile, call):
        self.p.set_vec_tile_shapes(*[1] * rank_of_tile)
        return call()


CREATE = "k.d.create_shmem_tensor"
CASES = {
    # group and shape
    f"{CREATE}('', 2, k.p.DT_FP32, [4, 4])": "group_name must have 1 to 128 characters, but got 0",
    f"{CREATE}('x' * 129, 2, k.p.DT_FP32, [4, 4])": "1 to 128 characters, but got 129",
    f"{CREATE}(7, 2, k.p.DT_FP32, [4, 4])": "group_name must be a str, but got 7",
    f"{CREATE}('tp', 0, k.p.DT_FP32, [4, 4])": "n_pes must be at least 1, but got 0",
    f"{CREATE}('tp', 3, k.p.DT_FP32, [4, 4])": "equal for every create of group 'tp', 2 so far, but got 3",
    f"{CREATE}('new', 1, k.p.DT_FP32, [4, 4])": 'emu.world().group("new", [0])',
    f"{CREATE}('new', 5, k.p.DT_FP32, [4, 4])": "n_pes must be 2, the number of PEs of group 'new', but got 5; "
    "start as many PEs as the program is written for, as in emu run -n 5",
    f"{CREATE}('tp', 2, k.p.DT_INT8, [4, 4])": "dtype must be DT_INT32, DT_FP16, DT_BF16 or DT_FP32, but got DT_INT8",
    f"{CREATE}('tp', 2, 'nonsense', [4, 4])": "dtype must be one of",
    f"{CREATE}('tp', 2, k.p.DT_FP32, [4])": "shape must have 2 to 4 axes, but got 1: [4]",
    f"{CREATE}('tp', 2, k.p.DT_FP32, [1] * 5)": "2 to 4 axes, but got 5",
    f"{CREATE}('tp', 2, k.p.DT_FP32, [4, 0])": "shape[1] must be at least 1, but got 0",
    f"{CREATE}('tp', 2, k.p.DT_FP32, [2**16, 2**15])": "at most 2147483647 elements, but got 2147483648",
    f"{CREATE}('tp', 2, k.p.DT_FP32, 4)": "shape must be a list of int or SymbolicScalar, but got 4",
    "k.d.create_shmem_signal('tp', -1)": "n_pes must be at least 1, but got -1",
    "k.d.my_symbolic_pe('')": "1 to 128 characters",
    # put
    "k.put(src=np.ones((4, 8)))": "src must be a pypto tensor, but got ndarray",
    "k.put(dst=k.x)": "dst must be a ShmemTensor, but got Tensor",
    "k.put(dst=k.sig)": "dst must have data",
    "k.put(src=k.tensor([4, 8], 'DT_BF16'))": "src.dtype must be DT_FP32, the dtype of dst, but got DT_BF16",
    "k.put(src=k.tensor([4, 8], 'DT_FP16'), put_op=k.p.AtomicType.ADD)": "allow_mixed_add=True",
    "k.put(src=k.tensor([8]))": "src must have 2 to 4 axes, but got 1: [8]",
    "k.put(src=k.tensor([1, 1, 1, 1, 1]))": "src must have 2 to 4 axes, but got 5",
    "k.put(src=k.tensor([0, 8]))": "src must not be empty, but got [0, 8]",
    "k.put(src=k.huge())": "src must have at most 2147483647 elements, but got 4294967296",
    "k.put(offsets=[0])": "offsets must have one entry for each of the 2 axes of dst, but got [0]",
    "k.put(offsets=[0.5, 0])": "offsets must be a list of int or SymbolicScalar",
    "k.put(offsets=[8, 0])": "offsets[0] must be at least 0 and below 8, the extent of dst there, but got 8",
    "k.put(offsets=[0, -1])": "offsets[1] must be at least 0 and below 16, the extent of dst there, but got -1",
    "k.put(offsets=[5, 0])": "offsets[0] + src.shape[0] must be at most 8, the extent of dst there, but got 5 + 4",
    "k.put(offsets=[0, 9])": "offsets[1] + src.shape[1] must be at most 16",
    "k.put(dst=k.t4, offsets=[0, 0, 0, 0])": "dst must have the rank of src, 2",
    "k.put(dst_pe=2)": "dst_pe must be at least 0 and below 2, the number of PEs of the group, but got 2",
    "k.put(dst_pe=-1)": "dst_pe must be at least 0 and below 2",
    "k.put(dst_pe=0.0)": "dst_pe must be an int or a SymbolicScalar, but got 0.0",
    "k.put(put_op=7)": "put_op must be AtomicType.SET or AtomicType.ADD, but got 7",
    "k.put(pred=[k.x])": "pred must not contain src, but got it as pred[0]",
    "k.put(pred=[k.token, k.tensor([0, 4])])": "pred[1] must not be empty, but got shape [0, 4]",
    "k.put(pred=k.token)": "pred must be a list of tensors, but got Tensor",
    "k.put(pred=[3])": "pred[0] must be a tensor, but got int",
    "k.without_tile(1, k.put)": "rank of src, 2 (shape [4, 8]), but set_vec_tile_shapes set [1] of rank 1",
    "k.without_tile(3, k.put)": "set [1, 1, 1] of rank 3",
    # get, view, clear
    "k.d.shmem_get(k.sig, 0)": "src must have data",
    "k.d.shmem_get(k.t, 2)": "src_pe must be at least 0 and below 2",
    "k.d.shmem_get(k.t, 0, [4, 4], [8, 0])": "offsets[0] must be at least 0 and below 8",
    "k.d.shmem_get(k.t, 0, [4, 4], [5, 0])": "offsets[0] + shape[0] must be at most 8",
    "k.d.shmem_get(k.t, 0, [4])": "shape must have one entry for each of the 2 axes of src",
    "k.d.shmem_get(k.t, 0, [4, 4], valid_shape=[5, 4])": "valid_shape[0] must be at most shape[0] = 4, but got 5",
    "k.d.shmem_get(k.t, 0, pred=[k.tensor([0, 1])])": "pred[0] must not be empty",
    "k.without_tile(3, lambda: k.d.shmem_get(k.t, 0))": "must have the rank of src, 2",
    "k.d.shmem_view(k.sig, [1], [0])": "src must have data, but got a tensor of signals only",
    "k.d.shmem_view(k.t, [4, 4], [0, 16])": "offsets[1] must be at least 0 and below 16",
    "k.d.shmem_view(k.t, [9, 4], [0, 0])": "offsets[0] + shape[0] must be at most 8, the extent there, but got 0 + 9",
    "k.d.shmem_view(k.d.shmem_view(k.t, [4, 4], [4, 4]), [4, 4], [1, 0])": "offsets[0] + shape[0] must be at most 4",
    "k.d.shmem_clear_data(k.t, [9, 1])": "offsets[0] + shape[0] must be at most 8",
    "k.d.shmem_clear_data(k.sig)": "src must have data",
    "k.d.shmem_clear_signal(k.x)": "src must be a ShmemTensor, but got Tensor",
    "k.d.shmem_barrier_all(k.t, pred=[k.tensor([0, 1])])": "pred[0] must not be empty",
    # signal, wait
    "k.d.shmem_signal(k.t, 2, 1, target_pe=0)": "src_pe must be at least 0 and below 2",
    "k.d.shmem_signal(k.t, 0, 2**31, target_pe=0)": "signal must be an int32",
    "k.d.shmem_signal(k.t, 0, 1, target_pe=2)": "target_pe must be at least 0 and below 2, the number of PEs of group",
    "k.d.shmem_signal(k.t, 0, 1, target_pe=-2)": "or -1 for all of them; but got -2",
    "k.d.shmem_signal(k.t, 0, 1, target_pe=0, sig_op=9)": "sig_op must be AtomicType.SET or AtomicType.ADD, but got 9",
    "k.d.shmem_signal(k.t, 0, 1, [4, 8], [6, 0], target_pe=0)": "offsets[0] + shape[0] must be at most 8",
    "k.d.shmem_signal(k.sig, 0, 1, [1, 1], target_pe=0)": "shape and offsets must not be given when src is a tensor of signals",
    "k.without_tile(1, lambda: k.d.shmem_signal(k.t, 0, 1, target_pe=0))": "must have the rank of src, 2",
    "k.d.shmem_wait_until(k.t, -1, 1)": "src_pe must be at least 0 and below 2",
    "k.d.shmem_wait_until(k.t, 0, 2**40)": "cmp_value must be an int32",
    "k.d.shmem_wait_until(k.t, 0, 1, cmp='==')": "cmp must be an OpType, but got '=='",
    "k.without_tile(4, lambda: k.d.shmem_wait_until(k.t, 0, 1))": "must have the rank of src, 2",
    # tile shapes
    "k.p.set_vec_tile_shapes()": "1 to 4 extents, but got 0",
    "k.p.set_vec_tile_shapes(1, 1, 1, 1, 1)": "1 to 4 extents, but got 5",
    "k.p.set_vec_tile_shapes(4, 0)": "extent 1 must be an integer of at least 1, but got 0",
    "k.p.set_cube_tile_shapes([16, 16], [0, 16], [16, 16])": "k must be a list of positive integers",
}


def run_cases() -> dict[str, tuple[list[str], str]]:
    import emu.pypto as p

    # Before anything else: no tile shape is set at the start of a program.
    t = p.distributed.create_shmem_tensor("tp", N_PES, p.DT_FP32, [4, 8])
    found = {}
    try:
        p.distributed.shmem_put(p.zeros([4, 8]), [0, 0], t, 0)
    except p.TileShapeError as error:
        found["unset"] = [], str(error)
    k = Kit()
    for case in CASES:
        p.set_vec_tile_shapes(4, 8)
        try:
            eval(case, {"k": k, "np": np})
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared below
            found[case] = [c.__name__ for c in type(error).__mro__], str(error)
        else:
            found[case] = [], "nothing was raised"
    # Refused calls have changed nothing.
    assert not k.t.memory.data.local.any()
    assert not k.t4.memory.data.local.any()
    assert not k.sig.slots(None, None, "")[0].local.any()
    return found


@pytest.fixture(scope="module")
def found():
    return emu.launch(run_cases, N_PES, timeout=20)[1]


@pytest.mark.parametrize("case", CASES)
def test_refused_with_argument_value_and_bound(found, case):
    classes, message = found[case]
    assert CASES[case] in message
    assert "PyptoError" in classes


def test_a_tile_shape_must_be_set(found):
    assert "the tile shape must be set first" in found["unset"][1]
    assert "pypto.set_vec_tile_shapes(4, 8)" in found["unset"][1]

"""The dense fused operators of torch_npu: those of emu.mc2, for arrays and tensors, on 2 and 4 PEs."""

from __future__ import annotations

import itertools

import mc2_reference as unfused
import ml_dtypes
import numpy as np
import pytest
from variants import thorough

import emu
from emu import mc2, torch_npu
from emu.comm.errors import ArgumentError

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, I8, I32 = (np.dtype(d) for d in (np.float16, np.float32, np.int8, np.int32))


def random(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    if dtype in (I8, I32):
        return rng.integers(-100, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(F32).astype(dtype)


def factors(seed, shape):
    return np.abs(random(seed, shape, F32)) * F32.type(1e-3) + F32.type(1e-4)


def tensor(array):
    """Return a torch tensor of the elements of an array."""
    import torch

    if not isinstance(array, np.ndarray):
        return array
    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def array(value):
    """Return an array of the elements of a torch tensor."""
    import torch

    assert isinstance(value, torch.Tensor)
    assert not value.requires_grad
    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().view(BF16)
    return value.numpy()


def same(actual, expected):
    assert type(actual) is np.ndarray
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == np.ascontiguousarray(expected).tobytes()


def run(function, *arguments, **options):
    """Call an operator with arrays and with tensors, which must agree; return a tuple of arrays."""
    results = function(*arguments, **options)
    results = results if isinstance(results, tuple) else (results,)
    again = function(*map(tensor, arguments), **{n: tensor(v) for n, v in options.items()})
    again = again if isinstance(again, tuple) else (again,)
    for one, other in zip(results, again, strict=True):
        same(array(other), one)
    return results


class Inputs:
    """What every PE gives, from a seed; each PE can make them all."""

    def __init__(self, seed, pes, m, k, n, dtype, *, bias, depth=1):
        self.dtype = F16 if dtype == I8 else dtype
        kind = I32 if dtype == I8 else F32 if seed % 2 else dtype
        numbers = range(pes)
        self.none = [None] * pes
        self.x1 = [random([seed, 1, p], (m, k), dtype) for p in numbers]
        self.x2 = [random([seed, 2, p], (k * depth, n), dtype) for p in numbers]
        self.bias = [random([seed, 3, p], n, kind) for p in numbers] if bias else self.none
        self.scale = self.tokens = self.none
        if dtype == I8:
            self.scale = [factors([seed, 4, p], n if seed % 2 else 1) for p in numbers]
        if dtype == I8 and seed % 2:
            self.tokens = [factors([seed, 5, p], (m, 1)) * F32.type(900) for p in numbers]


CASES = [
    (seed, dtype, turns)
    for seed, (turns, dtype) in enumerate(itertools.product((0, 3), (F16, BF16, I8)))
]


# --- what the operators compute -------------------------------------------------------------------


def run_dense():
    """Compare every operator with emu.mc2's and with the unfused composition."""
    world = emu.world()
    me, pes = world.my_pe, world.n_pes
    for seed, dtype, turns in CASES:
        check_gather(me, pes, seed, dtype, turns)
        check_scatter(me, pes, seed, dtype, turns)
        check_reduce(me, pes, seed, dtype, turns)
        check_all_to_all(me, pes, seed, dtype, turns)
    return len(CASES)


def check_gather(me, pes, seed, dtype, turns):
    given = Inputs(seed, pes, 9, 40, 7, dtype, bias=seed % 2)
    x1, x2, bias = given.x1[me], given.x2[me], given.bias[me]
    options = {"x1_scale": given.tokens[me], "x2_scale": given.scale[me], "comm_turn": turns}
    whole = unfused.all_gather_matmul(
        given.x1, given.x2, given.bias, given.scale, given.tokens, given.dtype
    )[me]
    y, gathered = run(torch_npu.npu_all_gather_base_mm, x1, x2, "world", pes, bias=bias, **options)
    same(y, whole[0])
    same(gathered, whole[1])
    same(y, mc2.all_gather_matmul(x1, x2, bias, **options)[0])
    y, nothing = run(
        torch_npu.npu_all_gather_base_mm, x1, x2, "world", pes, bias=bias, gather_output=False,
        **options,
    )  # fmt: skip
    same(y, whole[0])
    same(nothing, np.empty(0, dtype))


def check_scatter(me, pes, seed, dtype, turns):
    given = Inputs(seed, pes, 5 * pes, 33, 7, dtype, bias=seed % 2)
    x1, x2, bias = given.x1[me], given.x2[me], given.bias[me]
    options = {"x1_scale": given.tokens[me], "x2_scale": given.scale[me], "comm_turn": turns}
    (y,) = run(
        torch_npu.npu_mm_reduce_scatter_base, x1, x2, "world", pes, bias=bias, reduce_op="sum",
        **options,
    )  # fmt: skip
    expected = unfused.matmul_reduce_scatter(
        given.x1, given.x2, given.bias, given.scale, given.tokens, given.none, given.dtype
    )
    same(y, expected[me])
    same(y, mc2.matmul_reduce_scatter(x1, x2, bias, **options))


def check_reduce(me, pes, seed, dtype, turns):
    b, s, n = 3, 4, 11
    given = Inputs(seed, pes, b * s, 33, n, dtype, bias=seed % 2)
    x1, x2 = given.x1[me], given.x2[me]
    more = [random([seed, 6, p], (b * s, n), given.dtype) for p in range(pes)]
    options = {"bias": given.bias[me], "dequant_scale": given.scale[me], "comm_turn": turns}
    by_row = {**options, "pertoken_scale": given.tokens[me]}
    expected = unfused.matmul_all_reduce(
        given.x1, given.x2, given.bias, given.scale, given.tokens, more, given.dtype
    )[me]
    (y,) = run(torch_npu.npu_mm_all_reduce_base, x1, x2, "world", x3=more[me], **by_row)
    same(y, expected)
    same(y, mc2.matmul_all_reduce(x1, x2, x3=more[me], **by_row))
    (y,) = run(
        torch_npu.npu_mm_all_reduce_base, x1.reshape(b, s, -1), x2, "world",
        x3=more[me].reshape(b, s, n), **by_row,
    )  # fmt: skip
    same(y, expected.reshape(b, s, n))
    check_norm(me, given, options, seed)


def check_norm(me, given, options, seed):
    x1, x2 = given.x1[me], given.x2[me]
    shape = (len(x1), x2.shape[1])
    residual, gamma = random([seed, 7], shape, given.dtype), random([seed, 8], shape[1], F32)
    total = unfused.matmul_all_reduce(
        given.x1, given.x2, given.bias, given.scale, given.none, given.none, given.dtype
    )[me]
    expected = unfused.add_rms_norm(total, residual, gamma, 1e-5)
    function = torch_npu.npu_mm_all_reduce_add_rms_norm
    for shift in ((), (3, 4)):
        y, normal = run(
            function, x1.reshape(*shift, *x1.shape[bool(shift) :][-1:]) if shift else x1, x2,
            residual.reshape(*shift, -1) if shift else residual, gamma, "world", epsilon=1e-5,
            **options,
        )  # fmt: skip
        same(y.reshape(shape), expected[0])
        same(normal.reshape(shape), expected[1])
        assert y.shape == normal.shape == ((*shift, shape[1]) if shift else shape)
    check_norm_in_place((x1, x2, residual, gamma), options, expected)


def check_norm_in_place(arguments, options, expected):
    x1, x2, residual, gamma = arguments
    function = torch_npu.npu_mm_all_reduce_add_rms_norm_
    wide = np.zeros((len(residual), 2 * residual.shape[1]), residual.dtype)
    target = wide[:, ::2]
    target[...] = residual
    y, normal = function(x1, x2, target, gamma, "world", epsilon=1e-5, **options)
    assert y is target
    same(normal, expected[1])
    same(wide[:, ::2], expected[0])
    assert not wide[:, 1::2].astype(F32).any()

    wide = tensor(np.zeros_like(wide))
    target = wide[:, ::2]
    target.copy_(tensor(residual))
    before = target._version
    y, normal = function(
        tensor(x1), tensor(x2), target, tensor(gamma), "world", epsilon=1e-5,
        **{n: tensor(v) for n, v in options.items()},
    )  # fmt: skip
    assert y is target
    assert target._version > before
    same(array(normal), expected[1])
    same(array(wide)[:, ::2], expected[0])
    assert not array(wide)[:, 1::2].astype(F32).any()


def check_all_to_all(me, pes, seed, dtype, turns):
    given = Inputs(seed, pes, 5 * pes, 20, 6, dtype, bias=seed % 2, depth=pes)
    x1, x2, bias = given.x1[me], given.x2[me], given.bias[me]
    options = {"bias": bias, "x2_scale": given.scale[me], "comm_turn": turns}
    (y,) = run(torch_npu.npu_all_to_all_matmul, x1, x2, "world", pes, **options)
    same(
        y,
        unfused.all_to_all_matmul(given.x1, given.x2, given.bias, given.scale, given.dtype)[me],
    )
    same(y, mc2.all_to_all_matmul(x1, x2, **options))

    given = Inputs(seed, pes, 10, 33, 3 * pes, dtype, bias=seed % 2)
    x1, x2, bias = given.x1[me], given.x2[me], given.bias[me]
    options = {"bias": bias, "x2_scale": given.scale[me], "comm_turn": turns}
    options |= {"x1_scale": given.tokens[me]}
    (y,) = run(torch_npu.npu_matmul_all_to_all, x1, x2, "world", pes, **options)
    expected = unfused.matmul_all_to_all(
        given.x1, given.x2, given.bias, given.scale, given.tokens, given.dtype
    )
    same(y, expected[me])
    same(y, mc2.matmul_all_to_all(x1, x2, **options))


@pytest.mark.parametrize("n_pes", thorough([2, 4], 2))
def test_results_are_those_of_the_unfused_operators_bit_for_bit(n_pes):
    pytest.importorskip("torch")
    assert emu.launch(run_dense, n_pes, timeout=60, preload=["torch"]) == [len(CASES)] * n_pes


def run_weights():
    """Weights of int8, transposed views, other dtypes of the result, and symmetric memory."""
    import torch

    world = emu.world()
    me, pes = world.my_pe, world.n_pes
    x1 = [random([1, p], (6, 32), BF16) for p in range(pes)]
    x2 = [random([2, p], (32, 10), I8) for p in range(pes)]
    scale, shift = factors([3], (4, 10)), random([4], (4, 10), F32)
    restored = [
        ((w.astype(F32) + np.repeat(shift, 8, 0)) * np.repeat(scale, 8, 0)).astype(BF16) for w in x2
    ]
    none = [None] * pes
    (y,) = run(
        torch_npu.npu_mm_all_reduce_base, x1[me], x2[me], "world", antiquant_scale=scale,
        antiquant_offset=shift, antiquant_group_size=8,
    )  # fmt: skip
    same(y, unfused.matmul_all_reduce(x1, restored, none, none, none, none, BF16)[me])

    a, w = random([5], (4 * pes, 12), F16), random([6], (12, 8), F16)
    expected = mc2.matmul_reduce_scatter(a, w)
    transposed = tensor(np.ascontiguousarray(w.T)).t()
    assert not transposed.is_contiguous()
    got = torch_npu.npu_mm_reduce_scatter_base(tensor(a), transposed, "world", pes)
    same(array(got), expected)

    a, w, one = random([7], (4, 12), I8), random([8], (12, 8), I8), factors([9], 1)
    expected = mc2.all_gather_matmul(a, w, x2_scale=one, y_dtype=BF16)[0]
    for wanted in (torch.bfloat16, BF16):
        y, _ = run(
            torch_npu.npu_all_gather_base_mm, a, w, "world", pes, x2_scale=one, output_dtype=wanted
        )
        same(y, expected)

    shared = world.alloc((4, 12), F16)
    shared.local[...] = random([10, me], (4, 12), F16)
    world.barrier()
    w = random([11], (12, 8), F16)
    y, gathered = torch_npu.npu_all_gather_base_mm(shared, w, "world", pes)
    every = np.concatenate([random([10, p], (4, 12), F16) for p in range(pes)])
    same(gathered, every)
    same(y, unfused.finished(unfused.chain(every, w), None, None, None, None, F16))
    return True


def test_weights_of_int8_views_dtypes_and_symmetric_memory():
    pytest.importorskip("torch")
    assert all(emu.launch(run_weights, 2, timeout=60, preload=["torch"]))


def run_in_groups():
    """Two groups at once: each sums what its own members have."""
    world = emu.world()
    me = world.my_pe
    name, members = ("even", [0, 2]) if me % 2 == 0 else ("odd", [3, 1])
    world.group(name, members)
    x = np.full((2, 4), me + 1, F16)
    y = torch_npu.npu_mm_all_reduce_base(x, np.eye(4, dtype=F16), name)
    assert (y == sum(p + 1 for p in members)).all()
    y, gathered = torch_npu.npu_all_gather_base_mm(x, np.eye(4, dtype=F16), name, 2)
    assert gathered[:, 0].tolist() == [p + 1 for p in members for _ in range(2)]
    other = "odd" if me % 2 == 0 else "even"
    world.barrier()
    with pytest.raises(ArgumentError):
        torch_npu.npu_mm_all_reduce_base(x, np.eye(4, dtype=F16), other)
    with pytest.raises(
        ArgumentError, match=r"world_size must be 2, the size of group .*, but got 4"
    ):
        torch_npu.npu_all_gather_base_mm(x, np.eye(4, dtype=F16), name, 4)
    return True


def test_a_name_means_the_group_of_the_world():
    assert all(emu.launch(run_in_groups, 4, timeout=60, preload=["torch"]))


# --- what they refuse ----------------------------------------------------------------------------

X, W, BYTES = np.ones((4, 6), F16), np.ones((6, 8), F16), np.ones((6, 8), I8)
REFUSED = [
    ("npu_all_gather_base_mm", (X, W, 7, 2), {}, "hcom must be the name of .*, but got int"),
    ("npu_all_gather_base_mm", (X, W, "", 2), {}, "hcom must have 1 to 128 characters, but got 0"),
    ("npu_all_gather_base_mm", (X, W, "who", 2), {}, "hcom must be the name of .*, but got 'who'"),
    ("npu_all_gather_base_mm", (X, W, "world", 3), {}, "world_size must be 2, .*, but got 3"),
    ("npu_all_gather_base_mm", (X, W, "world", 2.0), {}, "world_size must be an integer"),
    ("npu_all_gather_base_mm", (X[0], W, "world", 2), {}, r"input must have 2 axes, but got .*6,"),
    ("npu_all_gather_base_mm", (X, BYTES, "world", 2), {}, "x2 must have dtype float16"),
    (
        "npu_all_gather_base_mm", (X, W[:5], "world", 2), {},
        r"x2 must have an inner extent of 6, but got 5 \(input has shape \(4, 6\), x2 \(5, 8\)\)$",
    ),
    ("npu_all_gather_base_mm", (X, W, "world", 2), {"gather_index": 1}, "gather_index must be 0"),
    ("npu_all_gather_base_mm", (X, W, "world", 2), {"comm_turn": -1}, "comm_turn must be"),
    ("npu_all_gather_base_mm", (X, W, "world", 2), {"output_dtype": F32}, "output_dtype must be"),
    ("npu_all_gather_base_mm", (X, W, "world", 2), {"output_dtype": "x"}, "output_dtype must be"),
    ("npu_all_gather_base_mm", (X, W, "world", 2), {"bias": X}, "bias must be a vector of 8"),
    ("npu_all_gather_base_mm", (X, W, "world", 2), {"bias": [0] * 8}, "bias must be .* got list"),
    ("npu_all_gather_base_mm", (X, W, "world", 2), {"x1_scale": X[0]}, "x1_scale must be None"),
    ("npu_all_gather_base_mm", (X.tolist(), W, "world", 2), {}, "input must be .*, but got list"),
    ("npu_mm_reduce_scatter_base", (X, W, "world", 2), {"reduce_op": "max"}, "reduce_op must be"),
    ("npu_mm_reduce_scatter_base", (X[:3], W, "world", 2), {}, "m must be divisible by"),
    ("npu_mm_reduce_scatter_base", (X, W, "world", 4), {}, "world_size must be 2"),
    ("npu_mm_all_reduce_base", (X, W, "world"), {"comm_quant_scale_1": X}, "comm_quant_scale_1 must"),
    ("npu_mm_all_reduce_base", (X, W, "world"), {"comm_quant_scale_2": X}, "comm_quant_scale_2 must"),
    ("npu_mm_all_reduce_base", (X, W, "world"), {"reduce_op": "prod"}, "reduce_op must be 'sum'"),
    ("npu_mm_all_reduce_base", (X, W, "world"), {"x3": X}, r"x3 must have shape \(4, 8\)"),
    ("npu_mm_all_reduce_base", (X, W, "world"), {"x3": X[:, None]}, "x3 must have the axes of x1"),
    ("npu_mm_all_reduce_base", (X, BYTES, "world"), {}, "antiquant_scale must be given"),
    ("npu_mm_all_reduce_base", (X[None, :0], W, "world"), {}, "x1 must have elements"),
    ("npu_mm_all_reduce_base", (X[None, :, :0], W, "world"), {}, "x1 must have elements"),
    ("npu_mm_all_reduce_base", (X[None, None], W, "world"), {}, "x1 must have 2 axes"),
    ("npu_mm_all_reduce_add_rms_norm", (X, W, X, W[0], "world"), {}, "residual must have shape"),
    ("npu_mm_all_reduce_add_rms_norm", (X, W, None, W[0], "world"), {}, "residual must be a NumPy array or a torch tensor, but got NoneType"),
    ("npu_mm_all_reduce_add_rms_norm", (X, W, X @ W, X[0], "world"), {}, "gamma must be a vector"),
    (
        "npu_mm_all_reduce_add_rms_norm", (X, W, X @ W, W[0], "world"), {"epsilon": -1.0},
        "epsilon must be at least 0",
    ),
    (
        "npu_mm_all_reduce_add_rms_norm_",
        (X, W, np.broadcast_to(F16.type(1), (4, 8)), W[0], "world"), {},
        "residual must be writable",
    ),
    (
        "npu_mm_all_reduce_add_rms_norm_",
        (X, W, np.lib.stride_tricks.as_strided(np.ones(11, F16), (4, 8), (2, 2)), W[0], "world"), {},
        "residual must have elements that share no memory",
    ),
    ("npu_all_to_all_matmul", (X, W, "world", 2), {}, "x2 must have an inner extent of 12"),
    ("npu_all_to_all_matmul", (X, W, "world", 1), {}, "world_size must be 2"),
    ("npu_matmul_all_to_all", (X, W[:, :7], "world", 2), {}, "n must be divisible by"),
    ("npu_matmul_all_to_all", (X, W, "world", 5), {}, "world_size must be 2"),
]  # fmt: skip


def run_refusals():
    import torch

    for name, arguments, options, text in REFUSED:
        with pytest.raises(ArgumentError, match=text):
            getattr(torch_npu, name)(*arguments, **options)
    x, w, residual = map(tensor, (X, W, X @ W))
    with pytest.raises(ArgumentError, match="bias must be a torch tensor as input is"):
        torch_npu.npu_all_gather_base_mm(x, w, "world", 2, bias=W[0])
    with pytest.raises(ArgumentError, match="x1 must be a torch tensor"):
        torch_npu.npu_mm_all_reduce_base(X, w, "world")
    w.requires_grad_()
    with pytest.raises(ArgumentError, match="x2 must not require grad"):
        torch_npu.npu_mm_all_reduce_base(x, w, "world")
    with torch.no_grad():
        y = torch_npu.npu_mm_all_reduce_base(x, w, "world")
    assert array(y).tolist() == (2 * (X @ W)).tolist()
    gamma, wrong = tensor(W[0]), residual[:, :7]
    for target, text in (
        (residual.requires_grad_(), "residual must not require grad"),
        (torch.ones(1, 8, dtype=torch.float16).expand(4, 8), "share no memory"),
        (wrong, "residual must"),
    ):
        with pytest.raises(ArgumentError, match=text):
            torch_npu.npu_mm_all_reduce_add_rms_norm_(x, w.detach(), target, gamma, "world")
    assert (residual == 6).all()
    emu.world().barrier()  # nothing has been sent: all are here
    return len(REFUSED)


def test_broken_rules_are_named_and_nothing_is_changed():
    pytest.importorskip("torch")
    assert emu.launch(run_refusals, 2, timeout=60, preload=["torch"]) == [len(REFUSED)] * 2

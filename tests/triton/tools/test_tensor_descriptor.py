"""Tensor descriptors of the host: validation, as arguments of kernels, keys, and tuning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.tools.tensor_descriptor import DescriptorError, TensorDescriptor

Array = np.ndarray[Any, Any]


def _aligned(shape: Any, dtype: Any = np.float32, offset: int = 0) -> Array:
    """Return zeros whose first element lies ``offset`` bytes after a multiple of 64."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + 128, np.uint8)
    first = -memory.ctypes.data % 64 + offset
    return memory[first : first + size].view(dtype).reshape(shape)


def _filled(shape: Any, dtype: Any = np.float32) -> Array:
    found = _aligned(shape, dtype)
    found[...] = np.arange(found.size).reshape(shape)
    return found


@triton.jit
def _copy(source, to, scale):
    rows: tl.constexpr = source.block_shape[0]
    columns: tl.constexpr = source.block_shape[1]
    at = [tl.program_id(0) * rows, tl.program_id(1) * columns]
    to.store(at, source.load(at) * scale)


def _run(source: TensorDescriptor, to: TensorDescriptor, **options: Any) -> Any:
    grid = [triton.cdiv(n, b) for n, b in zip(to.shape, to.block_shape, strict=True)]
    return _copy[tuple(grid)](source, to, 2, **options)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_kernels_take_descriptors(backend: str) -> None:
    x, y = _filled((20, 12)), _aligned((20, 12))
    made = _run(
        TensorDescriptor.from_tensor(x, [8, 4]),
        TensorDescriptor(y, y.shape, [12, 1], (8, 4)),
        backend=backend,
    )
    np.testing.assert_array_equal(y, x * 2)
    assert made.src.signature["source"] == "tensordesc<fp32[8, 4]>"


def test_a_view_has_its_own_bounds() -> None:
    whole, y = _filled((20, 16)), _aligned((16, 8))
    view = whole[4:17, 4:11]
    source = TensorDescriptor.from_tensor(view, [16, 8], padding="nan")
    _run(source, TensorDescriptor.from_tensor(y, [16, 8]))
    wanted = np.full((16, 8), np.nan, np.float32)
    wanted[:13, :7] = view * 2
    np.testing.assert_array_equal(y, wanted)


def test_torch_tensors_and_wrappers_have_descriptors() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.arange(16 * 16).reshape(16, 16).to(torch.bfloat16), torch.zeros(16, 16)
    _run(TensorDescriptor.from_tensor(x, [8, 8]), TensorDescriptor.from_tensor(y, [8, 8]))
    torch.testing.assert_close(y, x.float() * 2)
    halves = triton.reinterpret(torch.zeros(16, 16, dtype=torch.int16), tl.float16)
    to = TensorDescriptor.from_tensor(halves, [8, 8])
    _run(TensorDescriptor.from_tensor(x, [8, 8]), to)
    torch.testing.assert_close(halves.base.view(torch.float16), (x.float() * 2).half())


@triton.jit
def _pair(pair, out_ptr):
    tl.static_assert(isinstance(pair[0], tl.tensor_descriptor))
    added = pair[0].load([0]) + pair[1][0].load([pair[1][1]])
    tl.store(out_ptr + tl.arange(0, pair[0].block_shape[0]), added)
    tl.device_assert(pair[1][0].shape[0] == 24)


def test_tuples_hold_descriptors() -> None:
    x, y, out = _filled(16), _filled(24), np.zeros(8, np.float32)
    first, second = TensorDescriptor.from_tensor(x, [8]), TensorDescriptor.from_tensor(y, [8])
    _pair[(1,)]((first, (second, 12)), out, debug=True)
    np.testing.assert_array_equal(out, x[:8] + y[12:20])
    made = _pair.warmup((first, (second, 12)), out, grid=(1,), debug=True)
    out[:] = 0
    made[(1,)]((first, (second, 16)), out)
    np.testing.assert_array_equal(out, x[:8] + y[16:24])


def test_a_kernel_is_compiled_once_for_blocks_of_one_kind() -> None:
    x, y = _filled((16, 16)), _aligned((16, 16))
    to = TensorDescriptor.from_tensor(y, [8, 8])
    first = _run(TensorDescriptor.from_tensor(x, [8, 8]), to)
    assert _run(TensorDescriptor.from_tensor(x[4:], [8, 8]), to) is first
    others = [
        TensorDescriptor.from_tensor(x, [8, 8], padding="nan"),
        TensorDescriptor.from_tensor(x, [8, 8], round_f32_to_tf32=True),
        TensorDescriptor.from_tensor(x.astype(np.int32), [8, 8]),
    ]
    made = [_run(other, to) for other in others]
    assert len({id(k) for k in (first, *made)}) == 4
    hashes = {k.hash for k in (first, *made)}
    assert len(hashes) == 4
    assert made[1].src.signature["source"] == "tensordesc<fp32[8, 8],tf32>"


def test_loads_are_rounded_to_tf32() -> None:
    x, y = _aligned((4, 4)), _aligned((4, 4))
    x[...] = 1 + 2.0**-11 + 2.0**-20
    _run(
        TensorDescriptor.from_tensor(x, [4, 4], round_f32_to_tf32=True),
        TensorDescriptor.from_tensor(y, [4, 4]),
    )
    np.testing.assert_array_equal(y, np.full((4, 4), 2 + 2.0**-9, np.float32))


def test_hooks_of_tuned_kernels_set_the_block() -> None:
    def set_block(arguments: dict[str, Any]) -> None:
        for name in ("source", "to"):
            arguments[name].block_shape = [arguments["B"], 8]

    @triton.autotune(
        [triton.Config({"B": b}, pre_hook=set_block) for b in (4, 16)],
        key=["n"],
        do_bench=lambda run, quantiles: (run(), [1.0] * 3)[1],
    )
    @triton.jit
    def tuned(source, to, n, B: tl.constexpr):
        to.store([tl.program_id(0) * B, 0], source.load([tl.program_id(0) * B, 0]))

    x, y = _filled((32, 8)), _aligned((32, 8))
    source, to = (TensorDescriptor.from_tensor(a, [1, 8]) for a in (x, y))
    tuned[lambda given: (triton.cdiv(32, given["B"]),)](source, to, 32)
    np.testing.assert_array_equal(y, x)
    assert list(to.block_shape) in ([4, 8], [16, 8])


def test_read_only_arrays_are_only_loaded_from() -> None:
    x, y = _filled((8, 8)), _aligned((8, 8))
    x.flags.writeable = False
    read_only, to = TensorDescriptor.from_tensor(x, [8, 8]), TensorDescriptor.from_tensor(y, [8, 8])
    _run(read_only, to)
    np.testing.assert_array_equal(y, x * 2)
    with pytest.raises(ValueError, match="to of kernel _copy must be writable"):
        _run(to, read_only)


def test_a_stand_in_is_enough_to_compile() -> None:
    torch = pytest.importorskip("torch")
    stand_in = triton.MockTensor(torch.float16, [64, 64])
    made = TensorDescriptor.from_tensor(stand_in, [16, 32])
    kernel = _copy.warmup(made, made, 1, grid=(1,))
    assert kernel.src.signature["to"] == "tensordesc<fp16[16, 32]>"


def test_a_source_spells_descriptors() -> None:
    signature = {
        "source": "tensordesc<fp32[8, 8],nan>",
        "to": "tensordesc<fp32[8, 8]>",
        "scale": "i32",
    }
    kernel = triton.compile(triton.compiler.ASTSource(_copy, signature))
    x, y = _filled((8, 8)), _aligned((8, 8))
    source = TensorDescriptor.from_tensor(x, [8, 8], padding="nan")
    kernel[(1,)](source, TensorDescriptor.from_tensor(y, [8, 8]), 3)
    np.testing.assert_array_equal(y, x * 3)


@triton.jit
def _far(pair, to):
    to.store([0, 0], pair[0].load([pair[1] * 100000, 0]))


def test_addresses_are_checked_against_the_tensor() -> None:
    x, y = _filled((8, 8)), _aligned((8, 8))
    whole, to = TensorDescriptor.from_tensor(x, [8, 8]), TensorDescriptor.from_tensor(y, [8, 8])
    _run(whole, to, check="bounds")
    np.testing.assert_array_equal(y, x * 2)
    too_large = TensorDescriptor(np.zeros((8, 8), np.float32), [1 << 20, 8], [8, 1], [8, 8])
    with pytest.raises(triton.TritonError, match=r"out of bounds in kernel _far[\s\S]*pair\[0\]"):
        _far[(1,)]((too_large, 1), to, check="bounds")


class _Own(TensorDescriptor):
    pass


def test_subclasses_are_descriptors() -> None:
    x, y = _filled((8, 8)), _aligned((8, 8))
    _run(_Own(x, (8, 8), (8, 1), (8, 8)), _Own(y, (8, 8), (8, 1), (8, 8)))
    np.testing.assert_array_equal(y, x * 2)


X = _aligned((4, 8))
WRONG: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
    (TypeError, "base must be a tensor or array, but got", (3, [4], [1], [4])),
    (TypeError, "base must be a tensor or array, but got", (None, [4], [1], [4])),
    (TypeError, "shape of a tensor descriptor must be integers", (X, 4, [1], [4])),
    (TypeError, "block_shape of a tensor descriptor must be", (X, [4], [1], ["4"])),
    (DescriptorError, "rank mismatch: strides must have 2", (X, [4, 8], [1], [4, 8])),
    (DescriptorError, "rank mismatch: block_shape must have 1", (X, [4], [1], [4, 8])),
    (DescriptorError, "rank must be from 1 to 5, but got 0", (X, [], [], [])),
    (DescriptorError, "rank must be from 1 to 5", (X, [1] * 6, [4] * 5 + [1], [1] * 6)),
    (DescriptorError, "base must be 16-byte aligned", (_aligned(4, offset=4), [4], [1], [4])),
    (ValueError, "Shape element 1 must be a power of 2", (X, [4, 8], [8, 1], [4, 6])),
    (ValueError, "Shape element 0 must be a power of 2", (X, [4, 8], [8, 1], [0, 8])),
    (ValueError, "at most 1048576 elements", (X, [4, 8], [8, 1], [2048, 1024])),
    (DescriptorError, "strides must be 16-byte aligned", (X, [4, 8], [9, 1], [4, 8])),
    (DescriptorError, "strides must fit into 64 bits", (X, [4, 8], [2**70, 1], [4, 8])),
    (DescriptorError, "shape must be positive", (X, [0, 8], [8, 1], [4, 8])),
    (DescriptorError, r"below 2\*\*31", (X, [2**31, 8], [8, 1], [4, 8])),
    (DescriptorError, "Last dimension must be contiguous", (X, [4, 4], [8, 2], [4, 4])),
    (DescriptorError, "padding must be 'zero' or 'nan'", (X, [4, 8], [8, 1], [4, 8], "one")),
    (
        DescriptorError,
        "only supported for floats, but got i32",
        (_aligned(4, np.int32), [4], [1], [4], "nan"),
    ),
    (
        DescriptorError,
        "only supported for float32 tensors, but got fp16",
        (_aligned(8, np.float16), [8], [1], [8], "zero", True),
    ),
]


@pytest.mark.parametrize(("error", "said", "arguments"), WRONG)
def test_a_wrong_descriptor_is_named(
    error: type[Exception], said: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(error, match=said):
        TensorDescriptor(*arguments)


def test_errors_are_what_programs_catch() -> None:
    with pytest.raises(AssertionError, match="shape must be positive"):
        TensorDescriptor(X, [0, 8], [8, 1], [4, 8])


def test_what_was_changed_afterwards_is_checked_at_the_launch() -> None:
    to = TensorDescriptor.from_tensor(X, [4, 8])
    for block, said in (([4], "rank mismatch"), ([3, 8], "must be a power of 2")):
        source = TensorDescriptor.from_tensor(X, [4, 8])
        source.block_shape = block
        with pytest.raises((ValueError, triton.CompilationError), match=said):
            _copy[(1,)](source, to, 2)

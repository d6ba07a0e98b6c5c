"""Arguments of a launch: what can be passed, and as what."""

import enum

import ml_dtypes
import numpy as np
import pytest
from triton_kernels import copy, place, tell, types_of

import emu.triton.language as tl
from emu import triton
from emu.triton.runtime import arguments

DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64,
]  # fmt: skip


@triton.jit
def nothing(a, b, c, d):
    pass


def blocks(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_arrays_of_every_dtype_are_read_and_written(dtype):
    x = np.arange(100).astype(dtype)
    y = np.zeros_like(x)
    copy[blocks](x, y, 100)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "dtype",
    [
        *("bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "float8_e5m2"),
        *("float8_e4m3fnuz", "float8_e5m2fnuz"),
    ],
)
def test_tensors_are_read_and_written(dtype):
    torch = pytest.importorskip("torch")
    x = torch.arange(100).to(getattr(torch, dtype))
    y = torch.zeros(100).to(getattr(torch, dtype))
    copy[blocks](x, y, 100)
    assert x.view(torch.uint8).equal(y.view(torch.uint8))


def test_parameters_and_subclasses_of_tensors_are_tensors():
    torch = pytest.importorskip("torch")

    class Mine(torch.Tensor):
        pass

    x = torch.nn.Parameter(torch.ones(4))
    y = torch.zeros(4).as_subclass(Mine)
    copy[(1,)](x, y, 4)
    assert y.tolist() == [1.0] * 4


def test_a_view_is_passed_by_the_address_of_its_first_element():
    x = np.arange(10, dtype=np.int32)
    y = np.zeros(10, np.int32)
    copy[(1,)](x[3:], y[::2], 4)
    assert y.tolist() == [3, 4, 5, 6, 0, 0, 0, 0, 0, 0]


class Interface:
    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Pointer:
    def __init__(self, array, dtype):
        self.array = array
        self.dtype = dtype

    def data_ptr(self):
        return self.array.ctypes.data


class Packed:
    def __init__(self, owner):
        self.owner = owner

    def __dlpack__(self):
        return self.owner.__dlpack__()


@pytest.mark.parametrize(
    "wrap",
    [Interface, Packed, lambda a: Pointer(a, tl.float32), lambda a: Pointer(a, np.float32)],
    ids=["array interface", "dlpack", "pointer of a Triton dtype", "pointer of a NumPy dtype"],
)
def test_objects_with_memory_are_passed(wrap):
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    copy[(1,)](wrap(x), wrap(y), 4)
    assert y.tolist() == [0, 1, 2, 3]


def test_bf16_comes_through_dlpack():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(4).bfloat16(), torch.zeros(4).bfloat16()
    copy[(1,)](Packed(x), Packed(y), 4)
    assert y.tolist() == [0, 1, 2, 3]


def test_a_tensor_without_memory_is_refused():
    torch = pytest.importorskip("torch")
    meta = torch.zeros(4, device="meta")
    with pytest.raises(ValueError, match=r"x_ptr of kernel copy: .* host memory .* on meta"):
        copy[(1,)](meta, torch.zeros(4), 4)


@pytest.mark.parametrize("bad", [object(), {1: 2}, {3}, b"x"])
def test_what_cannot_be_passed_is_refused_by_name(bad):
    with pytest.raises(TypeError, match=r"x_ptr of kernel copy: an argument of a kernel must be"):
        copy[(1,)](bad, np.zeros(4), 4)


def test_a_dtype_that_kernels_do_not_know_is_refused_by_name():
    with pytest.raises(TypeError, match=r"x_ptr of kernel copy: dtype must be .*complex64"):
        copy[(1,)](np.zeros(4, np.complex64), np.zeros(4), 4)


@triton.jit
def annotated(x_ptr: tl.const, y_ptr: tl.pointer_type(tl.uint32), n: tl.int64):
    tl.store(y_ptr, tl.load(x_ptr))


def test_annotations_of_pointers_say_what_they_point_to():
    x, y = np.array([7], np.int32), np.zeros(1, np.float32)
    kernel = annotated[(1,)](x, y, 1)
    assert kernel.src.signature == {"x_ptr": "*ki32", "y_ptr": "*u32", "n": "i64"}
    assert y.view(np.uint32)[0] == 7


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0, np.int32),
        (1, np.int32),
        (-(2**31), np.int32),
        (2**31, np.int64),
        (-(2**63), np.int64),
        (2**63, np.uint64),
        (True, np.bool_),
        (0.5, np.float32),
        (np.int64(7), np.int32),
        (np.float64(7.5), np.float32),
        (np.bool_(True), np.bool_),
    ],
    ids=repr,
)
def test_numbers_arrive(value, dtype):
    y = np.zeros(1, dtype)
    place[(1,)](y, value)
    assert y[0] == value


def test_an_integer_beyond_64_bits_is_refused():
    with pytest.raises(OverflowError, match=r"value of kernel place: .* 64 bits"):
        place[(1,)](np.zeros(1), 2**64)


def test_the_value_1_and_none_become_constants():
    y = np.zeros(1, np.int32)
    assert types_of(place[(1,)](y, 1)) == {"y_ptr": "*i32", "value": "constexpr"}
    assert types_of(place[(1,)](y, 2)) == {"y_ptr": "*i32", "value": "i32"}
    assert types_of(nothing[(1,)](None, 2**40, 2**63, 1.0)) == {
        "a": "constexpr", "b": "i64", "c": "u64", "d": "fp32",
    }  # fmt: skip


@triton.jit(do_not_specialize=["value"])
def keep(y_ptr, value):
    tl.store(y_ptr, value)


def test_a_value_that_is_not_specialised_stays_an_argument():
    y = np.zeros(1, np.int32)
    first = keep[(1,)](y, 1)
    assert y[0] == 1
    assert types_of(first) == {"y_ptr": "*i32", "value": "i32"}
    assert keep[(1,)](y, 2) is first


@triton.jit
def wide(y_ptr, value: tl.int64, small: tl.int8, real: tl.float64):
    tl.store(y_ptr, value)
    tl.store(y_ptr + 1, small)
    tl.store(y_ptr + 2, (real * 2).to(tl.int64))


def test_an_annotation_says_the_type():
    y = np.zeros(3, np.int64)
    kernel = wide[(1,)](y, 1, -3, 7)
    assert types_of(kernel) == {"y_ptr": "*i64", "value": "i64", "small": "i8", "real": "fp64"}
    assert y.tolist() == [1, -3, 14]
    assert wide[(1,)](y, 2**40, 4, 0.5)._build is kernel._build
    assert y.tolist() == [2**40, 4, 1]
    with pytest.raises(OverflowError, match="small must fit into its type, i8, but got 300"):
        wide[(1,)](y, 1, 300, 1.0)
    with pytest.raises(TypeError, match="small must be an integer"):
        wide[(1,)](y, 1, 1.5, 1.0)


@triton.jit
def double(x):
    return x + x


@triton.jit
def apply(y_ptr, x, FUNCTION: tl.constexpr, DTYPE: tl.constexpr):
    tl.store(y_ptr, FUNCTION(x).to(DTYPE))


def test_functions_and_dtypes_are_constants():
    y = np.zeros(1, np.int64)
    apply[(1,)](y, 21, double, tl.int64)
    assert y[0] == 42
    apply[(1,)](y, 21, FUNCTION=double, DTYPE=tl.constexpr(tl.int8))
    assert y[0] == 42


def test_an_unhashable_constant_is_refused():
    with pytest.raises(
        TypeError, match=r"KNOWN of kernel tell: a constexpr .* hashable, but got dict"
    ):
        tell[(1,)](np.zeros(1), 3, {})


@triton.jit
def pick(y_ptr, values):
    tl.store(y_ptr, values[0] + values[1][0] + values[2])


def test_tuples_are_passed_item_by_item():
    y = np.zeros(1, np.int32)
    kernel = pick[(1,)](y, (10, (1, 5), 2))
    assert y[0] == 13
    assert types_of(kernel)["values"] == ("i32", ("constexpr", "i32"), "i32")
    pick[(1,)](y, (20, (1, 5), 3))
    assert y[0] == 24


def test_a_type_stands_for_one_or_several_arguments():
    assert arguments.width("*fp32") == arguments.width("i32") == 1
    assert arguments.width("constexpr") == 0
    assert arguments.width(("i32", ("constexpr", "*fp32"))) == 2
    assert arguments.width("tensordesc<fp32[8, 8, 16],nan>") == 7


def test_only_keys_of_tensors_have_the_spelling_of_a_pointer():
    array = np.zeros(4, np.float32)
    for writable in (True, False):
        array.flags.writeable = writable
        assert arguments.pointer_spelling(arguments.describe(array)[0]) == "*fp32"
    for value in (1, 2, 2.5, True, None, (array,), "text"):
        assert arguments.pointer_spelling(arguments.describe(value)[0]) is None


def test_classes_can_be_registered_with_their_subclasses(monkeypatch):
    class Own:
        pass

    class Derived(Own):
        pass

    monkeypatch.setattr(arguments, "_PLAIN", dict(arguments._PLAIN))
    arguments.register(Own, lambda value: ("i32", 7))
    assert arguments.describe(Own()) == arguments.describe(Derived()) == ("i32", 7)


def test_a_tensor_without_memory_is_refused_by_name() -> None:
    torch = pytest.importorskip("torch")

    @triton.jit
    def kernel(x_ptr):
        tl.store(x_ptr, 1.0)

    with pytest.raises(RuntimeError, match=r"x_ptr of kernel kernel: .* data pointer"):
        kernel[(1,)](torch.zeros(2, 2).to_sparse())


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3
    HUGE = 1 << 40


class Real(float):
    pass


@triton.jit
def adds(out, n, x):
    tl.store(out, n + x)


@pytest.mark.parametrize("n", list(Level))
def test_numbers_of_other_classes_are_plain_numbers(n):
    out = np.zeros(1, np.float64)
    adds[(1,)](out, n, Real(0.5))
    assert out[0] == float(np.float32(int(n) + 0.5))

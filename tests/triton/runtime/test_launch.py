"""Launching kernels: arguments of every kind, grids, options, what comes back."""

import os
import pickle
import threading
from copy import deepcopy

import ml_dtypes
import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton

DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64,
]  # fmt: skip


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def place(y_ptr, value):
    tl.store(y_ptr, value)


@triton.jit
def number(y_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(y_ptr + (z * ny + y) * nx + x, 100 * z + 10 * y + x)


@triton.jit
def nothing(a, b, c, d):
    pass


def blocks(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


# ---- tensors and arrays


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_arrays_of_every_dtype_are_read_and_written(dtype):
    x = np.arange(100).astype(dtype)
    y = np.zeros_like(x)
    copy[blocks](x, y, 100)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "float8_e5m2"]
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


def test_memory_is_reinterpreted():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, -2.0])
    y = torch.zeros(2, dtype=torch.int32)
    copy[(1,)](triton.reinterpret(x, tl.int32), y, 2)
    assert y.tolist() == x.view(torch.int32).tolist()
    assert triton.reinterpret(triton.reinterpret(x, tl.int32), torch.float32) is x


def test_a_read_only_array_is_read_but_not_written():
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    x.flags.writeable = y.flags.writeable = False
    target = np.zeros(4, np.float32)
    copy[(1,)](x, target, 4)
    assert target.tolist() == x.tolist()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"y_ptr of kernel copy must be writable"):
            copy[(1,)](x, y, 4)
    assert not y.any()


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


# ---- numbers


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


@triton.jit
def tell(y_ptr, value, KNOWN: tl.constexpr):
    tl.store(y_ptr, value)


def types_of(kernel):
    return kernel.src.signature


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
    assert wide[(1,)](y, 2**40, 4, 0.5) is kernel
    assert y.tolist() == [2**40, 4, 1]
    with pytest.raises(OverflowError, match="small must fit into i8 as annotated, but got 300"):
        wide[(1,)](y, 1, 300, 1.0)
    with pytest.raises(TypeError, match="small must be an integer"):
        wide[(1,)](y, 1, 1.5, 1.0)


# ---- constants


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


def test_each_constant_makes_its_own_kernel():
    y = np.zeros(1, np.int32)
    made = [tell[(1,)](y, 3, c) for c in (1, True, 1.0, "1", None, 0.0, -0.0, (1, 2), [1, 2])]
    assert len({id(k) for k in made}) == len(made)
    assert tell[(1,)](y, 3, "1") is made[3]


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


# ---- binding


def test_arguments_are_bound_as_python_does():
    x, y = np.arange(4.0), np.zeros(4)
    copy[(1,)](n=4, y_ptr=y, x_ptr=x)
    assert y.tolist() == x.tolist()
    with pytest.raises(TypeError, match=r"copy\(\) missing 1 required positional argument: 'n'"):
        copy[(1,)](x, y)
    with pytest.raises(TypeError, match="multiple values for argument 'x_ptr'"):
        copy[(1,)](x, y, 4, x_ptr=x)
    with pytest.raises(TypeError, match="copy got an unexpected keyword argument 'BLCK'"):
        copy[(1,)](x, y, 4, BLCK=64)


def test_options_are_accepted_and_do_not_compile_again():
    x, y = np.arange(4.0), np.zeros(4)
    plain = copy[(1,)](x, y, 4)
    tuned = copy[(1,)](x, y, 4, num_warps=8, num_stages=2, waves_per_eu=1, maxnreg=None)
    assert tuned.metadata.num_warps == 8
    assert plain.metadata.num_warps == 4
    assert tuned._build is plain._build


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_warps": 3}, "num_warps must be a power of 2"),
        ({"num_threads": 0}, "num_threads must be an int of at least 1"),
        ({"backend": "gpu"}, "backend must be one of"),
    ],
)
def test_bad_options_are_refused(options, message):
    y = np.zeros(4)
    with pytest.raises(ValueError, match=message):
        copy[(1,)](np.ones(4), y, 4, **options)
    assert not y.any()


def test_the_environment_says_how_many_threads(monkeypatch):
    x, y = np.arange(4.0), np.zeros(4)
    monkeypatch.setenv("EMU_THREADS", "3")
    assert copy[(1,)](x, y, 4, num_ctas=2).metadata.num_threads == 3
    assert copy[(1,)](x, y, 4, num_threads=2).metadata.num_threads == 2
    monkeypatch.setenv("EMU_THREADS", "none")
    with pytest.raises(ValueError, match="EMU_THREADS must be a whole number"):
        copy[(1,)](x, y, 4, num_ctas=4)


def test_a_pe_uses_one_thread_as_numba_does(monkeypatch):
    monkeypatch.delenv("EMU_THREADS", raising=False)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    y = np.zeros(4)
    assert copy[(1,)](y, y, 4, num_stages=7).metadata.num_threads == 1
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    found = copy[(1,)](y, y, 4, num_stages=8).metadata.num_threads
    assert found == len(os.sched_getaffinity(0))


def test_both_backends_give_the_same():
    x = np.arange(100, dtype=np.float32)
    results = []
    for backend in ("cpu", "reference"):
        y = np.zeros_like(x)
        assert copy[blocks](x, y, 100, backend=backend).metadata.backend == backend
        results.append(y.tolist())
    assert results[0] == results[1] == x.tolist()


# ---- grids


@pytest.mark.parametrize(
    ("grid", "count"),
    [(4, 4), ((4,), 4), ([4], 4), ((np.int64(2), 3), 6), ((2, 2, 2), 8), (lambda m: (3, 1), 3)],
    ids=["int", "one", "list", "numpy", "three", "callable"],
)
def test_every_program_of_a_grid_runs_once(grid, count):
    y = np.full(16, -1, np.int32)
    number[grid](y)
    assert (y[:count] >= 0).all()
    assert (y[count:] == -1).all()
    assert len(set(y[:count].tolist())) == count


@pytest.mark.parametrize("grid", [0, (0,), (3, 0), (1, 1, 0)])
def test_an_empty_grid_runs_nothing(grid):
    y = np.full(4, -1, np.int32)
    number[grid](y)
    assert (y == -1).all()


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ((1, 2, 3, 4), ValueError, "one to three extents"),
        ((), ValueError, "one to three extents"),
        ((-1,), ValueError, r"in \[0, 2\*\*31\)"),
        ((2**31,), ValueError, r"in \[0, 2\*\*31\)"),
        ((1.5,), TypeError, "one to three integers"),
        ("4", TypeError, "one to three integers"),
        (None, TypeError, "grid must be"),
    ],
    ids=str,
)
def test_a_bad_grid_is_refused(grid, error, message):
    with pytest.raises(error, match=message):
        number[grid](np.zeros(4, np.int32))


def test_a_grid_function_sees_arguments_defaults_and_constants():
    seen = {}

    def grid(meta):
        seen.update(meta)
        return (1,)

    x, y = np.arange(4.0), np.zeros(4)
    copy[grid](x, y, n=4)
    assert list(seen) == ["x_ptr", "y_ptr", "n", "BLOCK"]
    assert seen["x_ptr"] is x
    assert seen["BLOCK"] == 64


# ---- globals

FACTOR: tl.constexpr = tl.constexpr(3)
OTHER: tl.constexpr = tl.constexpr(4)


@triton.jit
def inner(x):
    return x * OTHER


@triton.jit
def scaled(y_ptr, x):
    tl.store(y_ptr, inner(x) * FACTOR)


@pytest.mark.parametrize("name", ["FACTOR", "OTHER"])
def test_a_global_must_not_change_after_it_was_compiled_in(name, monkeypatch):
    y = np.zeros(1, np.int32)
    scaled[(1,)](y, 5)
    assert y[0] == 60
    monkeypatch.setitem(globals(), name, tl.constexpr(globals()[name].value))
    scaled[(1,)](y, 6)
    assert y[0] == 72
    monkeypatch.setitem(globals(), name, tl.constexpr(7))
    with pytest.raises(RuntimeError, match=f"Global variable {name} must not change .* to 7"):
        scaled[(1,)](y, 7)
    assert y[0] == 72


# ---- what comes back


def test_a_compiled_kernel_has_what_programs_ask_for():
    x, y = np.arange(4.0), np.zeros(4)
    kernel = copy.warmup(x, y, 4, BLOCK=128, num_warps=8, grid=(1,))
    assert not y.any()
    kernel._init_handles()
    assert kernel.name == kernel.metadata.name == "copy"
    assert kernel.metadata.shared > 0
    assert kernel.n_regs > 0
    assert kernel.n_spills == 0
    kernel[(1, 1, 1)](x, y, 3)
    assert y.tolist() == [0, 1, 2, 0]
    kernel[(1,)](x, y, 4, 128)
    assert y.tolist() == x.tolist()
    with pytest.raises(TypeError, match="copy must be given 4 arguments, or the 3"):
        kernel[(1,)](x, y)


def test_the_tile_ir_of_a_kernel_can_be_read():
    kernel = copy.warmup(np.zeros(4), np.zeros(4), 4, grid=(1,))
    assert "program_id" in kernel.asm["ttir"]
    with pytest.raises(KeyError, match="asm has no 'cubin'"):
        kernel.asm["cubin"]


def test_dtypes_stand_for_tensors_in_a_warmup():
    torch = pytest.importorskip("torch")
    kernel = copy.warmup(torch.float16, torch.float32, 4, grid=(1,))
    assert types_of(kernel) == {
        "x_ptr": "*fp16",
        "y_ptr": "*fp32",
        "n": "i32",
        "BLOCK": "constexpr",
    }


def test_a_kernel_compiles_ahead_of_time():
    source = triton.compiler.ASTSource(
        copy, {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}, {"BLOCK": 32}
    )
    kernel = triton.compile(source, target=None, options={"num_warps": 2})
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    kernel[(1,)](x, y, 4)
    assert y.tolist() == x.tolist()
    with pytest.raises(ValueError, match="signature must have the type of n"):
        triton.compiler.ASTSource(copy, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"BLOCK": 32})


def test_a_kernel_cannot_be_called():
    with pytest.raises(RuntimeError, match=r"copy must be launched as copy\[grid\]"):
        copy(1, 2, 3)


def test_a_kernel_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(copy)) is copy
    assert deepcopy({"kernel": copy})["kernel"] is copy


# ---- hooks


def test_hooks_are_called_around_a_launch():
    seen = []

    @triton.jit
    def hooked(y_ptr, value):
        tl.store(y_ptr, value)

    hooked.add_pre_run_hook(lambda *args, **kwargs: seen.append(("run", args[1], kwargs)))
    with triton.knobs.runtime.scope():
        enter, leave = triton.knobs.HookChain(), triton.knobs.HookChain()
        enter.add(lambda facts: seen.append(("enter", facts.get()["name"])))
        leave.add(lambda facts: seen.append(("leave", facts.get()["name"])))
        triton.knobs.runtime.launch_enter_hook = enter
        triton.knobs.runtime.launch_exit_hook = leave
        hooked[(1,)](np.zeros(1), 5, num_warps=2)
    assert seen == [("run", 5, {"num_warps": 2}), ("enter", "hooked"), ("leave", "hooked")]


def test_compilation_is_told_once():
    told = []
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.jit_post_compile_hook = lambda **facts: told.append(facts["repr"])

        @triton.jit
        def fresh(y_ptr, value):
            tl.store(y_ptr, value)

        for value in (2, 3, 1):
            fresh[(1,)](np.zeros(1, np.int32), value)
    assert told == ["fresh(y_ptr: *i32, value: i32)", "fresh(y_ptr: *i32, value: constexpr)"]


# ---- many at once


def test_threads_launch_one_kernel_at_a_time_each_with_its_own_arguments():
    results = np.zeros((8, 50), np.int32)

    def work(i):
        for j in range(50):
            place[(1,)](results[i, j:], 100 * i + j + 2)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = 100 * np.arange(8)[:, None] + np.arange(50) + 2
    np.testing.assert_array_equal(results, expected)


def test_threads_launch_a_kernel_that_none_has_launched_before() -> None:
    import threading
    from concurrent.futures import ThreadPoolExecutor

    @triton.jit
    def squares(out_ptr, FROM: tl.constexpr):
        x = tl.arange(0, 64) + FROM
        tl.store(out_ptr + tl.arange(0, 64), x * x)

    @triton.jit
    def cubes(out_ptr, FROM: tl.constexpr):
        x = tl.arange(0, 64) + FROM
        tl.store(out_ptr + tl.arange(0, 64), x * x * x)

    together = threading.Barrier(4)

    def work(number: int) -> bool:
        kernel, power = (squares, 2) if number % 2 else (cubes, 3)
        together.wait(30)
        for first in (number // 2, 7):
            out = np.zeros(64, np.int32)
            kernel[(3,)](out, FROM=first)
            if not (out == (np.arange(64, dtype=np.int32) + first) ** power).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4

"""Kernels that run as Python: values, memory, errors, programs."""

import traceback

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton import knobs
from emu.triton.errors import OutOfBoundsError
from emu.triton.runtime.compiled import CompiledKernel
from emu.triton.runtime.errors import InterpreterError
from emu.triton.runtime.interpreting import InterpretedKernel


@triton.jit
def shown(x_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * BLOCK + tl.arange(0, BLOCK))
    import json  # any Python runs in a kernel

    seen = [json.dumps(x.numpy().tolist())]
    seen.append(f"{pid} of {tl.num_programs(0)}: {x}, n={n:.0f}")
    print(seen, repr(x), sep="\n")


def test_python_runs_in_a_kernel_and_sees_values(capsys):
    shown[(2,)](np.arange(8, dtype=np.float32), 7, BLOCK=4, interpret=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "['[0.0, 1.0, 2.0, 3.0]', '0 of 2: [0. 1. 2. 3.], n=7']",
        "tensor(fp32[4], [0. 1. 2. 3.])",
        "['[4.0, 5.0, 6.0, 7.0]', '1 of 2: [4. 5. 6. 7.], n=7']",
        "tensor(fp32[4], [4. 5. 6. 7.])",
    ]


@triton.jit(interpret=True)
def doubled(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def test_one_program_alone_runs(monkeypatch):
    x = np.ones(10, np.float32)
    monkeypatch.setenv("EMU_INTERPRET_PROGRAM", "1")
    doubled[(3,)](x, 10, BLOCK=4)
    assert x.tolist() == [1] * 4 + [2] * 4 + [1] * 2
    monkeypatch.setenv("EMU_INTERPRET_PROGRAM", "3")
    with pytest.raises(ValueError, match=r"inside the grid \(3, 1, 1\), but got \(3, 0, 0\)"):
        doubled[(3,)](x, 10, BLOCK=4)


def test_the_environment_and_the_option_choose(monkeypatch):
    x = np.ones(4, np.float32)
    plain = triton.jit(doubled.fn)
    assert isinstance(plain[(1,)](x, 4, BLOCK=4, interpret=True), InterpretedKernel)
    with knobs.runtime.scope():
        knobs.runtime.interpret = True
        assert isinstance(plain[(1,)](x, 4, BLOCK=4), InterpretedKernel)
        assert isinstance(plain[(1,)](x, 4, BLOCK=4, interpret=False), CompiledKernel)
        assert isinstance(plain.warmup(x, 4, BLOCK=4, grid=(1,)), InterpretedKernel)
    assert doubled[(1,)](x, 4, BLOCK=4, interpret=False) is not None
    assert x.tolist() == [16] * 4
    with pytest.raises(TypeError, match="interpret must be a bool, but got int 1"):
        plain[(1,)](x, 4, BLOCK=4, interpret=1)


@triton.jit
def inner(x, y):
    return x + y


@triton.jit
def wrong_shapes(x_ptr, A: tl.constexpr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, A))
    y = tl.arange(0, B)
    tl.store(x_ptr, inner(x, y))


def test_a_traceback_has_the_users_lines_alone():
    with pytest.raises(
        InterpreterError, match=r"kernel wrong_shapes, program \(0, 0, 0\)"
    ) as found:
        wrong_shapes[(2,)](np.zeros(8, np.float32), 8, 4, interpret=True)
    assert isinstance(found.value.__cause__, ValueError)
    assert found.value.__cause__.__traceback__ is None  # the lines are shown once
    here, launcher, *frames = traceback.extract_tb(found.value.__traceback__)
    assert (here.filename, launcher.filename) == (__file__, "<launcher of wrong_shapes>")
    assert [(f.filename, f.name, f.line) for f in frames] == [
        (__file__, "wrong_shapes", "tl.store(x_ptr, inner(x, y))"),
        (__file__, "inner", "return x + y"),
    ]
    assert frames[1].lineno == inner.fn.__code__.co_firstlineno + 2
    assert frames[1].colno == 11  # of ``x + y``


@triton.jit
def looks_up(x_ptr, n):
    scales = {16: 0.5}
    tl.store(x_ptr, scales[int(n)])


def test_an_error_of_the_users_own_python_is_the_cause():
    with pytest.raises(InterpreterError, match=r"program \(0, 0, 0\): KeyError: 3") as found:
        looks_up[(1,)](np.zeros(1, np.float32), 3, interpret=True)
    assert isinstance(found.value.__cause__, KeyError)
    outer = traceback.extract_tb(found.value.__traceback__)
    assert outer[-1].line == "tl.store(x_ptr, scales[int(n)])"
    assert [f.filename for f in outer if "emu" in f.filename and "tests" not in f.filename] == []


@triton.jit
def forgets_mask(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < 10))


def test_a_forgotten_mask_corrupts_nothing():
    x, owner = np.ones(10, np.float32), np.zeros(10, np.float32)
    with pytest.raises(OutOfBoundsError) as found:
        forgets_mask[(2,)](x, owner, BLOCK=8, interpret=True)
    assert str(found.value) == (
        "kernel forgets_mask, program (1, 0, 0): store outside y_ptr: offset 10 (elements of 4 bytes) at "
        "lane 2, but y_ptr (float32 of shape (10,), strides (4,) bytes) has 0 to 9; 6 of 8 lanes are outside, "
        "no mask is given"
    )
    assert isinstance(found.value, IndexError)
    assert owner.tolist() == [1] * 8 + [0] * 2


def test_a_view_may_be_left_for_the_rest_of_its_storage():
    whole = np.zeros(16, np.float32)
    forgets_mask[(2,)](np.ones(16, np.float32), whole[:10], BLOCK=8, interpret=True)
    assert whole.tolist() == [1] * 10 + [0] * 6


def test_read_only_memory_is_not_written():
    x = np.ones(10, np.float32)
    fixed = np.zeros(16, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(OutOfBoundsError, match="y_ptr must be writable"):
        forgets_mask[(1,)](x, fixed, BLOCK=8, interpret=True)
    assert not fixed.any()


@triton.jit
def through(address, y_ptr):
    tl.store(y_ptr, tl.load(address.to(tl.pointer_type(tl.int32))))


def test_a_pointer_of_unknown_origin_must_be_mapped():
    x, y = np.array([7], np.int32), np.zeros(1, np.int32)
    through[(1,)](x.ctypes.data, y, interpret=True)
    assert y[0] == 7
    for address, said in ((0, "a null pointer"), (4096, "address 0x1000")):
        with pytest.raises(OutOfBoundsError, match=f"load at {said}, which is no memory"):
            through[(1,)](address, y, interpret=True)


@triton.jit
def asserts(x_ptr):
    tl.device_assert(tl.load(x_ptr + tl.arange(0, 4)) > 0, "all must be positive")


def test_an_assertion_fails_where_it_stands():
    asserts[(1,)](np.ones(4, np.float32), interpret=True)
    with pytest.raises(InterpreterError, match="AssertionError: all must be positive"):
        asserts[(1,)](np.zeros(4, np.float32), interpret=True)


@triton.jit
def prints(x_ptr):
    tl.device_print("x", tl.load(x_ptr + tl.arange(0, 4)))


def test_device_print_prints_a_tensor_once(capsys, monkeypatch):
    x = np.arange(4, dtype=np.int32)
    prints[(1,)](x, interpret=True)
    assert capsys.readouterr().out == "pid (0, 0, 0) x: [0 1 2 3]\n"
    monkeypatch.setenv("EMU_INTERPRET_PRINT", "elements")
    prints[(1,)](x, interpret=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("pid (0, 0, 0) idx (3)")
    assert len(lines) == 4
    monkeypatch.setenv("EMU_INTERPRET_PRINT", "rows")
    with pytest.raises(ValueError, match="EMU_INTERPRET_PRINT must be 'tensor' or 'elements'"):
        prints[(1,)](x, interpret=True)


@triton.jit
def larger(a, b):
    if a > b:
        return a
    return b


@triton.jit
def with_branch(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    tl.store(y_ptr, tl.reduce(x, 0, larger))


def test_a_combine_function_may_branch():
    x, y = np.random.default_rng(0).permutation(64).astype(np.float32), np.zeros(1, np.float32)
    with_branch[(1,)](x, y, interpret=True)
    assert y[0] == 63


@triton.jit
def calls_itself_plainly(y_ptr):
    helpers = {"add": inner}
    tl.store(y_ptr, helpers["add"](2, 3) + larger.__call__(4, 1))


def test_jit_functions_are_called_however_they_are_reached():
    y = np.zeros(1, np.int32)
    calls_itself_plainly[(1,)](y, interpret=True)
    assert y[0] == 9
    with pytest.raises(RuntimeError, match="must be launched as"):
        inner(1, 2)


def test_a_function_without_a_file_runs_as_it_is():
    space = {"triton": triton, "tl": tl}
    exec(  # noqa: S102 - as Triton's own tests make kernels
        "@triton.jit(interpret=True)\n"
        "def fill(y_ptr):\n"
        "    for i in tl.range(2, 6):\n"
        "        for j in tl.static_range(2):\n"
        "            tl.store(y_ptr + i - 2, i * 2 + j)\n",
        space,
    )
    y = np.zeros(4, np.int32)
    space["fill"][(1,)](y)
    assert y.tolist() == [5, 7, 9, 11]
    with pytest.raises(ValueError, match="should be defined in a Python file"):
        triton.jit(space["fill"].fn)


@triton.autotune([triton.Config({"BLOCK": b}) for b in (4, 8)], key=["n"])
@triton.heuristics({"TWICE": lambda given: given["n"] > 3})
@triton.jit
def tuned(y_ptr, n, BLOCK: tl.constexpr, TWICE: tl.constexpr):
    print("block", BLOCK, TWICE)
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, i * (2 if TWICE else 1), mask=i < n)


def test_an_autotuned_kernel_runs_once_by_its_first_configuration(capsys):
    y = np.zeros(4, np.int32)
    tuned[(1,)](y, 4, interpret=True)
    assert y.tolist() == [0, 2, 4, 6]
    assert capsys.readouterr().out == "block 4 True\n"


@triton.jit
def joins(x_ptr, y_ptr, n, FLAG: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    inside = 0 < x < n and not (i == 2)  # noqa: SIM201 - ``not`` of a tile
    if (FLAG is not None and FLAG > 1) or n > 100:
        inside = inside | (i == 0)
    total = 0
    for k in range(n):
        total += k if k % 2 else -k
    while total > 2:
        total -= 2
    (a, b), c = (1, 2.5), BLOCK
    d: tl.constexpr = BLOCK * 2
    tl.static_assert(d == 2 * BLOCK)
    tl.store(
        y_ptr + i, tl.where(inside, total + a + b + c, 0.0) + tl.sum(tl.full((d,), 1, tl.int32))
    )


@pytest.mark.parametrize("flag", [None, 1, 2])
def test_pythons_operators_have_the_meaning_of_kernels(flag, tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path))  # warnings are given by the compiler
    x = np.array([0, 1, 2, 3, 4, 5, 6, 7], np.float32)
    compiled, interpreted = np.zeros(8, np.float32), np.zeros(8, np.float32)
    with pytest.warns(UserWarning, match="deprecated for non-scalar"):
        joins[(1,)](x, compiled, 6, flag, BLOCK=8)
    joins[(1,)](x, interpreted, 6, flag, BLOCK=8, interpret=True)
    assert interpreted.tolist() == compiled.tolist()
    assert len(set(compiled.tolist())) == 2


def test_hooks_are_called_around_a_launch():
    told = []

    def facts(grid, metadata, args):
        return {"grid": grid, "n": args["n"], "warps": metadata.num_warps}

    kernel = triton.jit(doubled.fn, launch_metadata=facts, interpret=True)
    x = np.ones(4, np.float32)
    with knobs.runtime.scope():
        knobs.runtime.launch_enter_hook = lambda f: told.append((x.tolist(), f.get()))
        knobs.runtime.launch_exit_hook = lambda f: told.append((x.tolist(), f.get()["name"]))
        kernel[(1,)](x, 4, BLOCK=4, num_warps=8)
    (before, seen), after = told
    assert before == [1] * 4
    assert (seen["name"], seen["grid"], seen["n"], seen["warps"]) == ("doubled", (1, 1, 1), 4, 8)
    assert after == ([2] * 4, "doubled")


@triton.jit(interpret=True)
def asks_for_nothing(x_ptr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, x.nothing)


def test_a_tensor_is_called_so_in_errors_of_python():
    with pytest.raises(InterpreterError, match="'tensor' object has no attribute 'nothing'"):
        asks_for_nothing[(1,)](np.zeros(1, np.float32))


def test_a_launch_returns_what_can_be_asked_as_a_compiled_kernel():
    x = np.ones(4, np.float32)
    made = doubled[(1,)](x, 4, BLOCK=4, num_warps=2)
    assert (made.name, made.metadata.num_warps, made.n_spills) == ("doubled", 2, 0)
    assert "func @doubled(" in made.asm["ttir"]
    made[(1,)](x, 4)
    assert x.tolist() == [4] * 4
    warm = doubled.warmup(x, 4, BLOCK=4, grid=(1,))
    assert "ptr<f32>" in warm.asm["ttir"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = made.nothing


@triton.jit
def types_of_constants(x_ptr, N: tl.constexpr):
    known: tl.constexpr = (1, 2)
    tl.static_assert(N.type == tl.core.constexpr_type(8))
    tl.static_assert(known.type == (1, 2).type)
    moved = N
    tl.static_assert(moved.type == tl.int32)
    tl.store(x_ptr, moved)


@pytest.mark.parametrize("interpret", [False, True])
def test_constants_have_types(interpret):
    x = np.zeros(1, np.int32)
    types_of_constants[(1,)](x, 8, interpret=interpret)
    assert x[0] == 8


@triton.jit(interpret=True)
def shows_pointers(x_ptr, y_ptr, n):
    i = tl.arange(0, 4)
    print(repr(x_ptr), repr(x_ptr + i * n), repr(y_ptr - 1), sep="\n")
    print(repr(tl.where(i > 1, x_ptr + i, y_ptr + i)))


def test_pointers_are_shown_by_argument_and_offset(capsys):
    x, y = np.zeros(8, np.float32), np.zeros((4, 4), np.int16)
    shows_pointers[(1,)](x, y.view(np.float32), 2)
    *of_one, mixed = capsys.readouterr().out.splitlines()
    assert of_one == [
        "tensor(pointer<fp32>[], x_ptr + 0)",
        "tensor(pointer<fp32>[4], x_ptr + [0 2 4 6])",
        "tensor(pointer<fp32>[], y_ptr + -1)",
    ]
    assert mixed.startswith(f"tensor(pointer<fp32>[4], [{y.ctypes.data} ")


@triton.jit(interpret=True)
def grows(x_ptr, n):
    x = tl.load(x_ptr)
    x += n
    y = x * 2 if n > 100 else x - n
    tl.store(x_ptr, y.to(x_ptr.dtype.element_ty))


@pytest.mark.parametrize("debug", [None, True])
def test_integers_that_wrap_around_are_errors_where_a_kernel_is_debugged(debug):
    x = np.full(1, 2**31 - 1, np.int32)
    if debug:
        with pytest.raises(RuntimeError, match="int32 overflow in add"):
            grows[(1,)](x, 2, debug=True)
        with pytest.raises(AssertionError, match="int32 overflow in mul"):
            grows[(1,)](np.zeros(1, np.int32), 2**31 - 1, debug=True)
        grows[(1,)](np.ones(1, np.int32), 5, debug=True)
    grows[(1,)](x, 2, debug=debug, sanitize_overflow=False)
    assert x[0] == 2**31 - 1


@triton.jit
def rounds(a_ptr, c_ptr):
    i = tl.arange(0, 16)
    a = tl.load(a_ptr + i[:, None] * 16 + i[None, :])
    tl.store(c_ptr + i[:, None] * 16 + i[None, :], tl.dot(a, a, input_precision="tf32"))


def test_operands_are_rounded_as_in_compiled_kernels():
    a = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    left = {}
    for interpret in (False, True):
        for apply in (False, True):
            c = np.zeros_like(a)
            rounds[(1,)](a, c, interpret=interpret, apply_input_precision=apply)
            left[interpret, apply] = c.tobytes()
    assert left[True, True] == left[False, True] != left[True, False] == left[False, False]


@triton.jit(interpret=True)
def stores_in_a_loop(x_ptr, n):
    k = 0
    while k < n:
        tl.store(x_ptr + k, tl.load(x_ptr + k) + 1)
        tl.debug_barrier()
        k += 1


def test_a_while_loop_may_have_effects():
    x = np.arange(4, dtype=np.int32)
    stores_in_a_loop[(1,)](x, 4)
    assert x.tolist() == [1, 2, 3, 4]


@triton.jit(interpret=True)
def asserts_nothing_true(x_ptr):
    tl.device_assert(tl.load(x_ptr) > 0, "must be positive")
    tl.store(x_ptr, 1)


def test_assertions_are_checked_unless_the_launch_says_no():
    x = np.zeros(1, np.int32)
    with pytest.raises(AssertionError, match="must be positive"):
        asserts_nothing_true[(1,)](x)
    asserts_nothing_true[(1,)](x, debug=False)
    assert x[0] == 1

"""Compiled kernels: figures, texts, hooks around their launches."""

import numpy as np
import pytest
from triton_kernels import copy

import emu.triton.language as tl
from emu import triton


def test_a_compiled_kernel_has_what_programs_ask_for():
    x, y = np.arange(4.0), np.zeros(4)
    kernel = copy.warmup(x, y, 4, BLOCK=128, num_warps=8, grid=(1,))
    assert not y.any()
    kernel._init_handles()
    assert kernel.name == kernel.metadata.name == "copy"
    assert kernel.metadata.shared == 0  # no lane needs another's value
    assert kernel.n_regs > 0
    assert kernel.n_spills == 0
    kernel[(1, 1, 1)](x, y, 3)
    assert y.tolist() == [0, 1, 2, 0]
    kernel[(1,)](x, y, 4, 128)
    assert y.tolist() == x.tolist()
    with pytest.raises(TypeError, match="copy must be given 4 arguments, or the 3"):
        kernel[(1,)](x, y)


@triton.jit
def add_some(x_ptr, y_ptr, n, HAS_Y: tl.constexpr):
    i = tl.arange(0, 4)
    x = tl.load(x_ptr + i) + n
    if HAS_Y:
        x += tl.load(y_ptr + i)
    tl.store(x_ptr + i, x)


def test_a_compiled_kernel_takes_values_that_became_constants():
    x = np.zeros(4)
    add_some.warmup(x, None, 1, False, grid=(1,))[(1,)](x, None, 1, False)
    assert x.tolist() == [1] * 4
    add_some.warmup(x, None, 7, False, grid=(1,))[(1,)](x, None, 7)
    assert x.tolist() == [8] * 4
    kernel = add_some.warmup(x, x, 1, True, grid=(1,))
    kernel[(1,)](x, x, 1, True)
    assert x.tolist() == [17] * 4
    with pytest.raises(TypeError, match=r"y_ptr of kernel add_some must be \*fp64, .* got None"):
        kernel[(1,)](x, None, 1, True)


@triton.jit
def total(x_ptr, y_ptr):
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 16)), axis=0))


@pytest.mark.parametrize("cached", [False, True])
def test_a_reduction_counts_as_using_shared_memory(cached):
    total._table.clear()
    assert total.warmup(np.zeros(16), np.zeros(1), grid=(1,)).metadata.shared > 0


def test_a_function_may_name_a_kernel_by_its_types_and_constants():
    @triton.jit(repr=lambda s: f"named_{s.signature['n']}_{s.constants.get('one')}")
    def kernel(n, one, x_ptr):
        pass

    made = kernel.warmup(2**40, 1, np.zeros(1), grid=(1,))
    assert made.name == made.metadata.name == "named_i64_1"


def test_the_tile_ir_of_a_kernel_can_be_read():
    kernel = copy.warmup(np.zeros(4), np.zeros(4), 4, grid=(1,))
    assert "program_id" in kernel.asm["ttir"]
    with pytest.raises(KeyError, match="asm has no 'cubin'"):
        kernel.asm["cubin"]


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

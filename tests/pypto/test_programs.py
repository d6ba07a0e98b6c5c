"""The programs that every release must run, on 2 to 16 PEs, in every data type."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from variants import thorough

import emu

EXAMPLES = Path(__file__).parents[2] / "examples" / "pypto"
ALL = ("DT_FP32", "DT_FP16", "DT_BF16", "DT_INT32")
PROGRAMS = {
    "allgather": ALL,
    "reduce_scatter": ALL,
    "allreduce_one_shot": ALL,
    "allreduce_two_shot": ALL,
    "allgather_matmul": ALL,
    "matmul_allreduce_rmsnorm": ALL[:3],
    "two_groups": ALL,
    "moe_dispatch_combine": ALL,
}


def load_example(name: str):
    # The examples say `import pypto`, as users do in `emu run`.
    import sys

    shims = str(Path(emu.__file__).parent / "shims")
    if shims not in sys.path:
        sys.path.insert(0, shims)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_example(name: str, dtypes: tuple[str, ...], seeds: tuple[int, ...] = ()) -> int:
    from emu import pypto

    module = load_example(name)
    for dtype in dtypes:
        module.check(getattr(pypto, dtype))
        for seed in seeds:
            with pypto.set_schedule("random", seed):
                module.check(getattr(pypto, dtype))
    return len(dtypes) * (1 + len(seeds))


@pytest.mark.parametrize("n_pes", thorough([2, 4, 8, 16], 4))
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, n_pes):
    done = emu.launch(run_example, n_pes, args=(name, PROGRAMS[name]), timeout=20)
    assert done == [len(PROGRAMS[name])] * n_pes


def test_experts_on_a_single_pe():
    emu.launch(run_example, 1, args=("moe_dispatch_combine", ("DT_FP32",)), timeout=20)


@pytest.mark.parametrize(
    "name", thorough(list(PROGRAMS), "allreduce_two_shot", "two_groups", "moe_dispatch_combine")
)
def test_program_under_any_legal_order(name):
    emu.launch(run_example, 4, args=(name, ("DT_FP32",), tuple(range(6))), timeout=20)


def run_plain(name: str):
    return load_example(name).check()


def test_examples_of_the_page_are_refused_as_printed():
    for messages in emu.launch(run_plain, 8, args=("shmem_store_as_printed",), timeout=20):
        assert messages == ["src.dtype must be DT_FP16, the dtype of dst, but got DT_BF16"] * 2


def test_examples_of_the_page_run_when_fixed():
    emu.launch(run_plain, 8, args=("shmem_store_fixed",), timeout=20)


def run_demo_kernels(dtype_name: str, rows: int, depth: int, columns: int):
    from emu import pypto
    from emu.pypto import programs
    from emu.pypto.testing import assert_close, random_array

    dtype = getattr(pypto, dtype_name)
    world = emu.world()
    n_pes, me = world.n_pes, world.my_pe
    xs = [random_array(p, (rows, depth), dtype) for p in range(n_pes)]
    ws = [random_array(99 + p, (depth, columns), dtype) for p in range(n_pes)]
    wide_x, wide_w = ([a.astype(np.float64) for a in arrays] for arrays in (xs, ws))

    out = np.zeros((n_pes * rows, columns), dtype.np_dtype)
    programs.allgather_matmul(xs[me], ws[me], out)
    errors = [assert_close(out, np.concatenate(wide_x) @ wide_w[me], n_pes)]

    residual = random_array(7, (rows, columns), dtype)
    gamma = random_array(8, (1, columns), dtype)
    out = np.zeros((rows, columns), dtype.np_dtype)
    programs.matmul_allreduce_rmsnorm(xs[me], ws[me], residual, gamma, out, n_pes)
    hidden = sum(x @ w for x, w in zip(wide_x, wide_w, strict=True)) + residual.astype(np.float64)
    normal = hidden / np.sqrt((hidden**2).mean(axis=1, keepdims=True) + 1e-6)
    errors.append(assert_close(out, normal * gamma.astype(np.float64), n_pes))
    return errors


@pytest.mark.parametrize("n_pes", thorough([2, 8], 2))
@pytest.mark.parametrize("dtype", thorough(["DT_BF16", "DT_FP32"], "DT_BF16"))
def test_demo_kernels(dtype, n_pes):
    emu.launch(run_demo_kernels, n_pes, args=(dtype, 16, 32, 24), timeout=20)


def run_moe(dtype_name: str, tokens: int, hidden: int, seeds: tuple[int, ...]):
    from emu import pypto
    from emu.pypto import programs
    from emu.pypto.testing import assert_close, random_array

    dtype = getattr(pypto, dtype_name)
    n_pes, me = emu.world().n_pes, emu.world().my_pe
    x, gates = random_array(me, (tokens, hidden), dtype), random_array(50 + me, (tokens, 2), dtype)
    weights = [random_array(100 + e, (hidden, hidden), dtype) for e in range(n_pes)]
    # All tokens of PE 0 choose expert 0 first, so that others get few or none.
    experts = np.random.default_rng(me).integers(0, n_pes, (tokens, 2)).astype(np.int32)
    experts[:, 0] *= bool(me)
    expected = np.zeros((tokens, hidden))
    for t, k in np.ndindex(tokens, 2):
        product = x[t].astype(np.float64) @ weights[experts[t, k]].astype(np.float64)
        expected[t] += gates[t, k].astype(np.float64) * product
    errors = []
    for seed in (None, *seeds):
        with pypto.set_schedule("program" if seed is None else "random", seed or 0):
            out = np.zeros((tokens, hidden), dtype.np_dtype)
            programs.moe_dispatch_combine(x, experts, gates, weights[me], out, n_pes)
        errors.append(assert_close(out, expected, n_pes))
    return errors


@pytest.mark.parametrize("n_pes", thorough([1, 2, 3, 8], 3))
@pytest.mark.parametrize("dtype", thorough(["DT_BF16", "DT_FP32"], "DT_FP32"))
def test_experts_by_sorted_tokens(dtype, n_pes):
    emu.launch(run_moe, n_pes, args=(dtype, 6, 16, (1, 2)), timeout=20)

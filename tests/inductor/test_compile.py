"""Functions of host tensors that Inductor compiles to Triton kernels, beside the same functions run eagerly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of its compiler


def mlp(torch: Any) -> Any:
    nn = torch.nn
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 5))


def test_a_function_of_several_kernels_gives_what_it_gives_eagerly(
    inductor: Any, count_launches: Callable[[], int]
) -> None:
    torch = inductor

    def function(x: Any, y: Any) -> Any:
        scores = torch.softmax(x * 0.125 + y.sin(), -1)
        return scores, (x + y).sum(0), (x > y).long().argmax(1), x.half() * 2

    x, y = torch.randn(37, 130), torch.randn(37, 130)
    found = torch.compile(function)(x, y)
    assert count_launches() >= 2
    torch.testing.assert_close(found, function(x, y))


def test_gradients_and_changed_parameters(inductor: Any, count_launches: Callable[[], int]) -> None:
    torch = inductor
    one, other = mlp(torch), mlp(torch)
    x = torch.randn(16, 24)
    compiled = torch.compile(one)
    for _ in range(3):
        for model, call in ((one, compiled), (other, other)):
            model.zero_grad()
            call(x).pow(2).mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
    assert count_launches() > 3
    for found, expected in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int32", "uint8"])
def test_dtypes(inductor: Any, dtype: str) -> None:
    torch = inductor
    values = (torch.arange(1, 131) % 17).to(getattr(torch, dtype))

    def function(x: Any) -> Any:
        return x * x + 1, x.sum(), x.max(), x.float().sqrt()

    torch.testing.assert_close(torch.compile(function)(values), function(values))


def test_shapes_that_change_are_compiled_once(inductor: Any) -> None:
    torch = inductor
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    function = torch.compile(lambda x: (x * 2).sum(0) + x.shape[0], dynamic=True)
    for n in (5, 64, 129, 1000):
        x = torch.randn(n, 33)
        torch.testing.assert_close(function(x), (x * 2).sum(0) + n, rtol=1e-4, atol=1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_tensors_without_dimensions_are_passed_as_they_are(inductor: Any) -> None:
    torch = inductor

    def function(x: Any, y: Any) -> Any:
        return torch.remainder(x, y)

    x, y = torch.tensor(7.3, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    found = torch.autograd.grad(torch.compile(function)(x, y), (x, y))
    assert found == torch.autograd.grad(function(x, y), (x, y))


def test_a_kernel_of_the_program_inside_of_a_compiled_function(
    inductor: Any, count_launches: Callable[[], int]
) -> None:
    torch = inductor
    from triton_kernels import copy

    def function(x: Any) -> Any:
        target = torch.empty_like(x)
        copy[(4,)](x.sin(), target, x.numel(), BLOCK=64)  # torch loses defaults of constants
        return target * 2

    x = torch.randn(200)
    torch.testing.assert_close(torch.compile(function)(x), function(x))
    assert count_launches() >= 3


def test_what_a_kernel_of_the_program_writes_to(inductor: Any) -> None:
    torch = inductor
    from triton_kernels import copy, place

    from emu import triton
    from emu.inductor.mutations import written_tensors

    x, y = torch.ones(3), torch.ones(3, dtype=torch.int32)
    assert written_tensors(copy, {"x_ptr": x, "y_ptr": y, "n": 3}) == ["y_ptr"]
    assert (
        written_tensors(copy, {"x_ptr": x, "y_ptr": x, "n": None}) is None
    )  # a pointer plus nothing
    assert written_tensors(place, {"y_ptr": y, "value": 2.5}) == ["y_ptr"]
    assert written_tensors(place, {"y_ptr": y, "value": (1, 2)}) is None
    assert written_tensors(print, {}) is None
    tuned = triton.autotune([triton.Config({"BLOCK": 32})], key=[])(copy)
    assert written_tensors(tuned, {"x_ptr": x, "y_ptr": y, "n": 3}) == ["y_ptr"]


def test_addresses_are_checked_where_the_knob_says_so(inductor: Any) -> None:
    torch = inductor
    from emu.triton import knobs
    from emu.triton.errors import OutOfBoundsError

    x, at = torch.randn(64), torch.tensor([1, 63, 64])
    function = torch.compile(lambda x, at: x[at] + 1)
    with knobs.runtime.scope():
        knobs.runtime.check = "bounds"
        with (
            torch._inductor.config.patch(assert_indirect_indexing=False),
            pytest.raises(OutOfBoundsError),
        ):
            function(x, at)


@pytest.mark.slow
def test_flexible_attention_takes_the_triton_template(
    inductor: Any, count_launches: Callable[[], int]
) -> None:
    torch = inductor
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = (torch.randn(1, 2, 128, 32) for _ in range(3))

    def function(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))

    found = torch.compile(function)(q, k, v)
    assert count_launches() >= 1
    expected = function(q, k, v)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead", "max-autotune-no-cudagraphs"])
def test_modes(inductor: Any, mode: str) -> None:
    torch = inductor
    a, b = torch.randn(64, 96), torch.randn(96, 32)
    function = torch.compile(lambda a, b: (a @ b).relu() + 1, mode=mode)
    torch.testing.assert_close(function(a, b), (a @ b).relu() + 1, rtol=1e-4, atol=1e-4)


FROZEN = """
    import shutil, subprocess, torch
    import emu.inductor
    emu.inductor.install()
    from torch._inductor import config

    def refuse(command, *args, **kwargs):
        raise AssertionError(f"called {command}")

    subprocess.check_output = subprocess.run = subprocess.Popen = refuse
    layer = torch.nn.Linear(96, 64).eval()
    x = torch.randn(32, 96)
    with torch.no_grad(), config.patch(freezing=True):
        found = torch.compile(layer, mode="max-autotune-no-cudagraphs")(x)
        torch.testing.assert_close(found, layer(x), rtol=1e-4, atol=1e-4)
    print("done")
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_max_autotune_of_constant_weights_asks_for_no_compiler(
    run_alone: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    found = run_alone(FROZEN, timeout=300)
    assert found.stdout.endswith("done\n"), found.stderr


PROGRAM = """
    import sys, torch
    import emu.inductor
    emu.inductor.install()
    from emu.triton.runtime import compiled
    from_disk = []
    load = compiled.CompiledKernel._init_handles
    def note(kernel):
        if kernel.module is None:
            from_disk.append(kernel.from_disk)
        load(kernel)
    compiled.CompiledKernel._init_handles = note
    from torch._inductor.async_compile import AsyncCompile
    if sys.argv[1] == "workers":
        AsyncCompile.wait_pool_ready()
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    sizes = []
    restore = CachingAutotuner.restore_after_unpickle
    def note_sizes(kernel, old_values):
        sizes.append(len(kernel.compile_results))
        return restore(kernel, old_values)
    CachingAutotuner.restore_after_unpickle = note_sizes
    def function(x):
        return torch.softmax(x.sin() * {factor}, -1), x.cumsum(0), x.amax(0)
    x = torch.randn(50, 70)
    torch.testing.assert_close(torch.compile(function)(x), function(x), rtol=1e-4, atol=1e-4)
    print(from_disk)
    print(sizes)
    if __name__ == "__main__":
        from torch._dynamo.utils import counters
        print(counters["inductor"]["fxgraph_cache_hit"])
"""


def run(folder: Path, mode: str, factor: float, threads: int) -> list[str]:
    text = textwrap.dedent(PROGRAM).replace("{factor}", str(factor))
    script = folder / "program.py"
    script.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), mode],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "EMU_CACHE_DIR": str(folder / "emu"),
            "TORCHINDUCTOR_COMPILE_THREADS": str(threads),
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.slow
def test_kernels_come_from_workers(tmp_path: Path) -> None:
    (tmp_path / "emu").mkdir(mode=0o700)
    told, sizes, _ = run(tmp_path, "workers", 0.71, 2)
    assert "True" in told
    assert "False" not in told
    assert set(json.loads(sizes)) == {1}  # workers choose the sizes of blocks, too


@pytest.mark.slow
def test_a_second_process_finds_the_compiled_graph(tmp_path: Path) -> None:
    (tmp_path / "emu").mkdir(mode=0o700)
    *_, hits = run(tmp_path, "here", 0.73, 1)
    assert hits == "0"
    told, _, hits = run(tmp_path, "here", 0.73, 1)
    assert int(hits) >= 1
    assert "False" not in told

"""triton: kernels as the tutorials write them, beside torch, NumPy and Triton's interpreter."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rows.local import clock
from rows.matmul import has_bf16_unit
from rows.measure import Bench, Clock, Goal, Outcome, Settings, duel, typical
from rows.single import torch_or_none
from rows.team import HERE, PEERS, TeamError, environment

Call = Callable[[], object]
NO_TORCH = "torch is not installed"
SIZE = 1024  # of a matrix product
_SETTLE_S = 0.02
"""GNU OpenMP's threads go on spinning for some milliseconds."""


def vectors(count: int) -> tuple[Any, Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(count, generator=generator) for _ in range(2))
    return x, y, torch.empty_like(x)


def add(threads: int, count: int = 1 << 24, case: Any = None) -> Call:
    """Return what launches the addition; ``case`` is ``vectors(count)``."""
    import kernels_triton as kernels

    grid, given = (-(-count // 1024),), case or vectors(count)
    return lambda: kernels.add[grid](*given, count, BLOCK=1024, num_threads=threads)


def matrix(rows: int, columns: int) -> Any:
    import torch

    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))


def softmax(threads: int, x: Any = None) -> Call:
    import kernels_triton as kernels
    import torch

    given = matrix(1823, 781) if x is None else x
    out = torch.empty_like(given)
    (rows, columns), block = given.shape, 1 << (given.shape[1] - 1).bit_length()
    return lambda: kernels.softmax[(264,)](
        out,
        given,
        given.stride(0),
        out.stride(0),
        rows,
        columns,
        BLOCK=block,
        STAGES=4,
        num_threads=threads,
    )


def layer_norm(threads: int, case: Any = None, allocate: bool = False) -> Call:
    """Return what launches the forward pass, into tensors made before or at each call.

    ``case`` is ``layer_norm_case()``.
    """
    import kernels_triton as kernels
    import torch

    x, w, b = case or layer_norm_case()
    rows, columns = x.shape

    def results() -> tuple[Any, Any, Any]:
        mean, rstd = (torch.empty(rows, dtype=torch.float32) for _ in range(2))
        return torch.empty_like(x), mean, rstd

    given = results()

    def forward() -> Any:
        out, mean, rstd = results() if allocate else given
        kernels.layer_norm[(rows,)](
            x, out, w, b, mean, rstd, columns, columns, 1e-5, BLOCK=8192, num_threads=threads
        )
        return out

    return forward


def layer_norm_case() -> tuple[Any, Any, Any]:
    import torch

    return matrix(1151, 8192), torch.rand(8192), torch.rand(8192)


def products(dtype: str, size: int = SIZE) -> tuple[Any, Any, Any]:
    import torch

    a, b = (matrix(size, size).to(getattr(torch, dtype)) for _ in range(2))
    return a, b, torch.empty_like(a)


def matmul(
    threads: int,
    dtype: str = "float32",
    blocks: tuple[int, int, int] = (64, 64, 32),
    case: Any = None,
) -> Call:
    """Return what launches a product of square matrices; ``case`` is two of them and the result."""
    import kernels_triton as kernels

    a, b, c = case or products(dtype)
    size = a.shape[0]
    m, n, k = blocks
    grid = (-(-size // m) * -(-size // n),)
    strides = (*a.stride(), *b.stride(), *c.stride())
    sizes = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}
    return lambda: kernels.matmul[grid](
        a, b, c, size, size, size, *strides, **sizes, num_threads=threads
    )


def native_matmul(threads: int, blocks: tuple[int, int, int], case: Any) -> Call:
    """Return what launches a product of bf16 by the CPU's own instruction."""
    import kernels_triton as kernels

    from emu import triton

    a, b, c = case
    size = a.shape[0]
    m, n, k = blocks
    # An option that the exact launches do not have: what a launch has compiled stays as it is.
    launch = partial(
        kernels.matmul[(-(-size // m) * -(-size // n),)],
        *(a, b, c, size, size, size, *a.stride(), *b.stride(), *c.stride()),
        BLOCK_M=m,
        BLOCK_N=n,
        BLOCK_K=k,
        GROUP=8,
        num_threads=threads,
        num_stages=7,
    )
    with triton.knobs.language.scope():
        triton.knobs.language.allow_bf16_native = True
        launch()
    return launch


def _small_layer_norm() -> Call:
    x, w, b = layer_norm_case()
    return layer_norm(1, (x[:2], w, b))


def _small_attention() -> Call:
    import kernels_attention as kernels
    import torch

    q, k, v, out = (torch.rand(1, 128, 64) for _ in range(4))
    return lambda: kernels.attention_forward[(2, 1)](
        q,
        k,
        v,
        out,
        torch.empty(128),
        0.125,
        128,
        D=64,
        BLOCK_M=64,
        BLOCK_N=64,
        CAUSAL=False,
        num_threads=1,
    )


SMALL: dict[str, Callable[[], Call]] = {
    "add": lambda: add(1, 1000),
    "softmax": lambda: softmax(1, matrix(8, 781)),
    "layer_norm": _small_layer_norm,
    "matmul": lambda: matmul(1, case=products("float32", 64)),
}
"""Launches, by name, that take next to no time once the kernel is there: for fresh processes."""
LARGE: dict[str, Callable[[], Call]] = {"flash_attention": _small_attention}
"""Launches of kernels that take longer to compile, likewise."""


@contextlib.contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch use so many threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---- beside torch


def _add_pair(threads: int) -> tuple[Call, Call]:
    import torch

    x, y, out = case = vectors(1 << 24)
    return add(threads, case=case), lambda: torch.add(x, y, out=out)


def _softmax_pair(threads: int) -> tuple[Call, Call]:
    import torch

    x = matrix(1823, 781)
    out = torch.empty_like(x)
    return softmax(threads, x), lambda: torch.softmax(x, -1, out=out)


def _layer_norm_pair(threads: int, allocate: bool = False) -> tuple[Call, Call]:
    import torch

    x, w, b = case = layer_norm_case()
    theirs = partial(torch.nn.functional.layer_norm, x, (8192,), w, b, 1e-5)
    return layer_norm(threads, case, allocate), theirs


def _matmul_pair(threads: int, dtype: str, blocks: tuple[int, int, int]) -> tuple[Call, Call]:
    import torch

    a, b, c = case = products(dtype)
    return matmul(threads, dtype, blocks, case), lambda: torch.mm(a, b, out=c)


def _native_pair(threads: int, blocks: tuple[int, int, int]) -> tuple[Call, Call]:
    import torch

    a, b, c = case = products("bfloat16")
    return native_matmul(threads, blocks, case), lambda: torch.mm(a, b, out=c)


def _torch(settings: Settings, make: Callable[[int], tuple[Call, Call]], threads: int) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    ours, theirs = make(threads)
    settle_s = _SETTLE_S if threads > 1 else 0.0
    # GNU OpenMP's threads spin while they wait, and ours would wait for a core.
    with torch_threads(threads):
        return duel(settings, clock(ours), clock(theirs), settle_s=settle_s)


@contextlib.contextmanager
def _kept_memory() -> Iterator[None]:
    """Have malloc keep large blocks that are freed, so that an allocation meets no page for the first time.

    Raises:
        TeamError: The C library is not glibc.
    """
    trim_threshold, mmap_max = -1, -4  # numbers of mallopt
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        raise TeamError("the C library has no mallopt") from None
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, 1 << 30)
    try:
        yield
    finally:
        mallopt(mmap_max, 1 << 16)
        mallopt(trim_threshold, 1 << 17)


def _layer_norm_kept(settings: Settings) -> Outcome:
    with _kept_memory():
        return _torch(settings, partial(_layer_norm_pair, allocate=True), 1)


# ---- beside others


def _numpy(settings: Settings) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    import numpy as np

    x, y, out = case = vectors(98_432)
    arrays = x.numpy(), y.numpy(), out.numpy()
    theirs = clock(lambda: np.add(arrays[0], arrays[1], out=arrays[2]))
    return duel(settings, clock(add(1, 98_432, case)), theirs)


def _fp32(settings: Settings, dtype: str) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    return duel(settings, clock(matmul(1, dtype)), clock(matmul(1)))


@contextlib.contextmanager
def _interpreter(count: int) -> Iterator[Clock]:
    """Start Triton's interpreter in a process of its own; give its clock.

    Raises:
        TeamError: It does not run.
    """
    process = subprocess.Popen(
        [sys.executable, str(PEERS / "triton_interpreter.py"), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    def seconds(calls: int) -> float:
        try:
            process.stdin.write(f"{calls}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            said = process.stderr.read().strip().splitlines()
            raise TeamError(f"triton's interpreter: {(said or ['no message'])[-1]}")
        return float(answer)

    try:
        yield seconds
    finally:
        process.kill()
        process.communicate()


def _interpreted(settings: Settings) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    ours = clock(add(1, 98_432))
    if importlib.util.find_spec("triton") is None:
        return duel(settings, ours, None, "triton is not installed")
    with _interpreter(98_432) as theirs:
        return duel(settings, ours, theirs)


def _launch(settings: Settings) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    import kernels_triton as kernels
    import torch

    tensors = [torch.empty(8) for _ in range(4)]
    return duel(settings, clock(lambda: kernels.nothing[(1,)](*tensors)), None)


# ---- fresh processes


def _probe(folder: str, *names: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / "triton_probe.py"), *names],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**environment(), "EMU_CACHE_DIR": folder},
    )
    if done.returncode:
        raise TeamError((done.stderr.strip().splitlines() or ["no message"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cold(settings: Settings, name: str) -> Outcome:
    """Time the first launch of a kernel with an empty cache, without the import of emu.triton."""
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    found = []
    for _ in range(1 if settings.quick else 5):
        with tempfile.TemporaryDirectory(prefix="emu-bench-") as folder:
            found.append(_probe(folder, name)["launches"][name])
    return Outcome(typical(found))


@functools.cache
def _warm(quick: bool) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="emu-bench-") as folder:
        _probe(folder, *SMALL)  # fills the cache
        return [_probe(folder, *SMALL) for _ in range(1 if quick else 7)]


def _known(settings: Settings, further: bool) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    runs = _warm(settings.quick)
    if not further:
        return Outcome(typical([run["first"] for run in runs]))
    slowest = {n: typical([run["launches"][n] for run in runs]) for n in list(SMALL)[1:]}
    name = max(slowest, key=lambda n: slowest[n])
    return Outcome(slowest[name], note=f"that of {name}")


def _each(
    name: str, goal: float, make: Callable[[int], tuple[Call, Call]], threads: tuple[int, ...]
) -> list[Bench]:
    return [
        Bench(
            f"triton/{name}, {n} thread{'s' * (n > 1)}",
            "torch",
            "ms",
            Goal(goal),
            functools.partial(_torch, make=make, threads=n),
        )
        for n in threads
    ]


ROWS = [
    *_each("add 2^24 fp32", 0.95, _add_pair, (1, 2)),
    Bench("triton/add 98432 fp32", "NumPy", "us", Goal(0.8), _numpy),
    Bench("triton/add 98432 fp32", "Triton's interpreter", "us", Goal(5000), _interpreted),
    *_each("softmax 1823x781", 0.95, _softmax_pair, (1, 2)),
    *_each("layer norm 1151x8192, results given", 2.0, _layer_norm_pair, (1, 2)),
    Bench(
        "triton/layer norm 1151x8192, both allocate in kept memory, 1 thread",
        "torch",
        "ms",
        Goal(),
        _layer_norm_kept,
    ),
]
for _blocks in ((64, 64, 32), (128, 128, 64)):
    _text = "x".join(map(str, _blocks))
    _make = functools.partial(_matmul_pair, dtype="float32", blocks=_blocks)
    ROWS += _each(f"matmul fp32 {SIZE}, {_text}", 0.95, _make, (1, 2))
for _short, _dtype in (("fp16", "float16"), ("bf16", "bfloat16")):
    ROWS.append(
        Bench(
            f"triton/matmul {_short} {SIZE}, 64x64x32",
            "our fp32",
            "ms",
            Goal(0.9),
            functools.partial(_fp32, dtype=_dtype),
        )
    )
    _make = functools.partial(_matmul_pair, dtype=_dtype, blocks=(64, 64, 32))
    if (
        _short == "fp16" or not has_bf16_unit()
    ):  # torch with an instruction for bf16: the native rows
        ROWS += _each(f"matmul {_short} {SIZE}, 64x64x32", 40.0, _make, (1,))
for _blocks in ((64, 64, 32), (128, 128, 64)) if has_bf16_unit() else ():
    _text = "x".join(map(str, _blocks))
    _make = functools.partial(_native_pair, blocks=_blocks)
    ROWS += _each(f"matmul bf16 native {SIZE}, {_text}", 0.95, _make, (1, 2))
ROWS += [
    Bench("triton/launch of nothing, 4 tensors", "-", "us", Goal(at_most=10.0), _launch),
    Bench("triton/cold compile of add", "-", "s", Goal(at_most=1.0), partial(cold, name="add")),
    Bench(
        "triton/cold compile of matmul", "-", "s", Goal(at_most=2.0), partial(cold, name="matmul")
    ),
    Bench(
        "triton/import and first known kernel",
        "-",
        "s",
        Goal(at_most=0.7),
        partial(_known, further=False),
    ),
    Bench(
        "triton/slowest further known kernel",
        "-",
        "ms",
        Goal(at_most=20.0),
        partial(_known, further=True),
    ),
]

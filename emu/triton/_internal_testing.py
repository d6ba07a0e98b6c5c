"""Helpers of tests of kernels, which tests of Triton and of libraries import from ``triton._internal_testing``.

The questions about devices (``is_cuda``, ``is_hopper``, …) have the answers of the emulated one; those about
what kernels may use (``supports_tma``) those of emu, whose kernels may use it on every device.

It needs torch and, for what makes marks and fixtures, pytest.
"""

from __future__ import annotations

import contextlib
import contextvars
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from emu.triton import knobs
from emu.triton._utils import type_canonicalisation_dict
from emu.triton.active import driver
from emu.triton.language import types
from emu.triton.runtime.arguments import Tensor
from emu.triton.runtime.driver import GPUTarget
from emu.triton.runtime.tensors import TensorWrapper, reinterpret

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["uint8", "uint16", "uint32", "uint64"]
integral_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
float_dtypes_with_bfloat16 = [*float_dtypes, "bfloat16"]
dtypes = integral_dtypes + float_dtypes
dtypes_with_bfloat16 = [*dtypes, "bfloat16"]
torch_float8_dtypes = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes = ["bool", *int_dtypes, "uint8", *float_dtypes, "bfloat16"]
tma_dtypes = sorted(set(dtypes_with_bfloat16) - {"int64", "uint64", "float64"})

_BF16_BITS = np.uint32(0xFFFF0000)
_warming_up: contextvars.ContextVar[bool] = contextvars.ContextVar("warming_up", default=False)


def _torch() -> Any:
    import torch

    return torch


# ---- the device


def is_interpreter() -> bool:
    """Return whether kernels are interpreted: ``TRITON_INTERPRET=1``."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def is_compile_warmup() -> bool:
    """Return whether a test is only compiled; never so here."""
    return _warming_up.get()


def get_current_target() -> GPUTarget | None:
    """Return the target of kernels; None where they are interpreted."""
    return None if is_interpreter() else driver.active.get_current_target()


def _is_backend(name: str) -> bool:
    target = get_current_target()
    return target is not None and target.backend == name


def _capability() -> tuple[int, int]:
    """Return the compute capability of the emulated GPU, (0, 0) of other devices."""
    return divmod(int(driver.active.get_current_target().arch), 10) if is_cuda() else (0, 0)


def _is_gfx(*prefixes: str) -> bool:
    target = get_current_target()
    return target is not None and target.backend == "hip" and str(target.arch).startswith(prefixes)


def is_cuda() -> bool:
    """Return whether the device is a GPU of NVIDIA's, which the emulated one is to programs."""
    return _is_backend("cuda")


def is_hip() -> bool:
    """Return whether the device is a GPU of AMD's."""
    return _is_backend("hip")


def is_xpu() -> bool:
    """Return whether the device is a GPU of Intel's."""
    return _is_backend("xpu")


def is_ampere_or_newer() -> bool:
    """Return whether the device has compute capability 8 or higher."""
    return _capability()[0] >= 8


def is_hopper() -> bool:
    """Return whether the device has compute capability 9."""
    return _capability()[0] == 9


def is_hopper_or_newer() -> bool:
    """Return whether the device has compute capability 9 or higher."""
    return _capability()[0] >= 9


def is_blackwell() -> bool:
    """Return whether the device has compute capability 10 or 11."""
    return _capability()[0] in (10, 11)


def is_blackwell_ultra() -> bool:
    """Return whether the device has compute capability 10.3."""
    return _capability() == (10, 3)


def is_rubin() -> bool:
    """Return whether the device has compute capability 10.7."""
    return _capability() == (10, 7)


def is_sm12x() -> bool:
    """Return whether the device has compute capability 12."""
    return _capability()[0] == 12


def is_hip_cdna2() -> bool:
    """Return whether the device is a gfx90a."""
    return _is_gfx("gfx90a")


def is_hip_cdna3() -> bool:
    """Return whether the device is a gfx942."""
    return _is_gfx("gfx942")


def is_hip_cdna4() -> bool:
    """Return whether the device is a gfx950."""
    return _is_gfx("gfx950")


def is_hip_cdna3_or_newer() -> bool:
    """Return whether the device is a gfx942 or gfx950."""
    return _is_gfx("gfx942", "gfx950")


def is_hip_cdna() -> bool:
    """Return whether the device is a gfx90a, gfx942 or gfx950."""
    return _is_gfx("gfx90a", "gfx942", "gfx950")


def is_hip_rdna3() -> bool:
    """Return whether the device is a gfx110x or gfx115x."""
    return _is_gfx("gfx110", "gfx115")


def is_hip_rdna4m() -> bool:
    """Return whether the device is a gfx117x."""
    return _is_gfx("gfx117")


def is_hip_rdna4() -> bool:
    """Return whether the device is a gfx120x."""
    return _is_gfx("gfx120")


def is_hip_rdna() -> bool:
    """Return whether the device is one of the RDNA generations 3 and 4."""
    return _is_gfx("gfx110", "gfx115", "gfx117", "gfx120")


def is_hip_gfx1250() -> bool:
    """Return whether the device is a gfx1250."""
    return _is_gfx("gfx1250")


def get_hip_lds_size() -> int:
    """Return the size of the local memory of AMD's GPUs in bytes."""
    return 160 << 10 if is_hip_cdna4() else 64 << 10


def supports_tma(byval_only: bool = False) -> bool:
    """Return True: kernels here may use tensor descriptors on every device."""
    del byval_only
    return True


def supports_ws() -> bool:
    """Return whether the device has warps that can be specialised: not without compute capability 9."""
    return is_interpreter() or is_hopper_or_newer()


def supports_clc() -> bool:
    """Return whether the device can hand out programs while a kernel runs: compute capability 10."""
    return _capability()[0] >= 10


def tma_skip_msg(byval_only: bool = False) -> str:
    """Return the reason of a test that is skipped as the device has no tensor descriptors."""
    return f"needs tensor descriptors{' that are passed by value' if byval_only else ''}"


def __getattr__(name: str) -> Any:
    # Made on demand: libraries import this module in programs that have no pytest.
    if name == "requires_tma":
        import pytest

        return pytest.mark.skipif(not supports_tma(), reason=tma_skip_msg())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ---- numbers and tensors


def random_int(low: int, high: int, *, warmup_value: int | None = None, **kwargs: Any) -> int:
    """Return a random integer in [``low``, ``high``), of torch's generator.

    Args:
        low: Least value.
        high: Bound.
        warmup_value: What is returned where a test is only compiled.
        **kwargs: Further arguments of ``torch.randint``.
    """
    if is_compile_warmup():
        return low if warmup_value is None else warmup_value
    return int(_torch().randint(low, high, size=(), **kwargs).item())


def random_float(*, warmup_value: float = 0.5, **kwargs: Any) -> float:
    """Return a random number in [0, 1), of torch's generator.

    Args:
        warmup_value: What is returned where a test is only compiled.
        **kwargs: Further arguments of ``torch.rand``.
    """
    return warmup_value if is_compile_warmup() else float(_torch().rand((), **kwargs).item())


def numpy_random(
    shape: int | Sequence[int],
    dtype_str: str,
    rs: np.random.RandomState | None = None,
    low: int | None = None,
    high: int | None = None,
) -> Array:
    """Return an array of random numbers.

    Integers are never 0, so that tests may divide by them. Floats of 8 bits are given as int8, bf16 as the
    fp32 numbers that it holds.

    Args:
        shape: Its shape, or its length.
        dtype_str: Name of the dtype.
        rs: Generator. Default: one with a fixed seed, so that equal calls give equal arrays.
        low: Least integer. Default: that of the dtype.
        high: Bound of the integers. Default: the greatest of the dtype.

    Raises:
        RuntimeError: There is no such dtype.
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    generator = np.random.RandomState(seed=17) if rs is None else rs
    if dtype_str in integral_dtypes:
        bounds = np.iinfo(dtype_str)
        least = bounds.min if low is None else max(low, bounds.min)
        bound = bounds.max if high is None else min(high, bounds.max)
        found: Array = generator.randint(least, bound, extents, dtype=np.dtype(dtype_str).type)
        found[found == 0] = 1
        return found
    if "float8" in dtype_str:
        return generator.randint(20, 40, extents, dtype=np.int8)
    if dtype_str not in (*float_dtypes_with_bfloat16, "bool", "int1", "bool_"):
        raise RuntimeError(f"dtype_str must be a dtype of kernels, but got {dtype_str!r}")
    normal = generator.normal(0, 1, extents)
    if dtype_str in float_dtypes:
        return normal.astype(dtype_str)
    if dtype_str == "bfloat16":
        return (normal.astype(np.float32).view(np.uint32) & _BF16_BITS).view(np.float32)
    return np.asarray(normal > 0)


def to_triton(x: Array, device: object, dst_type: str | None = None) -> Tensor:
    """Return a tensor with an array's elements; torch's dtype, or reinterpreted where torch lacks it.

    Args:
        x: The array.
        device: Device of the tensor.
        dst_type: ``bfloat16`` for fp32 numbers, a ``float8…`` for bytes. Default: the array's.
    """
    torch = _torch()
    name = x.dtype.name
    if name in uint_dtypes:
        signed = torch.tensor(x.astype(name.removeprefix("u")), device=device)
        return reinterpret(signed, str_to_triton_dtype(name))
    made = torch.tensor(x, device=device)
    if dst_type and "float8" in dst_type:
        return reinterpret(made, str_to_triton_dtype(dst_type))
    return made.bfloat16() if name == "float32" and dst_type == "bfloat16" else made


def to_numpy(x: Tensor | TensorWrapper) -> Array:
    """Return the elements of a tensor as an array, of bf16 as fp32, of 8-bit floats as bytes.

    Raises:
        ValueError: ``x`` is not a tensor.
    """
    torch = _torch()
    found: Array
    if isinstance(x, TensorWrapper):
        found, name = x.base.cpu().numpy(), torch_dtype_name(x.dtype)
        if not name.startswith("fp8"):  # NumPy lacks those: their bytes
            found = found.astype(name)
    elif isinstance(x, torch.Tensor):
        host = x.cpu()
        found = (host.float() if x.dtype is torch.bfloat16 else host).numpy()
    else:
        raise ValueError(  # noqa: TRY004 - the class that Triton's raises
            f"x must be a tensor, but got {type(x).__name__} {x!r:.60}"
        )
    return found


def str_to_triton_dtype(x: str) -> Any:
    """Return the dtype of the language for a name.

    Raises:
        KeyError: There is no such dtype.
    """
    return types.str_to_ty(type_canonicalisation_dict[x])


def torch_dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of torch or of the language.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(dtype, types.dtype):
        return dtype.name
    if isinstance(dtype, _torch().dtype):
        return str(dtype).removeprefix("torch.")
    raise TypeError(
        f"dtype must be one of torch or triton.language, but got {type(dtype).__name__}"
    )


def default_alloc_fn(size: int, align: int, _: object) -> Tensor:
    """Allocate bytes on the emulated GPU; an argument of ``triton.set_allocator``."""
    torch = _torch()
    return torch.empty(size, dtype=torch.int8, device="cuda")


def unwrap_tensor(t: Tensor | TensorWrapper) -> Tensor:
    """Return the tensor of a wrapper, or the tensor itself."""
    return t.base if isinstance(t, TensorWrapper) else t


# ---- tests in processes of their own


@dataclass
class ProcessResult:
    """Outcome of a function that ran in another process.

    Attributes:
        exc: The exception that ended it, or None.
        driver_stderr_output: What the process wrote to its standard error.
    """

    exc: BaseException | None
    driver_stderr_output: str


def _run_child(
    pipe: Any,
    call: tuple[Callable[..., object], Sequence[object], Mapping[str, object]],
    env: Mapping[str, str] | None,
    stderr: str,
) -> None:
    os.environ.update(env or {})
    with open(stderr, "wb") as file:
        os.dup2(file.fileno(), 2)  # of native code, too
    error = None
    try:
        call[0](*call[1], **call[2])
    except Exception as raised:  # noqa: BLE001 - the caller gets it
        error = raised
    sys.stderr.flush()
    pipe.send(error)


class _Processes:
    """Pool of processes; each call has a fresh one, as a failure of a kernel may end it."""

    def run(
        self,
        client_fn: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ProcessResult:
        """Run a function in another process; see :func:`run_in_process`."""
        return run_in_process(client_fn, args, kwargs, env)

    def start(self) -> None:
        """Return: processes start when they are needed."""

    def close(self) -> None:
        """Return: no process outlives its call."""


@contextlib.contextmanager
def use_process_pool(preload_module: str) -> Iterator[_Processes]:
    """Give :func:`run_in_process` a pool; here each call has a process of its own all the same."""
    del preload_module
    yield _Processes()


def _timeout() -> float | None:
    text = os.environ.get("TRITON_TEST_PROCESS_TIMEOUT")
    return None if text is None else float(text)


def run_in_process(
    client_fn: Callable[..., object],
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
) -> ProcessResult:
    """Run a function in another process.

    With ``DISABLE_SUBPROCESS`` set it runs in this one, and its exceptions are raised.

    Args:
        client_fn: The function, of a module that can be imported.
        args: Its arguments.
        kwargs: Its arguments by name.
        env: Variables of the environment to set.

    Raises:
        RuntimeError: The process ended without a result.
        TimeoutError: It took longer than the seconds in ``TRITON_TEST_PROCESS_TIMEOUT``.
    """
    if os.environ.get("DISABLE_SUBPROCESS"):
        client_fn(*args, **(kwargs or {}))
        return ProcessResult(None, "")
    # Forked: the emulation that `emu run` set up is there in the child.
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        stderr = os.path.join(folder, "stderr")
        call = (client_fn, tuple(args), dict(kwargs or {}))
        child = context.Process(target=_run_child, args=(sending, call, env, stderr), daemon=True)
        child.start()
        sending.close()
        try:
            if not receiving.poll(_timeout()):
                raise TimeoutError(f"{client_fn.__name__} took longer than {_timeout()} s")
            error = receiving.recv()
            child.join()
        except EOFError:
            child.join()
            said = _read(stderr)
            raise RuntimeError(
                f"the process of {client_fn.__name__} ended with exit code {child.exitcode} and gave "
                f"no result; it wrote: {said[-500:]}"
            ) from None
        finally:
            if child.is_alive():
                child.kill()
            child.join()
            receiving.close()
        return ProcessResult(error, _read(stderr))


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


# ---- settings


def _fresh_knobs_impl(
    skipped_attr: set[str] | None = None,
) -> tuple[Callable[[], ModuleType], Callable[[], None]]:
    """Return two functions: one resets all settings and returns ``triton.knobs``, one undoes it.

    Args:
        skipped_attr: Names of groups that keep their settings.
    """
    import pytest

    patch = pytest.MonkeyPatch()
    groups = {
        name: group
        for name, group in vars(knobs).items()
        if isinstance(group, knobs.base_knobs) and name not in (skipped_attr or ())
    }
    keys = [k.key for group in groups.values() for k in group.knob_descriptors.values()]
    propagated = knobs.propagate_env
    unset = [key for key in keys if key not in os.environ]

    def fresh() -> ModuleType:
        for name, group in groups.items():
            setattr(knobs, name, group.copy().reset())
        for key in keys:
            patch.delenv(key, raising=False)
        knobs.propagate_env = True
        return knobs

    def reset() -> None:
        for name, group in groups.items():
            setattr(knobs, name, group)
        patch.undo()
        for key in unset:
            os.environ.pop(key, None)
        knobs.propagate_env = propagated

    return fresh, reset

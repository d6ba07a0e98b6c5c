"""Environment of this process: the variables that the package reads, and its cores.

Each variable is read in this module and nowhere else, when it is needed, so that a program may still set it.
One that is empty counts as unset only where its function says so.

Importing this loads nothing: the fork server reads :data:`THREAD_VARIABLES` before it loads NumPy.

Internal: names may change in any release.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # without loading typing
if TYPE_CHECKING:
    from collections.abc import Mapping

    from emu.kernels.core.device_models import DeviceModel

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""Thread counts of numerical libraries. PEs set them to 1: more thread pools only compete for the cores."""


def cache_folder() -> str | None:
    """Return ``EMU_CACHE_DIR``, the folder of compiled kernels; None if it is unset or empty."""
    return os.environ.get("EMU_CACHE_DIR") or None


def user_cache_folder() -> str | None:
    """Return ``XDG_CACHE_HOME``; None unless it is an absolute path, as its definition demands."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    return folder if os.path.isabs(folder) else None


def cpu_code() -> str:
    """Return ``EMU_CPU_CODE``, choices of code generation for the CPU; empty if it is unset."""
    return os.environ.get("EMU_CPU_CODE", "")


def device_count() -> int | None:
    """Return ``EMU_DEVICES``, the number of devices of each type that a PE sees; None if it is unset.

    Raises:
        ValueError: It is not a whole number of at least 1.
    """
    return _count("EMU_DEVICES")


def is_one_of_several() -> bool:
    """Return whether ``WORLD_SIZE`` says that this process is one of several that will make a group."""
    text = os.environ.get("WORLD_SIZE", "")
    return text.isdecimal() and int(text) > 1


def cuda_capability() -> tuple[int, int]:
    """Return the compute capability that emulated GPUs report.

    That is ``EMU_CUDA_CAPABILITY``, else that of the model that they answer as, else (8, 0).

    Raises:
        ValueError: It is not two whole numbers with a point between them, such as 9.0, or there is no such model.
    """
    text = os.environ.get("EMU_CUDA_CAPABILITY")
    if not text:
        model = device_model()
        # Without one: the oldest that has what programs test for: bf16, asynchronous copies.
        return (8, 0) if model is None else model.capability
    major, point, minor = text.partition(".")
    if not (major.isdecimal() and point and minor.isdecimal() and len(minor) == 1):
        raise ValueError(f"EMU_CUDA_CAPABILITY must be a number such as 9.0, but got {text!r}")
    return int(major), int(minor)


def device_model() -> DeviceModel | None:
    """Return ``EMU_DEVICE_MODEL``, the GPU that emulated CUDA devices answer as; None if it is unset or empty.

    Raises:
        ValueError: There is no such model.
    """
    name = os.environ.get("EMU_DEVICE_MODEL")
    if not name:
        return None
    from emu.kernels.core import device_models

    try:
        return device_models.find(name)
    except ValueError as error:
        raise ValueError(f"EMU_DEVICE_MODEL {error}") from None


def thread_count() -> int | None:
    """Return ``EMU_THREADS``, the number of threads of a Triton launch; None if it is unset.

    Raises:
        ValueError: It is not a whole number of at least 1.
    """
    return _count("EMU_THREADS")


def numba_thread_count() -> int | None:
    """Return ``NUMBA_NUM_THREADS`` (1 in a PE); None if it is unset or not a positive number."""
    text = os.environ.get("NUMBA_NUM_THREADS", "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def triton_backend() -> str | None:
    """Return ``EMU_TRITON_BACKEND``, the backend of Triton kernels; None if it is unset."""
    return os.environ.get("EMU_TRITON_BACKEND")


def pypto_backend() -> str | None:
    """Return ``EMU_PYPTO_BACKEND``, what computes local ops of PyPTO; None if it is unset or empty."""
    return os.environ.get("EMU_PYPTO_BACKEND") or None


def interpreted_program() -> tuple[int, int, int] | None:
    """Return ``EMU_INTERPRET_PROGRAM``, the one program that interpreted kernels run; None if it is unset.

    Raises:
        ValueError: It is not one to three whole numbers with commas between them.
    """
    text = os.environ.get("EMU_INTERPRET_PROGRAM")
    return program_number(text) if text else None


def program_number(text: str) -> tuple[int, int, int]:
    """Return the number of a program, as ``3`` or ``3,0`` say it; axes that are not said are 0.

    Raises:
        ValueError: It is not one to three whole numbers with commas between them.
    """
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        raise ValueError(
            f"the program must be one to three whole numbers, such as 3,0, but got {text!r}"
        )
    x, y, z = (*map(int, parts), 0, 0)[:3]
    return x, y, z


def interpreter_prints_elements() -> bool:
    """Return whether ``EMU_INTERPRET_PRINT`` is ``elements``: ``device_print`` prints a line an element.

    Raises:
        ValueError: It is neither that nor ``tensor``.
    """
    text = os.environ.get("EMU_INTERPRET_PRINT") or "tensor"
    if text not in ("tensor", "elements"):
        raise ValueError(f"EMU_INTERPRET_PRINT must be 'tensor' or 'elements', but got {text!r}")
    return text == "elements"


def check() -> str | None:
    """Return ``EMU_CHECK``, what is checked as programs run; None if it is unset or empty."""
    return os.environ.get("EMU_CHECK") or None


def checks_streams() -> bool:
    """Return whether ``EMU_CHECK`` names ``streams``: work on streams that nothing orders is an error."""
    text = check()
    return text is not None and "streams" in [name.strip() for name in text.split(",")]


def autotune() -> str | None:
    """Return ``EMU_AUTOTUNE``, which configurations autotuned kernels take; None if it is unset or empty."""
    return os.environ.get("EMU_AUTOTUNE") or None


def memory_model() -> str | None:
    """Return ``EMU_MEMORY_MODEL``, what programs may count on; None if it is unset or empty."""
    return os.environ.get("EMU_MEMORY_MODEL") or None


def program_order() -> int:
    """Return ``EMU_PROGRAM_ORDER``, the seed of the order in which programs of a grid run; 0 if it is unset or empty.

    Raises:
        ValueError: It is no whole number.
    """
    text = os.environ.get("EMU_PROGRAM_ORDER") or "0"
    if not text.isdecimal():
        raise ValueError(f"EMU_PROGRAM_ORDER must be a whole number, but got {text!r}")
    return int(text)


def link() -> str | None:
    """Return ``EMU_LINK``, the emulated link of Worlds that no launch has made; None if it is unset or empty."""
    return os.environ.get("EMU_LINK") or None


def world_timeout() -> str | None:
    """Return ``EMU_TIMEOUT``, the time-out of Worlds that no launch has made; None if it is unset or empty."""
    return os.environ.get("EMU_TIMEOUT") or None


def ranks_per_node() -> int | None:
    """Return ``EMU_RANKS_PER_NODE``, how many PEs make up a node; None if it is unset: all do.

    Raises:
        ValueError: It is not a whole number of at least 1.
    """
    return _count("EMU_RANKS_PER_NODE")


def trace_records() -> int | None:
    """Return ``EMU_TRACE_RING``, the number of events of a PE that wait for the launcher of a traced run; None if it is unset.

    Raises:
        ValueError: It is not a whole number of at least 1.
    """
    return _count("EMU_TRACE_RING")


def fault() -> str | None:
    """Return ``EMU_FAULT``, what goes wrong in this process's launches on purpose; None if it is unset or empty."""
    return os.environ.get("EMU_FAULT") or None


def is_traced() -> bool:
    """Return whether ``EMU_TRACED`` is set: the run that this process belongs to is recorded, whoever has started it."""
    return bool(os.environ.get("EMU_TRACED"))


def of_pes() -> dict[str, str]:
    """Return the environment that PEs get: this process's, without the faults of its launches."""
    return {name: value for name, value in os.environ.items() if name != "EMU_FAULT"}


def poison() -> bool:
    """Return whether ``EMU_POISON`` is 1: ``torch.empty`` on emulated devices is filled with NaN, or 0xA5."""
    return os.environ.get("EMU_POISON") == "1"


def red_zones() -> bool:
    """Return whether ``EMU_RED_ZONES`` is not 0: writes just outside of tensors are looked for."""
    return os.environ.get("EMU_RED_ZONES") != "0"


def is_portable() -> bool:
    """Return whether ``EMU_FORCE_PORTABLE`` is 1: nothing is used that only Linux has."""
    return os.environ.get("EMU_FORCE_PORTABLE") == "1"


def pass_on(variables: Mapping[str, str]) -> None:
    """Set variables, for what reads them later in this process and in those that it starts."""
    os.environ.update(variables)


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _count(name: str) -> int | None:
    text = os.environ.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, but got {text!r}")
    return int(text)

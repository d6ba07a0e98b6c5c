"""Options of a launch, besides the kernel's own arguments.

``apply_input_precision``, ``check``, ``debug``, ``num_threads``, ``backend``, ``interpret`` and ``enable_fp_fusion``
have an effect; the others are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.comm.pe_environment import when_set
from emu.kernels.core import environment, shadows
from emu.tile.counting.state import Counting, note_missed
from emu.triton import knobs
from emu.triton.formats import FORMATS
from emu.triton.runtime import backends, check_modes
from emu.triton.suggestions import suggestion

_PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")

DEFAULT_WARPS = 4
IGNORED: dict[str, object] = {
    "num_warps": DEFAULT_WARPS,
    "num_stages": 3,
    "num_ctas": 1,
    "maxnreg": None,
    "minnreg": None,
    "cluster_dims": (1, 1, 1),
    "ctas_per_cga": None,
    "preferred_ctas_per_cga": None,
    "warp_size": 32,
    "ptx_version": None,
    "ptx_options": None,
    "ir_override": None,
    "enable_fp_fusion": False,
    "enable_reflect_ftz": True,
    "launch_cooperative_grid": False,
    "launch_cluster": False,
    "clc": False,
    "launch_pdl": False,
    "supported_fp8_dtypes": tuple(f.name for f in FORMATS if f.is_float and f.bits == 8),
    "deprecated_fp8_dot_operand_dtypes": (),
    "allow_fp8e4nv": True,
    "default_dot_input_precision": "ieee",
    "allowed_dot_input_precisions": _PRECISIONS,
    "max_num_imprecise_acc_default": 0,
    "extern_libs": None,
    "backend_name": "cpu",
    "sanitize_overflow": True,
    "arch": None,
    "instrumentation_mode": "",
    "waves_per_eu": 0,
    "matrix_instr_nonkdim": 0,
    "kpack": 1,
    "schedule_hint": "none",
    "allow_flush_denorm": False,
    "num_buffers_warp_spec": 0,
    "num_consumer_groups": 0,
    "reg_dec_producer": 0,
    "reg_inc_consumer": 0,
    "minRegAutoWS": 24,
    "maxRegAutoWS": 152,
    "enable_warp_specialization": False,
    "optimize_epilogue": False,
    "multibuffer": False,
    "unit_flag": False,
    "enable_auto_bind_sub_block": False,
    "grf_mode": "default",
}
"""Options for devices with warps, and their defaults in a compiled kernel's metadata.

They are accepted and change nothing, as an instance of the kernel runs on one thread of the host; except
``enable_fp_fusion=True``, which lets ``a * b + c`` be rounded once, and ``num_warps`` in kernels that ask for it.
"""

USED = frozenset(("apply_input_precision", "debug", "num_threads", "backend", "check", "interpret"))
DEFAULT_BACKEND = "cpu"


def check(kernel: str, options: dict[str, object], parameters: Sequence[str] = ()) -> None:
    """Check the options of a launch.

    Args:
        kernel: The kernel's name, for errors.
        options: By name.
        parameters: Names of the kernel's parameters, one of which may have been meant.

    Raises:
        TypeError: There is no such option, or the kernel has no such parameter.
        ValueError: A value is out of bounds.
    """
    for name in options:
        if name not in IGNORED and name not in USED:
            near = suggestion(name, (*parameters, *IGNORED, *USED))
            rule = (
                "it must be a parameter of the kernel or an option "
                f"({', '.join(sorted(USED))}, num_warps, num_stages and others)"
            )
            raise TypeError(
                f"{kernel}() got an unexpected keyword argument {name!r}{near or f': {rule}'}"
            )
    for name, check_value in _CHECKS.items():
        if name in options:
            check_value(options[name])


def _check_threads(threads: object) -> None:
    if threads is not None and (type(threads) is not int or threads < 1):
        raise ValueError(f"num_threads must be an int of at least 1, but got {threads!r}")


class WarpCountError(ValueError, AssertionError):
    """Error for a number of warps that no GPU has; an AssertionError too, as in Triton."""


def _check_warps(warps: object) -> None:
    if not isinstance(warps, int) or warps < 1 or warps & (warps - 1):
        raise WarpCountError(f"num_warps must be a power of 2, but got {warps!r}")


def _check_ctas(count: object) -> None:
    if count is None:
        return
    if type(count) is not int or count < 1:
        raise ValueError(f"num_ctas must be an int of at least 1, but got {count!r:.60}")
    arch = str(knobs.runtime.override_arch or "")
    if count > 1 and arch.startswith("sm") and arch[2:].isdigit() and int(arch[2:]) < 90:
        # Nothing here depends on it; but who names a GPU wants to know what it lacks.
        raise ValueError(
            f"num_ctas > 1 requires NVIDIA SM90+ (Hopper), but got {count} and override_arch {arch!r}"
        )


def _check_input_precision(apply: object) -> None:
    if apply is not None and apply is not False and apply is not True:
        raise TypeError(
            f"apply_input_precision must be a bool, but got {type(apply).__name__} {apply!r:.60}"
        )


def _check_debug(debug: object) -> None:
    if debug is not None and debug is not False and debug is not True:
        raise TypeError(f"debug must be a bool, but got {type(debug).__name__} {debug!r:.60}")


def _check_backend(backend: object) -> None:
    if backend is not None and (not isinstance(backend, str) or backend not in backends.names()):
        raise ValueError(f"backend must be one of {backends.names()}, but got {backend!r}")


def _check_interpret(interpret: object) -> None:
    if interpret is not None and interpret is not False and interpret is not True:
        raise TypeError(
            f"interpret must be a bool, but got {type(interpret).__name__} {interpret!r:.60}"
        )


def _check_check(check: object) -> None:
    check_modes.as_mode(check)


@when_set
def _read_check() -> None:
    """Take the checks of the launch of PEs, where Triton was loaded before this process became one."""
    knobs.runtime_knobs.check = environment.check()


def check_of(given: object, default: object) -> str | None:
    """Return what a launch checks: its option, else the kernel's setting, else that of the knob.

    Args:
        given: Value of the option ``check``; None if there is none, False for no check.
        default: Setting of the kernel, likewise.

    Raises:
        ValueError: There is no such check.
    """
    for found in (given, default, knobs.runtime.check):
        if found is not None:
            mode = check_modes.as_mode(found)
            if check_modes.has_uninit(mode) and not shadows.are_kept():
                shadows.keep()
            if check_modes.has_streams(mode):
                _check_streams()
            return mode
    return None


def _switch_counting(begins: bool) -> None:
    """Let launches be counted from now on, or no more.

    Raises:
        ValueError: Kernels are checked, or interpreted.
    """
    runtime = knobs.runtime
    if not begins:
        runtime.check = None
        return
    if runtime.check not in (None, check_modes.COUNT):
        raise ValueError(
            f"knobs.runtime.check must be None while launches are counted, but got {runtime.check!r:.60}"
        )
    if runtime.interpret:
        raise ValueError(
            "knobs.runtime.interpret must be False while launches are counted, but got True"
        )
    runtime.check = check_modes.COUNT


Counting.switches.append(_switch_counting)


def check_of_launch(given: object, default: object) -> str | None:
    """Return what a launch checks, as :func:`check_of`; one without checks is counted where launches are."""
    found = check_of(given, default)
    counts = knobs.runtime.check == check_modes.COUNT
    if counts and found not in (None, check_modes.COUNT):
        note_missed(f"launches with check={found!r}")
    return check_modes.COUNT if counts and found is None else found


def _check_streams() -> None:
    """Let the order of streams be checked from now on, if torch has emulated devices."""
    import emu.accelerator

    if emu.accelerator.installed():
        from emu.accelerator import stream_check

        stream_check.start()


def checked_by(backend: str, given: object) -> str | None:
    """Return what the kernels of a backend check, as the option of a launch says it.

    Raises:
        ValueError: There is no such check, or the backend has none.
    """
    check = check_of(given, False)
    if check == check_modes.COUNT and backends.find(backend).takes_device_tensors:
        raise ValueError(
            f"backend must be one whose kernels can be counted, 'cpu' or 'reference', but got {backend!r}"
        )
    if check is not None and backends.find(backend).takes_device_tensors:
        raise ValueError(f"check must be None or False with backend={backend!r}, but got {check!r}")
    return check


_CHECKS: dict[str, Callable[[object], None]] = {
    "num_threads": _check_threads,
    "num_warps": _check_warps,
    "num_ctas": _check_ctas,
    "apply_input_precision": _check_input_precision,
    "debug": _check_debug,
    "backend": _check_backend,
    "interpret": _check_interpret,
    "check": _check_check,
}


def input_precision_of(options: dict[str, object]) -> str | None:
    """Return the default of ``dot`` where a launch applies ``input_precision``; None where it does not.

    Raises:
        ValueError: ``TRITON_F32_DEFAULT`` is not a precision.
    """
    apply = options.get("apply_input_precision")
    if apply is None:
        apply = knobs.language.apply_input_precision
    if not apply:
        return None
    default = knobs.language.fp32_default or "tf32"
    if default not in _PRECISIONS:
        raise ValueError(f"TRITON_F32_DEFAULT must be one of {_PRECISIONS}, but got {default!r}")
    return default


def warps_of(options: dict[str, object]) -> int:
    """Return the number of warps that a launch gives, or the default."""
    given = options.get("num_warps")
    return given if isinstance(given, int) else DEFAULT_WARPS


def backend_of(options: dict[str, object]) -> str:
    """Return the backend of a launch: the option's, the environment's, or ``"cpu"``.

    Raises:
        ValueError: The environment names an unknown backend.
    """
    given = options.get("backend")
    if given is not None:
        return str(given)
    backend = environment.triton_backend()
    if backend is None:
        return DEFAULT_BACKEND
    if backend not in backends.names():
        raise ValueError(
            f"EMU_TRITON_BACKEND must be one of {backends.names()}, but got {backend!r}"
        )
    return backend


def threads_of(options: dict[str, object]) -> int:
    """Return the number of threads that a launch may use.

    That is the option ``num_threads``, else the environment's ``EMU_THREADS``, else in a PE one (the
    other cores have PEs of their own), else as many as there are cores.

    Raises:
        ValueError: ``EMU_THREADS`` is not an integer of at least 1.
    """
    given = options.get("num_threads")
    if isinstance(given, int):
        return given
    return (
        environment.thread_count()
        or environment.numba_thread_count()  # one in a PE; the same setting elsewhere
        or environment.usable_cores()
    )

"""CPUs that rows can be measured for: our code is compiled for one, and the peers are limited to its instructions.

This machine must have the instructions; what differs from the real CPU is the rest: cores, caches, clock.
The settings are variables of the environment that are read when a library is loaded, so they are set before
any is.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

_AVX2 = ("sse4.2", "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "popcnt", "lzcnt", "movbe")
_AVX512 = (*_AVX2, "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
_ICE_LAKE = (
    *_AVX512,
    *("avx512vnni", "avx512vbmi", "avx512vbmi2", "avx512ifma", "avx512bitalg", "avx512vpopcntdq"),
)
_BF16 = (*_ICE_LAKE, "avx512bf16")
_AMX = (*_BF16, "avx512fp16", "amx-tile", "amx-int8", "amx-bf16")

_WITHOUT_AVX512 = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4",
}
_FIRST_AVX512 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "XLA_FLAGS": "--xla_cpu_max_isa=AVX512"}
_WITHOUT_BF16 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}
_WITHOUT_AMX = {
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX512_BF16",
}

_LINUX_NAMES = {
    "sse4.2": "sse4_2",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "avx512vnni": "avx512_vnni",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}
"""Features whose name in /proc/cpuinfo is not LLVM's."""


@dataclass(frozen=True)
class Cpu:
    """A CPU that code is compiled for.

    Attributes:
        features: LLVM's names of the instructions that our code may use.
        openblas: The name of its kernels in OpenBLAS.
        limits: Variables that limit the other peers.
    """

    features: tuple[str, ...]
    openblas: str
    limits: dict[str, str]

    def variables(self, name: str) -> dict[str, str]:
        """Return the variables of the environment that compile and limit, for the CPU of that LLVM name."""
        features = ",".join(f"+{feature}" for feature in self.features)
        ours = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
        return {**ours, "OPENBLAS_CORETYPE": self.openblas, **self.limits}


CPUS = {
    "x86-64-v3": Cpu(_AVX2, "Haswell", _WITHOUT_AVX512),
    "haswell": Cpu(_AVX2, "Haswell", _WITHOUT_AVX512),
    "skylake": Cpu(_AVX2, "Haswell", _WITHOUT_AVX512),
    "alderlake": Cpu(_AVX2, "Haswell", _WITHOUT_AVX512),
    "znver1": Cpu(_AVX2, "Zen", _WITHOUT_AVX512),
    "znver2": Cpu(_AVX2, "Zen", _WITHOUT_AVX512),
    "znver3": Cpu(_AVX2, "Zen", _WITHOUT_AVX512),
    "x86-64-v4": Cpu(_AVX512, "SkylakeX", _FIRST_AVX512),
    "skylake-avx512": Cpu(_AVX512, "SkylakeX", _FIRST_AVX512),
    "icelake-server": Cpu(_ICE_LAKE, "SkylakeX", _WITHOUT_BF16),
    "cooperlake": Cpu(_BF16, "Cooperlake", _WITHOUT_AMX),
    "znver4": Cpu(_BF16, "Cooperlake", _WITHOUT_AMX),
    "sapphirerapids": Cpu(_AMX, "SapphireRapids", {}),
}
"""By LLVM's name. One without AMX on a machine that has it: the peers do without it too."""


class CpuError(ValueError):
    """A CPU that is not known, or whose instructions this machine lacks."""


def use(name: str) -> None:
    """Have this process and those that it starts compile for a CPU, and limit their libraries.

    Raises:
        CpuError: It is not known, or this machine cannot run code for it. Nothing is changed then.
    """
    if name not in CPUS:
        raise CpuError(f"--cpu must be one of {', '.join(CPUS)}, but is {name!r}")
    missing = [f for f in CPUS[name].features if _LINUX_NAMES.get(f, f) not in machine_flags()]
    if missing:
        raise CpuError(
            f"--cpu {name} must be a CPU whose code this machine can run, but it lacks {', '.join(missing)}"
        )
    os.environ.update(CPUS[name].variables(name))


def machine_flags() -> frozenset[str]:
    """Return the names of this machine's instructions, as Linux gives them; empty where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(
        next((li.partition(":")[2] for li in lines if li.startswith("flags")), "").split()
    )


def machine_name() -> str:
    """Return what this machine's CPU is called: LLVM's name of it, or the machine's."""
    try:
        from llvmlite import binding
    except ImportError:
        return platform.machine()
    return str(binding.get_host_cpu_name())

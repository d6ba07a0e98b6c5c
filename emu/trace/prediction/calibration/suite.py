"""The micro-kernels: what each computes and moves is known from its arguments.

A family is one Triton kernel; a case is a family with arguments. Each case is ruled by one thing: the launch, the start of programs, memory, the cache, or a unit.

Internal: names may change in any release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.work import Traffic, Work

BLOCK = 1024
"""Elements of a program's tile."""


@dataclass(frozen=True)
class Case:
    """A micro-kernel with its arguments.

    Attributes:
        family: ``empty``, ``copy``, ``reread``, ``fma``, ``exp``, ``dot``, ``chain``.
        dtype: Of what it computes.
        programs: Number of programs.
        rounds: How often a program's loop runs.
        work: What it computes and moves.
    """

    family: str
    dtype: str
    programs: int
    rounds: int
    work: Work

    @property
    def name(self) -> str:
        """A name that no other case has."""
        return f"{self.family} {self.dtype} {self.programs} x {self.rounds}"


def cases(device: Device) -> tuple[Case, ...]:
    """Return the micro-kernels for a device of so many multiprocessors, 62 of them."""
    return tuple(_cases(int(device["sms"])))


def _cases(sms: int) -> Iterator[Case]:
    for programs in (1, sms, 4 * sms, 16 * sms, 64 * sms, 256 * sms):
        yield Case("empty", "f32", programs, 0, Work(programs=programs))
    for mib in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        programs = mib * 2**20 // (4 * BLOCK)
        nbytes = 4.0 * BLOCK * programs
        yield Case(
            "copy",
            "f32",
            programs,
            1,
            Work(programs=programs, tensors=(Traffic(nbytes, nbytes), Traffic(nbytes, nbytes))),
        )
    for rounds in (64, 128, 256, 512, 1024, 2048, 4096, 8192):
        # All programs read the same 16 tiles again and again.
        total = 4.0 * BLOCK * rounds * 8 * sms
        yield Case(
            "reread",
            "f32",
            8 * sms,
            rounds,
            Work(programs=8 * sms, tensors=(Traffic(total, 4.0 * BLOCK * 16),)),
        )
    for rounds in (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536):
        flops = 2.0 * BLOCK * rounds * 4 * sms
        yield Case("fma", "f32", 4 * sms, rounds, Work(programs=4 * sms, vector={"f32": flops}))
    for rounds in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768):
        count = 1.0 * BLOCK * rounds * 4 * sms
        yield Case("exp", "f32", 4 * sms, rounds, Work(programs=4 * sms, special=count))
    for dtype in ("f16", "bf16"):
        for rounds in (64, 128, 256, 512, 1024, 2048, 4096):
            flops = 2.0 * 128 * 128 * 64 * rounds * 2 * sms
            yield Case("dot", dtype, 2 * sms, rounds, Work(programs=2 * sms, dot={dtype: flops}))
    for rounds in (64, 128, 256, 512, 1024, 2048, 4096, 8192):
        yield Case("chain", "f32", sms, rounds, Work(programs=sms, ops=float(rounds)))

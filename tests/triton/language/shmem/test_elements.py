"""Elements of other PEs: by loads and stores on one host, by calls only where a World spans hosts."""

from __future__ import annotations

import dataclasses

import emu.triton.language as tl
from emu import shmem, triton
from emu.comm.sync.kernel_numbers import OVER_HOSTS
from emu.triton.runtime.build import Request


@triton.jit
def kernel(heap, out, pe, n: tl.constexpr):
    i = tl.arange(0, n)
    shmem.store(heap + i, i, pe)
    tl.store(out + i, shmem.load(heap + i, pe) + shmem.atomic_add(heap + i, 1, pe))
    shmem.reduce(heap, heap, n)


def request(*, over_hosts: bool) -> Request:
    signature = {"heap": "*i32", "out": "*i32", "pe": "i32", "n": "constexpr"}
    plain = Request(kernel, dict(signature), {"n": 16}, False, "cpu")  # type: ignore[arg-type]
    assert not plain.over_hosts  # this process is no PE
    return dataclasses.replace(plain, over_hosts=over_hosts)


def calls_of(made: Request) -> set[str]:
    found = (o.attributes.get("what") for o in made.module().kernel.body.walk())
    return {str(what) for what in found} & OVER_HOSTS


def test_on_one_host_no_call_is_made_for_elements() -> None:
    assert calls_of(request(over_hosts=False)) == set()
    assert calls_of(request(over_hosts=True)) == OVER_HOSTS


def test_a_kernel_for_several_hosts_is_another_one() -> None:
    one, several = request(over_hosts=False), request(over_hosts=True)
    assert one.key() != several.key()
    assert one.digest() != several.digest()

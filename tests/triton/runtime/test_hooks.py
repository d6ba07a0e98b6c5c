"""What hooks learn of a launch and of a kernel that becomes ready."""

import gc

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.runtime import hooks
from emu.triton.runtime.compiled import LaunchMetadata


def told(grid, metadata, arguments):
    return {"grid": grid, "warps": metadata.num_warps, "value": arguments["value"]}


@triton.jit(launch_metadata=told)
def described(x_ptr, value, n: tl.constexpr = 4):
    tl.store(x_ptr + tl.program_id(0), value)


def test_a_kernels_own_facts_reach_the_hooks_of_its_launches():
    seen = []
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.launch_enter_hook = lambda facts: seen.append(facts.get())
        compiled = described[(2, 1, 1)](np.zeros(2), 7, num_warps=8)
        compiled[(1,)](np.zeros(2), 9)
    assert [(s["grid"], s["warps"], s["value"]) for s in seen] == [
        ((2, 1, 1), 8, 7),
        ((1, 1, 1), 8, 9),
    ]
    assert seen[0]["name"] == "described"


def test_facts_are_worked_out_only_where_they_are_asked_for():
    calls = []
    facts = LaunchMetadata({"a": 1})
    facts.add(lambda x: calls.append(x) or {"b": x}, (2,))
    assert calls == []
    assert facts.get() == {"a": 1, "b": 2} == facts.get()
    assert calls == [2]


def test_hooks_are_called_when_a_kernel_becomes_ready_and_when_it_is_freed():
    @triton.jit
    def loaded(x_ptr):
        tl.store(x_ptr, 1)

    seen = []

    def note(what):
        def hook(module, function, name, group, hash):
            if name == "loaded":  # kernels of other tests are freed meanwhile
                seen.append((what, module is None, name, hash))

        return hook

    chains = triton.knobs.runtime
    pairs = [
        (chains.kernel_load_start_hook, note("start")),
        (chains.kernel_load_end_hook, note("end")),
        (chains.kernel_unload_hook, note("unload")),
    ]
    gc.collect()  # a kernel of another test, whose backend is there no more, has nothing to tell a hook
    for chain, hook in pairs:
        chain.add(hook)
    try:
        compiled = loaded.warmup(np.zeros(1), grid=(1,))
        assert seen == []
        loaded[(1,)](np.zeros(1))
        loaded[(1,)](np.zeros(1))
        digest = compiled.hash
        assert seen == [("start", True, "loaded", digest), ("end", False, "loaded", digest)]
        del compiled
        loaded.device_caches.clear()
        gc.collect()
        assert seen[2:] == [("unload", False, "loaded", digest)]
    finally:
        for chain, hook in pairs:
            chain.remove(hook)


def test_one_table_serves_all_devices():
    forgotten = []
    table = hooks.KernelTable(lambda: forgotten.append(1))
    caches = hooks.DeviceCaches(described, table)
    assert list(caches) == []
    table[3] = None
    assert caches[0][0] is caches[1][0] is table
    assert len(caches) == len(list(caches)) == 1
    caches.clear()
    assert (len(table), forgotten) == (0, [1])


def test_constants_survive_as_text():
    functions = {"m:f": described}
    assert hooks.from_json([1, [2.5, {"dtype": "fp16"}], {"jit_function": "m:f"}], functions) == (
        1,
        (2.5, tl.float16),
        described,
    )
    with pytest.raises(RuntimeError, match="must name known kernels, but has m:g"):
        hooks.from_json({"jit_function": "m:g"}, functions)

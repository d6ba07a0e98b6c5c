"""Wrong arguments to everything public: a clear error that changes nothing, or a call that was good after all."""

from __future__ import annotations

import inspect
import operator
import resource
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import Fuzzer, Report, Target
from pypto_targets import add_language
from variants import thorough

import emu
import emu.pypto as p
from emu.pypto import distributed as d
from emu.pypto import testing
from emu.pypto.context import CONTEXT

N_PES = 3
MEMORY = 6 << 30
"""Address space that the fuzzed process may use beyond what it has: sizes asked for by chance must not hurt."""

NO_CALLS = {
    *(name for name in p.__all__ if name.startswith("DT_")),
    *(
        "DYNAMIC",
        "SymInt",
        "ShmemTensor",
        "DataType",
        "AtomicType",
        "OpType",
        "SymbolicScalar",
    ),  # constants, or made by others
    *("distributed", "experimental", "frontend"),  # modules
    *("ArgumentError", "DTypeError", "GraphError", "GroupError", "KernelError", "PyptoError"),
    *("PyptoWarning", "TileShapeError"),
}
PLAIN = {
    "__init__",
    "__repr__",
    "__bool__",
    "__new__",
    "__hash__",
    "__array__",
    "__get__",
    "__enter__",
    "__exit__",
}
"""Methods without arguments, and those that Python calls with its own."""


@p.frontend.jit
def kernel(
    x: p.Tensor([p.DYNAMIC, 8], p.DT_FP32), out: p.Tensor([4, 8], p.DT_FP32), *, scale=1
) -> None:
    out[:, :] = p.add(x, 1.0)


class Kit:
    """What the targets use, and what an error must leave as it was."""

    def __init__(self) -> None:
        p.set_vec_tile_shapes(4, 8)
        self.data = d.create_shmem_tensor("tp", N_PES, p.DT_FP32, [8, 16])
        self.words = d.create_shmem_tensor("tp", N_PES, p.DT_INT32, [4, 4])
        self.signals = d.create_shmem_signal("tp", N_PES)
        self.slots, _ = self.data.slots(None, None, "")
        self.word = self.data.memory.barrier_word()
        self.out = p.zeros([4, 8])
        self.counts = p.zeros([4, 8], p.DT_INT32)
        self.schedule = "program"
        self.reset()

    def reset(self) -> None:
        """Undo what good calls may have done."""
        CONTEXT.graph._give_up(CONTEXT.graph.scope)
        CONTEXT.graph.scope.open = 0
        self.data.memory.last_barrier = self.words.memory.last_barrier = None
        self.signals.memory.last_barrier = None
        CONTEXT.group_sizes.clear()
        CONTEXT.group_sizes["tp"] = N_PES
        p.set_vec_tile_shapes(4, 8)
        CONTEXT.cube_tile = ()
        p.set_options(allow_mixed_add=False)
        p.set_schedule("random" if self.schedule == "random" else "program", 3)
        for memory in (self.data.memory.data, self.words.memory.data, self.slots, self.word):
            for pe in range(N_PES):
                memory.on(pe)[...] = 0
        for t in (self.out, self.counts):
            t.array[...] = 0
            t.buffer.pending.clear()
        if self.schedule == "behind a wait":
            d.shmem_wait_until(self.signals, 1, 12345)

    def state(self) -> Any:
        """Return what errors must not change."""
        ledger = self.data.memory.group.segment.allocations
        arrays = (self.data.memory.data, self.words.memory.data, self.slots, self.word)
        return (
            [a.on(pe).tobytes() for a in arrays for pe in range(N_PES)],
            [w.local.tobytes() for w in self.signals.memory.all_slots()],
            self.out.array.tobytes(),
            self.counts.array.tobytes(),
            int(ledger["used"].sum()),
            int(ledger["refs"].sum()),
            (CONTEXT.vec_tile, CONTEXT.cube_tile, dict(CONTEXT.group_sizes)),
            (
                CONTEXT.graph.pending,
                CONTEXT.graph.scope,
                CONTEXT.graph.scope.open,
                CONTEXT.graph.idle,
                CONTEXT.graph.scope.rng is None,
            ),
            (
                len(CONTEXT.graph.scope.at_end),
                CONTEXT.graph.scope.allow_mixed_add,
                CONTEXT.kernel_depth,
            ),
            (CONTEXT.settings.schedule, CONTEXT.settings.seed, CONTEXT.settings.allow_mixed_add),
            [memory.created for memory in CONTEXT.lifetimes.values()],
        )

    def x(self, shape=(4, 8), dtype=p.DT_FP32) -> p.Tensor:
        return p.from_numpy(
            (np.arange(np.prod(shape)) % 5 + 1).reshape(shape).astype(dtype.np_dtype)
        )

    def extra(self) -> Iterator[Any]:
        """Make values of the room's own types."""
        x = self.x()
        yield from (
            x,
            self.x((8,)),
            self.x((2, 2, 2)),
            self.x((1,) * 6),
            p.zeros([0, 8]),
            p.zeros([]),
            p.zeros([4, 1]),
        )
        yield from (self.x(dtype=kind) for kind in p.DataType)
        yield from (
            self.data,
            self.words,
            self.signals,
            d.COMPLETE,
            [x],
            [d.COMPLETE],
            (x, x),
            [self.data],
        )
        yield p.view(x, [2, 8], [0, 0], valid_shape=[0, 8])
        yield p.view(x, [4, 8], [3, 3], valid_shape=[1, 2])
        yield from (p.SymbolicScalar(1), p.SymbolicScalar(-1), [p.SymbolicScalar(2), 2], p.DYNAMIC)
        yield from (
            *p.DataType,
            p.AtomicType.ADD,
            p.OpType.GE,
            p.Tensor([4, 8]),
            kernel,
            p.jit,
            p.set_options,
        )
        yield from (
            [2, 4],
            [4, 8],
            [0, 0],
            [1, 1],
            (7, 15),
            [8, 16],
            [1 << 20, 1 << 20],
            [1 << 40],
            [-1, 8],
            [[4], [8]],
        )
        yield from (
            np.broadcast_to(np.float32(1), (4, 8)),
            np.ones((4, 8), np.float32),
            np.matrix([[1.0]]),
        )


def targets(kit: Kit) -> list[Target]:
    """Return a target for every public function and method, and how it is called well."""
    made: list[Target] = []

    def add(
        name: str,
        function: Callable[..., Any],
        /,
        *positional: str,
        also=None,
        keep=(),
        **values: Any,
    ) -> None:
        """Add a target; ``values`` are made anew for each call where they are lambdas."""

        def arguments() -> dict[str, Any]:
            kit.reset()
            fresh = {k for k, v in values.items() if getattr(v, "__name__", "") == "<lambda>"}
            return {k: v() if k in fresh else v for k, v in values.items()}

        made.append(
            Target(
                name=name,
                function=function,
                arguments=arguments,
                positional=positional,
                also=also or {},
                keep=frozenset(keep),
            )
        )

    _add_distributed(add, kit)
    _add_elementwise(add, kit)
    add_language(add, kit.x)
    _add_shapes(add, kit)
    _add_tensors(add, kit)
    _add_language(add, kit)
    return made


def _add_distributed(add: Any, kit: Kit) -> None:
    x = kit.x
    size = {"src": ("extent there", "axes of src")}
    for module in ("distributed", "experimental"):
        for name in ("shmem_put", "shmem_store"):
            add(
                f"{module}.{name}", getattr(getattr(p, module), name),
                src=lambda: x(), offsets=[1, 2], dst=kit.data, dst_pe=1, put_op=p.AtomicType.SET, pred=[d.COMPLETE],
            )  # fmt: skip
        for name in ("shmem_get", "shmem_load"):
            add(
                f"{module}.{name}", getattr(getattr(p, module), name),
                src=kit.data, src_pe=1, shape=[4, 8], offsets=[1, 2], valid_shape=[3, 8], pred=[d.COMPLETE], also=size,
            )  # fmt: skip
    add(
        "distributed.shmem_signal", d.shmem_signal,
        src=kit.data, src_pe=0, signal=3, shape=[8, 16], offsets=[0, 0], target_pe=2, sig_op=p.AtomicType.ADD,
        pred=[d.COMPLETE], also=size,
    )  # fmt: skip
    add(
        "distributed.shmem_signal of signals",
        d.shmem_signal,
        src=kit.signals,
        src_pe=0,
        signal=3,
        target_pe=-1,
    )
    add(
        "distributed.shmem_wait_until", d.shmem_wait_until,
        src=kit.data, src_pe=0, cmp_value=0, shape=[8, 16], offsets=[0, 0], cmp=p.OpType.EQ, clear_signal=True,
        pred=[d.COMPLETE], also=size,
    )  # fmt: skip
    add("distributed.shmem_barrier_all", d.shmem_barrier_all, src=kit.data, pred=[d.COMPLETE])
    add(
        "distributed.shmem_clear_data",
        d.shmem_clear_data,
        src=kit.data,
        shape=[2, 2],
        offsets=[1, 1],
        pred=[d.COMPLETE],
        also=size,
    )
    add("distributed.shmem_clear_signal", d.shmem_clear_signal, src=kit.data, pred=[d.COMPLETE])
    add(
        "distributed.shmem_view",
        d.shmem_view,
        src=kit.data,
        shape=[4, 4],
        offsets=[1, 1],
        valid_shape=[2, 4],
        also=size,
    )
    add("distributed.my_symbolic_pe", d.my_symbolic_pe, group_name="tp")
    add("distributed.create_shmem_signal", d.create_shmem_signal, group_name="tp", n_pes=N_PES)
    add(
        "distributed.create_shmem_tensor", d.create_shmem_tensor,
        group_name="tp", n_pes=N_PES, dtype=p.DT_BF16, shape=[4, 4],
    )  # fmt: skip


def _add_elementwise(add: Any, kit: Kit) -> None:
    x = kit.x
    both = {"a": ("operand 0", "number"), "b": ("operand 1", "operand 0", "number")}
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "eq",
        "ne",
        "gt",
        "ge",
        "lt",
        "le",
    ):
        words = {k: (*v, f"{name}:", f"{name} needs") for k, v in both.items()}
        add(name, getattr(p, name), a=lambda: x(), b=lambda: x(), also=words)
        add(f"{name} of a number", getattr(p, name), a=lambda: x(), b=2.0, also=words)
        add(f"{name} of integers", getattr(p, name), a=3, b=lambda: x(dtype=p.DT_INT8), also=words)
    for name in ("exp", "log", "sqrt", "rsqrt", "sigmoid", "abs", "neg"):
        add(name, getattr(p, name), a=lambda: x(), also={"a": ("operand 0", f"{name} needs")})
    add("cast", p.cast, a=lambda: x(), dtype=p.DT_INT8, mode="floor", saturate=False)
    add(
        "where", p.where, condition=lambda: x(dtype=p.DT_BOOL), a=lambda: x(), b=1.0,
        also={"a": ("operand 0", "where:"), "b": ("operand 1", "where:"), "condition": ("where:",)},
    )  # fmt: skip
    add(
        "matmul", p.matmul, a=lambda: x((4, 8)), b=lambda: x((8, 2)), out_dtype=p.DT_FP16, a_trans=False, b_trans=False, precision="exact",
        bias=lambda: x((2,)), accumulate=lambda: x((4, 2), p.DT_FP16),
        also={
            **dict.fromkeys(("a_trans", "b_trans"), ("k,",)),
            **dict.fromkeys(("a", "b", "out_dtype", "accumulate"), ("bias", "accumulate", "shape of the result")),
        },
    )  # fmt: skip
    for name in ("sum", "amax", "amin"):
        add(
            name,
            getattr(p, name),
            a=lambda: x(),
            dim=1,
            keepdim=True,
            also={"a": (f"{name} needs", "dim must")},
        )
    add("softmax", p.softmax, a=lambda: x(), dim=-1, also={"a": ("softmax needs", "dim must")})
    add("cumsum", p.cumsum, a=lambda: x(), dim=0, also={"a": ("cumsum needs", "dim must")})
    add(
        "topk",
        p.topk,
        a=lambda: x(),
        k=3,
        dim=-1,
        largest=True,
        also={"a": ("dim must", "k must", "topk needs"), "dim": ("k must",)},
    )


def _add_shapes(add: Any, kit: Kit) -> None:
    x = kit.x
    add("full", p.full, shape=[4, 8], value=2, dtype=p.DT_INT16, name="t")
    add("zeros", p.zeros, shape=[4, 8], dtype=p.DT_FP32, name="t")
    add("ones", p.ones, shape=[4, 8], dtype=p.DT_BF16, name="t")
    bounds = ("bound", "arange must")
    add("arange", p.arange, "start", "stop", "step", start=1, stop=9, step=2, dtype=p.DT_INT32,
        also=dict.fromkeys(("start", "stop", "step"), bounds))  # fmt: skip
    add(
        "reshape",
        p.reshape,
        a=lambda: x(),
        shape=[8, -1],
        valid_shape=[8, 3],
        also={"a": ("shape must",)},
    )
    add("transpose", p.transpose, a=lambda: x(), dim0=0, dim1=-1, also={"a": ("dim0", "dim1")})
    add("concat", p.concat, tensors=lambda: [x(), x()], dim=0, also={"tensors": ("dim must",)})
    add(
        "gather",
        p.gather,
        a=lambda: x(),
        dim=1,
        index=lambda: x((2, 3), p.DT_INT64),
        also={"a": ("index", "dim must"), "dim": ("index",)},
    )
    add(
        "one_hot",
        p.one_hot,
        a=lambda: x((4,), p.DT_INT32),
        num_classes=5,
        also={"a": ("one_hot needs",), "num_classes": ("shape of the result",)},
    )


def _add_tensors(add: Any, kit: Kit) -> None:
    x = kit.x
    add("tensor", p.tensor, shape=[2, 3], dtype=p.DT_FP32, name="t")
    add(
        "from_numpy",
        p.from_numpy,
        array=lambda: np.ones((2, 3), np.float32),
        name="t",
        also={"array": ("dtype of",)},
    )
    add("view", p.view, t=lambda: x(), shape=[2, 3], offsets=[1, 1], valid_shape=[2, 2])
    add("assemble", p.assemble, src=lambda: x((2, 3)), offsets=[1, 2], dst=lambda: kit.out)
    add("Tensor", p.Tensor, shape=[4, p.DYNAMIC], dtype=p.DT_FP32, name="x")
    add("TensorSpec", p.TensorSpec, shape=[4, p.DYNAMIC], dtype=p.DT_FP32, name="x")
    add("TensorSpec.check", p.Tensor([4, 8], p.DT_FP32).check, value=lambda: x(), argument="x", keep=["argument"],
        also={"value": ("x must",)})  # fmt: skip
    add("Tensor.view", lambda shape, offsets=None, *, valid_shape=None: x().view(shape, offsets, valid_shape=valid_shape),
        shape=[2, 3], offsets=[1, 1], valid_shape=[2, 2])  # fmt: skip
    add("Tensor.reshape", lambda shape: x().reshape(shape), shape=[8, 4])
    add("Tensor.transpose", lambda dim0, dim1: x().transpose(dim0, dim1), dim0=0, dim1=1)
    for name in ("numpy", "dim", "dense"):
        add(f"Tensor.{name}", lambda t, name=name: getattr(t, name)(), t=lambda: x(), keep=["t"])
    index = ("index", "slice", "view", "shape[", "dst", "offsets[", "valid", "assigned", "t[i, j]")
    add(
        "Tensor.__getitem__",
        lambda key: x()[key],
        key=lambda: (slice(0, 2), slice(1, 3)),
        also={"key": index},
    )
    add(
        "Tensor.__getitem__ of an element",
        lambda key: x(dtype=p.DT_INT32)[key],
        key=(1, 2),
        also={"key": index},
    )
    add("Tensor.__setitem__", lambda key, value: operator.setitem(kit.out, key, value),
        key=lambda: (slice(0, 2), slice(1, 3)), value=lambda: x((2, 2)), also={"key": index, "value": (*index, "src", "array", "dtype")})  # fmt: skip
    add("Tensor.__setitem__ of an element", lambda key, value: operator.setitem(kit.counts, key, value),
        key=(1, 2), value=7, also={"key": index, "value": (*index, "src", "array", "dtype")})  # fmt: skip
    for name in (
        "add",
        "radd",
        "sub",
        "rsub",
        "mul",
        "rmul",
        "truediv",
        "rtruediv",
        "gt",
        "ge",
        "lt",
        "le",
    ):
        method = getattr(p.Tensor, f"__{name}__")
        words = {"other": ("operand", "number", f"{name}:", "div:", f"{name[1:]}:", "div needs")}
        add(
            f"Tensor.__{name}__",
            lambda other, method=method: method(x(), other),
            other=lambda: x(),
            also=words,
        )
    for name in ("neg", "abs"):
        add(
            f"Tensor.__{name}__",
            lambda t, name=name: getattr(operator, name)(t),
            t=lambda: x(),
            keep=["t"],
        )


def _add_language(add: Any, kit: Kit) -> None:
    add(
        "set_vec_tile_shapes",
        p.set_vec_tile_shapes,
        "t0",
        "t1",
        t0=4,
        t1=8,
        also={"t0": ("extent 0",), "t1": ("extent 1",)},
    )
    add("set_cube_tile_shapes", p.set_cube_tile_shapes, m=[16, 16], k=[16, 16], n=[16, 16])
    add("get_vec_tile_shapes", p.get_vec_tile_shapes)
    add("get_cube_tile_shapes", p.get_cube_tile_shapes)
    add("set_schedule", p.set_schedule, schedule="random", seed=3)
    add("set_options", p.set_options, allow_mixed_add=True, precision="native")
    add("synchronize", p.synchronize)
    add("cond", p.cond, condition=True)
    bound = dict.fromkeys(("start", "stop", "step"), ("of loop",))
    add("loop", lambda *b, **o: [i for i, _ in zip(p.loop(*b, **o), range(9), strict=False)], "start", "stop", "step",
        start=1, stop=9, step=2, name="l", idx_name="i", unroll=2, unroll_list=[1, 2], also=bound)  # fmt: skip
    plain = kernel._function
    for name, jit in (("jit", p.jit), ("frontend.jit", p.frontend.jit)):
        add(f"{name} of a function", jit, "function", function=plain)
        add(
            name,
            lambda jit=jit, **o: jit(**o)(plain),
            schedule="random",
            seed=4,
            allow_mixed_add=True,
        )
    add(
        "Kernel.__call__",
        kernel,
        x=lambda: np.ones((4, 8), np.float32),
        out=lambda: np.zeros((4, 8), np.float32),
        scale=2,
    )
    add("options", lambda **o: p.options(**o)(plain), pass_options={}, name="k")
    add("options.__call__", p.options(name="k"), function=plain)
    for name in ("min", "max"):
        add(f"SymbolicScalar.{name}", getattr(p.SymbolicScalar(3), name), other=4)
    add("testing.random_array", testing.random_array, seed=3, shape=[2, 3], dtype=p.DT_FP16)
    add("testing.tolerance", testing.tolerance, dtype=p.DT_FP16, n_pes=2)
    add("testing.assert_close", testing.assert_close, actual=lambda: np.ones(3, np.float32), expected=lambda: np.ones(3), n_pes=2,
        also=dict.fromkeys(("actual", "expected"), ("shape must", "relative error")))  # fmt: skip
    for name in ("add", "sub", "mul", "floordiv", "mod", "truediv"):
        for method in (f"__{name}__", f"__r{name}__"):
            add(f"SymbolicScalar.{method}", getattr(p.SymbolicScalar(6), method), "other", other=3,
                also={"other": ("symbolic scalar", "divi")})  # fmt: skip
    for name in ("neg", "pos", "abs"):
        add(f"SymbolicScalar.__{name}__", getattr(p.SymbolicScalar(6), f"__{name}__"))


def fuzz(seed: int, calls: int, schedule: str) -> Report | None:
    """Fuzz on PE 0; the others only lend their memory."""
    if emu.world().my_pe:
        return None
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, resource.RLIM_INFINITY))
    warnings.simplefilter("ignore", p.PyptoWarning)
    kit = Kit()
    kit.schedule = schedule

    found = targets(kit)
    if schedule == "behind a wait":
        found = [target for target in found if target.name != "synchronize"]
    else:
        found = _drained(found)
    fuzzer = Fuzzer(
        found, (p.PyptoError, AssertionError), seed=seed, state=kit.state, extra=kit.extra
    )
    report = fuzzer.run(calls)
    kit.schedule = "program"
    kit.reset()
    return report


def _drained(found: list[Target]) -> list[Target]:
    """Have ops that a schedule has put off run within the call, but for waits, which would not end."""

    def drain(target: Target) -> Target:
        if target.name.startswith(("distributed.shmem_wait", "distributed.shmem_barrier")):
            return target

        def function(*args: Any, **kwargs: Any) -> Any:
            result = target.function(*args, **kwargs)
            p.synchronize()
            return result

        function.__signature__ = inspect.signature(target.function)  # type: ignore[attr-defined]
        return Target(**{**vars(target), "function": function})

    return [drain(target) for target in found]


def run_fuzz(seed: int, calls: int, schedule: str) -> Report:
    report = emu.launch(fuzz, N_PES, args=(seed, calls, schedule), heap_size=1 << 28, timeout=60)[0]
    assert report is not None
    return report


@pytest.mark.parametrize("schedule", thorough(["program", "random", "behind a wait"], "random"))
def test_wrong_arguments_end_in_clear_errors(schedule: str) -> None:
    run_fuzz(20261122, 5000, schedule).check()


def _methods(cls: type) -> set[str]:
    return {
        name
        for name, member in vars(cls).items()
        if callable(member)
        and (not name.startswith("_") or (name not in PLAIN and name.startswith("__")))
    }


def names_of_targets() -> list[str]:
    return [target.name for target in targets(Kit())] if emu.world().my_pe == 0 else []


def test_every_public_function_and_method_is_fuzzed() -> None:
    found = set(emu.launch(names_of_targets, N_PES)[0])
    bare = {name.split(" of ")[0] for name in found}
    for module, prefix in ((p, ""), (d, "distributed."), (p.experimental, "experimental.")):
        public = {prefix + name for name in module.__all__ if name not in NO_CALLS}
        assert not public - bare, "a target is missing"
    for cls in (p.Tensor, p.TensorSpec, p.SymbolicScalar, p.jit(lambda: None).__class__, p.options):
        methods = {f"{cls.__name__}.{name}" for name in _methods(cls)}
        assert not methods - bare, "a target is missing"
    for name in ("random_array", "tolerance", "assert_close"):
        assert f"testing.{name}" in found

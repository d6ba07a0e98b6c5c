"""Wrong arguments of everything public in emu.mc2: an error that names them, and nothing is changed."""

from __future__ import annotations

import inspect
import os
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fuzzing import Fuzzer, Target

import emu
from emu import mc2
from emu.comm.errors import CommError
from emu.comm.server import words
from emu.comm.tiling import HcclCommand, HcclReduceOp, Mc2MsgV1, Version, make_mc2msg
from emu.comm.world.current import set_world
from emu.mc2 import HardwareLimits, Hccl, TileSplit

BF16 = np.dtype(ml_dtypes.bfloat16)
PROTOTYPES = Path(__file__).parents[2] / "examples" / "mc2" / "all_gather_matmul_custom.json"

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "0"))
"""Calls of each test; 0: as many as an ordinary run has time for."""

RECORDS = {
    "AlltoAllVGmmResult",
    "Comparison",
    "DispatchResult",
    "GmmAlltoAllVResult",
    "PrototypeWarning",
    "Span",
}
"""What the library makes and hands out: their fields are not arguments."""

Arguments = dict[str, Any]


class Surface:
    """The targets of one world, and what an error must leave as it was.

    Attributes:
        made: The arguments of the latest call as they were made, whose arrays errors must not change.
    """

    def __init__(self, group: Any) -> None:
        self.group = group
        self.n, self.me = group.n_pes, group.my_pe
        self.made: Arguments = {}
        self.rng = np.random.default_rng([7, self.me])
        self.kept = {
            dtype: group.alloc((16, 16), dtype) for dtype in (np.float16, np.int8, np.float32)
        }
        self.freed = group.alloc(5, np.float16)
        self.freed.free()
        self.hccl: Any = None

    # --- what is compared ------------------------------------------------------------------

    def state(self) -> Any:
        """Return the arrays handed over, this PE's heap, and what both ends of its server know."""
        given = [
            (name, value.tobytes() if isinstance(value, np.ndarray) else list(value))
            for name, value in sorted(self.made.items())
            if isinstance(value, (np.ndarray, list))
        ]
        server = self.group.server
        known = server and (
            server.in_use,
            server.prepared_turns,
            server._posted,
            server._areas.mine[words.POSTED : words.DECODED].tobytes(),
            server.launch_area.tobytes(),
        )
        handles = self.hccl and [(t.committed, t.waited) for t in self.hccl._tasks]
        return given, known, handles, self.heap()

    def heap(self) -> int:
        """Return a checksum of what is allocated, but for words of a server that falls asleep."""
        segment, layout = self.group.segment, self.group.segment.layout
        start = layout.heaps + self.group.world_pe(self.me) * layout.stride
        heap = segment.bytes[start : start + layout.stride]
        table = segment.allocations
        total = 0
        for entry in table[table["used"] == 1]:
            offset, nbytes = int(entry["offset"]), min(int(entry["nbytes"]), 1 << 16)
            skip = 64 if entry["key"] == b"=emu.server" else 0
            total = zlib.adler32(heap[offset + skip : offset + nbytes], total)
        return total

    def extra(self) -> list[Any]:
        """Return more values to put in the place of arguments."""
        half = self.kept[np.float16]
        return [
            half, half[3], half[:, ::2], self.kept[np.int8], self.kept[np.float32], self.freed,
            self.group, Hccl, HardwareLimits.A2, TileSplit(4, 2), HcclReduceOp.SUM, HcclReduceOp.PROD,
            HcclCommand.SEND, Version.V2, make_mc2msg("v2", n_tasks=1), make_mc2msg(turnNum=3),
            np.zeros((4, 6), BF16), np.full((4, 6), np.nan, np.float16), np.arange(4, dtype=np.int32),
            np.matrix("1 2; 3 4"), "world", "no such group", [HcclReduceOp.MAX], (1 << 62,) * 3,
        ]  # fmt: skip

    # --- targets ---------------------------------------------------------------------------

    def target(
        self, name: str, function: Callable[..., Any], make: Callable[[], Arguments], **more: Any
    ) -> Target:
        """Return a target whose arguments are kept, to see whether they are changed."""

        def arguments() -> Arguments:
            self.meet()
            self.made = make()
            return dict(self.made)

        return Target(name=name, function=function, arguments=arguments, **more)

    def meet(self) -> None:
        """Begin every call together, with nothing under way."""
        if self.hccl is not None and not self.hccl._closed:
            for handle, task in enumerate(self.hccl._tasks):
                while task.committed < task.repeat:
                    self.hccl.Commit(handle)
            self.hccl.Finalize()
        self.hccl = None
        self.group.barrier()

    def halves(self, *shape: int) -> Any:
        return self.rng.standard_normal(shape).astype(np.float16)

    def dense(self) -> list[Target]:
        """Operators of one product."""
        n, halves = self.n, self.halves
        trail: Arguments = {
            "group": None, "is_trans_a": False, "is_trans_b": False, "comm_turn": 2, "rank_size": n,
            "y_dtype": np.float16, "tile_rows": None, "limits": None, "tiling": None, "trace": [],
        }  # fmt: skip
        m, k, columns = 4 * n, 6, 3 * n
        reduced = {**trail, "reduce_op": "sum", "antiquant_scale": None, "antiquant_offset": None,
                   "antiquant_group_size": 0, "dequant_scale": None, "pertoken_scale": None}  # fmt: skip

        def whole(more: Arguments, **given: Any) -> Arguments:
            head = {"x1": halves(m, k), "x2": halves(k, columns), "bias": halves(columns)}
            return {**head, **more, "trace": [], **given}

        def weights() -> Arguments:
            scale = self.rng.random((2, columns)).astype(np.float32)
            return whole(
                reduced, x2=self.rng.integers(-9, 9, (k, columns)).astype(np.int8), y=halves(m, columns),
                antiquant_scale=scale, antiquant_offset=scale.copy(), antiquant_group_size=3,
            )  # fmt: skip

        def eights() -> Arguments:
            return whole(
                {**trail, "gather_index": 0, "is_gather_out": True},
                x1=np.ones((m, k), np.int8), x2=np.ones((k, columns), np.int8),
                bias=np.ones(columns, np.int32), x1_scale=np.ones(m, np.float32),
                x2_scale=np.ones(columns, np.float32), y=halves(m * n, columns),
                gather_out=np.zeros((m * n, k), np.int8),
            )  # fmt: skip

        scales = {"x1_scale": None, "x2_scale": None}
        # Where shapes do not fit together, either of two may be the wrong one.
        arrays = (
            "x1",
            "x2",
            "x3",
            "bias",
            "y must",
            "gather_out",
            "residual",
            "gamma",
            "norm_out",
            "scale",
        )
        also = {
            "tile_rows": ("comm_turn",), "comm_turn": ("tile_rows",), "is_trans_b": ("x2",),
            "limits": ("on A2",), "y_dtype": arrays, "x1": arrays, "x2": arrays,
        }  # fmt: skip
        return [
            self.target("all_gather_matmul", mc2.all_gather_matmul, eights, also=also),
            self.target(
                "matmul_reduce_scatter", mc2.matmul_reduce_scatter, also=also,
                make=lambda: whole({**trail, **scales, "reduce_op": "sum"}, y=halves(4, columns)),
            ),
            self.target("matmul_all_reduce", mc2.matmul_all_reduce, weights, also=also),
            self.target(
                "matmul_all_reduce (x3)", mc2.matmul_all_reduce, also=also,
                make=lambda: whole(reduced, x3=halves(m, columns), y=None),
            ),
            self.target(
                "matmul_all_reduce_add_rms_norm", mc2.matmul_all_reduce_add_rms_norm, also=also,
                make=lambda: whole(
                    reduced, residual=halves(m, columns), gamma=halves(columns), epsilon=1e-5,
                    y=halves(m, columns), norm_out=halves(m, columns),
                ),
            ),
            self.target(
                "all_to_all_matmul", mc2.all_to_all_matmul, also=also,
                make=lambda: whole(
                    {**trail, "x2_scale": None}, x2=halves(k * n, columns), y=halves(4, columns)
                ),
            ),
            self.target(
                "matmul_all_to_all", mc2.matmul_all_to_all, also=also,
                make=lambda: whole({**trail, **scales}, y=halves(m * n, 3)),
            ),
        ]  # fmt: skip

    def experts(self) -> list[Target]:
        """Operators of a mixture of experts: 2 experts a rank."""
        n, e, h, rows = self.n, 2, 4, 3

        def grouped(**more: Any) -> Arguments:
            total = n * e * rows
            return {
                "gmm_x": np.ones((total, h), np.int8), "gmm_weight": np.ones((e, h, 5), np.int8),
                "send_counts": np.full(n * e, rows), "recv_counts": np.full(n * e, rows), "group": None,
                "mm_x": self.halves(3, h), "mm_weight": self.halves(h, 2), "trans_gmm_weight": False,
                "trans_mm_weight": False, "comm_turn": 0, "gmm_x_scale": np.ones(total, np.float32),
                "gmm_weight_scale": np.ones((e, 5), np.float32), "mm_x_scale": None,
                "mm_weight_scale": None, "output_dtype": "float16", **more,
            }  # fmt: skip

        routing: Arguments = {
            "group": None, "moe_expert_num": n * e, "x_active_mask": np.ones(5, np.bool_), "global_bs": 0,
            "expert_shard_type": 0, "shared_expert_rank_num": 0, "group_tp": None, "tp_world_size": 0,
        }  # fmt: skip
        ids = np.array([[t % (n * e), (t + 1) % (n * e)] for t in range(5)], np.int32)

        def dispatched() -> Arguments:
            sent = mc2.moe_distribute_dispatch(
                self.halves(5, h), ids, moe_expert_num=n * e, x_active_mask=np.ones(5, np.bool_)
            )
            return {
                "expand_x": sent.expand_x, "expert_ids": ids.copy(), "expand_idx": sent.expand_idx,
                "ep_send_counts": sent.ep_recv_counts, "shared_expert_x": self.halves(5, h),
                "expert_scales": np.ones((5, 2), np.float32), **routing,
            }  # fmt: skip

        also = {
            "recv_counts": ("send_counts",), "send_counts": ("recv_counts",),
            "expert_ids": ("expand_idx", "moe_expert_num", "x_active_mask", "expert_scales"),
            "moe_expert_num": ("expert_ids", "expand_idx", "ep_send_counts", "scales"),
            "x_active_mask": ("expand_idx",), "mm_x": ("mm_weight",), "mm_weight": ("mm_x",),
            "gmm_x": ("gmm_weight", "gmm_x_scale", "send_counts", "output_dtype"), "x": ("scales",),
            "gmm_weight": ("gmm_weight_scale", "send_counts"), "quant_mode": ("scales",),
            "expand_x": ("shared_expert_x", "ep_send_counts"), "trans_gmm_weight": ("gmm_weight",),
            "trans_mm_weight": ("mm_weight",), "expand_idx": ("expert_ids",),
        }  # fmt: skip
        return [
            self.target(
                "alltoallv_gmm", mc2.alltoallv_gmm, lambda: grouped(permute_out=True), also=also
            ),
            self.target("gmm_alltoallv", mc2.gmm_alltoallv, grouped, also=also),
            self.target(
                "moe_distribute_dispatch", mc2.moe_distribute_dispatch, also=also,
                make=lambda: {
                    "x": self.halves(5, h), "expert_ids": ids.copy(), "quant_mode": 2,
                    "scales": np.ones((n * e, h), np.float32), "expert_token_nums_type": 1, **routing,
                },
            ),
            self.target(
                "moe_distribute_combine", mc2.moe_distribute_combine, dispatched, also=also
            ),
        ]  # fmt: skip

    def small(self) -> list[Target]:
        """What needs no other PE."""
        prototype = mc2.OperatorPrototype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = mc2.read_prototypes(PROTOTYPES)["AllGatherMatmulCustom"]
        x = np.ones((2, 3), np.float16)
        close = {"x": np.ones(4), "expected": np.ones(4), "tolerance": 0.005, "share": 0.5}
        values = [
            ("compare", mc2.compare, close),
            ("matches", mc2.matches, close),
            ("read_prototypes", mc2.read_prototypes, {"source": PROTOTYPES}),
            ("read_prototypes (text)", mc2.read_prototypes, {"source": '[{"op": "A", "attr": []}]'}),
            ("OperatorPrototype.index_of", known.index_of, {"name": "x1"}),
            (
                "OperatorPrototype.bind", known.bind,
                {"args": [x, x], "attrs": {"group": "world", "comm_turn": 1}},
            ),
            (
                "OperatorPrototype", prototype,
                {"name": "A", "inputs": known.inputs, "outputs": known.outputs,
                 "attributes": known.attributes},
            ),
            (
                "HardwareLimits", HardwareLimits,
                {"name": "B", "rank_sizes": (2, 4), "k_min": 1, "k_end": 9, "max_turns": 3},
            ),
            ("HardwareLimits.check", HardwareLimits.A2.check, {"k": 256, "n_pes": 2, "turns": 3}),
            ("TileSplit", TileSplit, {"tile": 3, "tiles": 2, "tail": 1, "tails": 1}),
            ("TileSplit.by_rows", TileSplit.by_rows, {"rows": 9, "tile": 4}),
            ("TileSplit.by_turns", TileSplit.by_turns, {"rows": 9, "turns": 4}),
            ("TileSplit.chosen", TileSplit.chosen, {"rows": 9, "turns": 4}),
        ]  # fmt: skip
        also = {
            "tile": ("tile_rows",), "turns": ("comm_turn",), "n_pes": ("rank_size",), "args": ("input",),
            "attrs": ("attribute",), "tail": ("tails",), "tails": ("tail",), "inputs": ("A",),
            "outputs": ("A",), "attributes": ("A",),
        }  # fmt: skip
        return [
            self.target(name, function, lambda given=given: dict(given), also=also)
            for name, function, given in values
        ]

    def api(self) -> list[Target]:
        """Methods of Hccl; each call has an Hccl of its own with a task of two turns, one committed."""
        n, one = self.n, np.float32
        size = 4 * n

        def opened(**given: Any) -> Callable[[], Arguments]:
            def make() -> Arguments:
                self.hccl = Hccl(window_bytes=1 << 20)
                send, recv = np.ones(size + 2, one), np.zeros(size + 2, one)
                self.hccl.AllReduce(send, recv, 3, repeat=2)
                self.hccl.Commit(0)
                while self.hccl.Query(0) == 0:  # nothing shall be under way
                    pass
                return {k: v() if callable(v) else v for k, v in given.items()}

            return make

        def call(name: str) -> Callable[..., Any]:
            return lambda *args, **kwargs: getattr(self.hccl, name)(*args, **kwargs)

        send: Any = lambda: self.halves(size)
        many = {"send": send, "recv": send, "dtype": "float16", "repeat": 1, "commit": True}
        spread = {**many, "strideCount": 4}
        varied = {
            "sendCounts": lambda: [4] * n, "sdispls": lambda: list(range(0, size, 4)),
            "recvCounts": lambda: [4] * n, "rdispls": lambda: list(range(0, size, 4)),
        }  # fmt: skip
        calls: dict[str, Arguments] = {
            "AllReduce": {**many, "count": 4, "op": HcclReduceOp.SUM},
            "AllGather": {**spread, "sendCount": 4},
            "ReduceScatter": {**spread, "recvCount": 4, "op": 0},
            "AlltoAll": {**spread, "dataCount": 4},
            "AlltoAllV": {**many, **varied, "recvDtype": np.float16},
            "Commit": {"handle": 0},
            "Wait": {"handle": 0},
            "Query": {"handle": 0},
            "GetWindowsInAddr": {"rank": 0},
            "GetWindowsOutAddr": {"rank": 0},
        }
        also = {
            "sendCounts": ("recvCounts", "send"), "recvCounts": ("sendCounts", "recv"),
            "send": ("recv", "dtype"), "dtype": ("recvDtype",),
            **dict.fromkeys(("count", "sendCount", "recvCount", "dataCount"), ("send", "recv", "strideCount")),
            "sdispls": ("send",), "rdispls": ("recv",), "strideCount": ("recv", "send"),
            "repeat": ("send", "recv", "strideCount", "rdispls"),
        }  # fmt: skip
        # The same wrong count on all ranks does not fit together, which is another test's business.
        keep = frozenset() if n == 1 else frozenset(("sendCounts", "recvCounts"))
        targets = [
            self.target(f"Hccl.{name}", call(name), opened(**given), also=also, keep=keep)
            for name, given in calls.items()
        ]
        return [*targets, self.constructor()]

    def constructor(self) -> Target:
        def make() -> Arguments:
            x, out = self.halves(8), self.halves(8 * self.n)
            message = make_mc2msg(
                preparePosition=0, commType=HcclCommand.ALLGATHER, dataType=3, sendCnt=8, turnNum=1,
                sendArgIndex=0, recvArgIndex=1, commOutArgIndex=1, hasCommOut=1,
            )  # fmt: skip
            return {
                "group": self.group, "tiling": message.to_bytes(), "args": (x, out), "version": "v1",
                "workspace": np.zeros(64, np.uint8), "window_bytes": 1 << 20,
            }  # fmt: skip

        def construct(**arguments: Any) -> None:
            hccl = Hccl(**arguments)
            self.hccl = hccl

        # Where the message is wrong, or does not fit, its fields are named.
        fields = ("message", "Mc2Msg", "version", "Off ", "offsets", *Mc2MsgV1().to_dict())
        also = {"tiling": fields, "args": fields, "version": fields}
        return self.target("Hccl", construct, make, also=also)

    def targets(self) -> list[Target]:
        return [*self.dense(), *self.experts(), *self.api(), *self.small()]


def fuzz(seed: int, calls: int) -> list[str]:
    """Make calls with wrong arguments in this world; return what ended as it must not."""
    surface = Surface(emu.world())
    fuzzer = Fuzzer(
        surface.targets(), (CommError,), seed=seed, state=surface.state, extra=surface.extra
    )
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = fuzzer.run(calls)
    surface.meet()
    assert report.refused > calls // 4, report.refused
    return [str(finding) for finding in report.findings]


def public() -> set[str]:
    """Return the names of all that a user can call."""
    names = set()
    for name in set(mc2.__all__) - RECORDS:
        value = getattr(mc2, name)
        names.add(name)
        if inspect.isclass(value):
            names |= {
                f"{name}.{attribute}"
                for attribute, member in vars(value).items()
                if not attribute.startswith("_")
                and (inspect.isfunction(member) or isinstance(member, classmethod))
                and len(inspect.signature(getattr(value, attribute)).parameters)
                > inspect.isfunction(member)
            }
    return names


def test_every_public_callable_is_fuzzed(worlds):
    (world,) = worlds(1, heap_bytes=64 << 20)
    set_world(world)
    try:
        surface = Surface(world)
        fuzzed = {target.name.split(" ")[0] for target in surface.targets()}
    finally:
        set_world(None)
    assert not public() ^ fuzzed


@pytest.mark.timeout(120 + CALLS // 20)
@pytest.mark.parametrize("seed", range(2))
def test_wrong_arguments_are_named_and_nothing_is_changed(worlds, seed):
    (world,) = worlds(1, heap_bytes=64 << 20)
    set_world(world)
    try:
        findings = fuzz(seed, CALLS or 1000)
    finally:
        world.finish()
        set_world(None)
    assert not findings, f"{len(findings)}:\n" + "\n".join(findings[:20])


@pytest.mark.timeout(120 + CALLS // 20)
def test_the_same_in_a_world():
    for findings in emu.launch(fuzz, 2, args=(2, CALLS or 400), timeout=60):
        assert not findings, f"{len(findings)}:\n" + "\n".join(findings[:20])

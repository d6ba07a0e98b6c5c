"""What Hccl's calls mean, in NumPy: each turn is one blocking collective of the World, inside Commit."""

from __future__ import annotations

import numpy as np

from emu.comm.world.array import SymmetricArray
from emu.comm.world.current import world

NAMES = ("sum", "prod", "max", "min")


def flat(array):
    array = array.local if isinstance(array, SymmetricArray) else array
    assert array.flags.c_contiguous
    return array.reshape(-1)


class ReferenceHccl:
    """The interface of Hccl; every rank must commit in the same order."""

    def __init__(self, group=None, tiling=None, args=(), *, window_bytes=0):
        self.group = group or world()
        self.tasks = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if exception[0] is None:
            self.Finalize()

    def _prepare(self, turn, repeat, commit):
        self.tasks.append({"turn": turn, "repeat": repeat, "committed": 0, "waited": 0})
        handle = len(self.tasks) - 1
        for _ in range(repeat if commit else 0):
            self.Commit(handle)
        return handle

    def AllReduce(self, send, recv, count, dtype=None, op=0, repeat=1, *, commit=False):
        def turn(i):
            part = slice(i * count, (i + 1) * count)
            flat(recv)[part] = self.group.all_reduce(flat(send)[part].copy(), NAMES[op])

        return self._prepare(turn, repeat, commit)

    def AllGather(
        self, send, recv, sendCount, dtype=None, strideCount=0, repeat=1, *, commit=False
    ):
        stride = strideCount or sendCount

        def turn(i):
            start = i * sendCount
            blocks = self.group.all_gather(flat(send)[start : start + sendCount].copy())
            for r, block in enumerate(blocks.reshape(self.group.n_pes, -1)):
                flat(recv)[r * stride + start : r * stride + start + sendCount] = block

        return self._prepare(turn, repeat, commit)

    def ReduceScatter(
        self, send, recv, recvCount, dtype=None, op=0, strideCount=0, repeat=1, *, commit=False
    ):
        stride = strideCount or recvCount

        def turn(i):
            start = i * recvCount
            rows = [
                flat(send)[r * stride + start : r * stride + start + recvCount]
                for r in range(self.group.n_pes)
            ]
            flat(recv)[start : start + recvCount] = self.group.reduce_scatter(
                np.stack(rows), NAMES[op]
            )

        return self._prepare(turn, repeat, commit)

    def AlltoAll(self, send, recv, dataCount, dtype=None, strideCount=0, repeat=1, *, commit=False):
        stride = strideCount or dataCount

        def turn(i):
            starts = [r * stride + i * dataCount for r in range(self.group.n_pes)]
            rows = np.stack([flat(send)[s : s + dataCount] for s in starts])
            for s, row in zip(starts, self.group.all_to_all(rows), strict=True):
                flat(recv)[s : s + dataCount] = row

        return self._prepare(turn, repeat, commit)

    def AlltoAllV(
        self,
        send,
        sendCounts,
        sdispls,
        dtype,
        recv,
        recvCounts,
        rdispls,
        recvDtype=None,
        repeat=1,
        *,
        commit=False,
    ):
        def turn(i):
            rows = [
                flat(send)[int(d) + i * int(n) : int(d) + (i + 1) * int(n)]
                for n, d in zip(sendCounts, sdispls, strict=True)
            ]
            data, counts = self.group.all_to_all_v(
                np.concatenate(rows), [int(n) for n in sendCounts]
            )
            assert counts.tolist() == [int(n) for n in recvCounts]
            start = 0
            for n, d in zip(recvCounts, rdispls, strict=True):
                n, d = int(n), int(d)
                flat(recv)[d + i * n : d + (i + 1) * n] = data[start : start + n]
                start += n

        return self._prepare(turn, repeat, commit)

    def Commit(self, handle):
        task = self.tasks[handle]
        assert task["committed"] < task["repeat"]
        task["turn"](task["committed"])
        task["committed"] += 1

    def Wait(self, handle):
        task = self.tasks[handle]
        if task["waited"] == task["committed"]:
            return -1
        task["waited"] += 1
        return 0

    def Query(self, handle):
        return self.tasks[handle]["committed"]

    def Finalize(self):
        assert all(task["committed"] == task["repeat"] for task in self.tasks)

    def GetRankId(self):
        return self.group.my_pe

    def GetRankDim(self):
        return self.group.n_pes

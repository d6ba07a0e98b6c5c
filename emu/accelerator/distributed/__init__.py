"""``torch.distributed`` on the World: the backends "hccl" and "nccl".

:func:`register` gives torch the two backends; after it ``init_process_group("nccl")`` in a PE makes a
process group whose ranks are the PEs of the launch, and the collectives of :mod:`torch.distributed`
run on :class:`emu.comm.world.world.World`. It needs no address and no port.

An asynchronous collective is deferred until its result is needed (:mod:`.works`), so a script that forgets a
``wait`` sees old data here too. Messages between two ranks are in :mod:`.point_to_point`, the process group
in :mod:`.process_group`, and the changes to torch in :mod:`.registration`.

Internal: names may change in any release.
"""

from __future__ import annotations

import sys


def register() -> None:
    """Register "hccl" and "nccl" with ``torch.distributed``; a second call does nothing.

    Do nothing where torch was built without its distributed package.
    """
    import torch.distributed

    if torch.distributed.is_available():
        from emu.accelerator.distributed import registration

        registration.register()


def flush_all() -> None:
    """Run every deferred operation, and wait until every message sent is matched.

    ``torch.cuda.synchronize()`` and ``torch.npu.synchronize()`` call it. It does not import torch: without a
    process group there is nothing to do.

    Raises:
        CommError: Errors of the operations.
    """
    works = sys.modules.get(f"{__name__}.works")
    if works is not None:
        works.flush()


__all__ = ["flush_all", "register"]

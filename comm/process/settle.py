"""The last module that the fork server imports: it prepares the server for being forked many times.

A PE's first lines need a few modules more than the kernels do; without them here each PE would load its
own. And a garbage collection visits every object there is: in a PE that would copy each page of what the
fork server has loaded. So what is here now is left out of all collections to come, garbage too: there is
little, and to find it takes a tenth of the server's start. Its pages are joined to huge ones
when it is idle (:mod:`emu.comm.process.huge_pages`).
"""

from __future__ import annotations

import gc
import importlib

from emu.comm.process.huge_pages import join_when_idle

for _name in (
    "multiprocessing.popen_forkserver",
    "emu.comm.process.fork_server",
    "emu.comm.process.launching",
):
    importlib.import_module(_name)
gc.freeze()
gc.enable()
join_when_idle()

"""``torch.distributed._symmetric_memory`` on the symmetric heap of the World.

A build of torch for the CPU has the names of symmetric memory, and the schemas of its operators, but no memory and no
kernels. Here memory is allocated in the World (:mod:`.memory`), a rendezvous tells each member of a group where the
others' lies (:mod:`.handle`), signals go through the machine (:mod:`.signals`), and the operators of ``torch.ops.symm_mem``
get kernels for host memory, where emulated tensors lie (:mod:`.operators`).

Internal: names may change in any release.
"""

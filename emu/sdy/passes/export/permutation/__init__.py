"""Resolution of permutation factors: shards that need elements of other shards.

``resolution`` is the pass. It reshards what is not written for shards; ``reverse``,
``pad_and_slice`` and ``reshape`` let neighbours exchange elements instead, by the
manual computations of ``halo``.

Internal: names may change in any release.
"""

"""What a kernel did, counted exactly: floating-point operations, bytes, lanes, atomic operations.

``work`` says what one operation of the tile IR counts as; ``instrument`` makes of a kernel one that counts; ``plan`` is
what is known of it before it runs; ``tally`` makes ``counts`` of its counters; ``counted`` runs a launch. ``state`` says
who wants to know.

Internal: names may change in any release.
"""

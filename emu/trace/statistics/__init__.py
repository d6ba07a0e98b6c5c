"""Figures of a trace: time by kind, kernel, line and PE, overlap and bubbles, bytes, imbalance, the critical path.

What each figure means:

* *self time* of an event: the time in which it is the innermost one of its PE's thread, that is, of the events with ``start <= t < end``
  the one that comes last in the order of a trace (by start, the longer one first). So the self times of a thread's events add up to the
  time in which the thread has any. On ``Thread.TASKS`` operations go on side by side; there each event has its whole duration.
* *total time* of a row: the sum of the durations of its events, what lies within them included. *Share*: self time of all
  PEs over ``elapsed`` times PEs.
* *elapsed*: from the first start to the last end of any event of the trace.
* A PE *computes* while the innermost event of one of its threads is a LAUNCH or OP, *communicates* while it is a PUT, GET, SIGNAL,
  ATOMIC, TURN or COLLECTIVE, *prepares* while it is a COMPILE, TUNE or ALLOCATE, and *waits* while it is a WAIT, COMPLETE, BARRIER or LOCK. A COLLECTIVE or TURN
  whose members are known (by their flow) waits until the last of them has started, and communicates from then on.
* *busy*: it computes, communicates or prepares on any thread. *Bubble*: it waits and is not busy. *Unrecorded*: neither; the
  program does what no event tells of, such as plain Python.
  The three add up to ``elapsed``.
* *overlap*: it computes on one thread while it communicates on another.
* *imbalance*: the largest busy time of a PE over the mean; 1 is even.
* *bytes matrix*: bytes that moved from a PE to a PE by PUT, SIGNAL, ATOMIC (from the PE whose event it is, to ``peer``) and GET (from
  ``peer``). Events without a peer are not in it; collectives name none.
* *critical path*: see :mod:`emu.trace.statistics.critical_path`.

Internal: names may change in any release.
"""

"""Compiled primitives of synchronisation: futexes, clocks, region locks, signals, the emulated link."""

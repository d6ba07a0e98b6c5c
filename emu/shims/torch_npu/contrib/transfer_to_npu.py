"""Importing this lets a script written for CUDA run; here it runs anyhow, so nothing is changed.

On hardware the import redirects the names of CUDA to the NPU. In `emu run` the "cuda" devices are
emulated themselves, with the same numbers: a tensor stays on "cuda", which is also what it says.
"""

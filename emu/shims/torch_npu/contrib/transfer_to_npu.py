"""Module that lets CUDA scripts run on an NPU; here they run anyway, so the import changes nothing.

On hardware the import redirects the names of CUDA to the NPU. In `emu run` the "cuda" devices are
emulated themselves, with the same indices: a tensor stays on "cuda", and says so.
"""

"""Triton's experiments, which emu does not have; importing one says so.

Internal: names may change in any release.
"""

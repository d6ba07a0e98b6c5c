"""Where Triton has its compiled parts, which emu does not have.

Internal: names may change in any release.
"""

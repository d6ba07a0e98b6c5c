"""Names of devices, where programs look for them; the one device is the CPU.

Internal: names may change in any release.
"""

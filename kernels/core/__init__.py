"""Foundations of all kernels: the compiled-code cache, addresses, dtypes, checks of arguments, threads.

Internal: names may change in any release.
"""

"""Execution of compiled functions: launches, threads, interruption, crashes."""

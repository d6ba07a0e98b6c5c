"""A trace as one HTML page: its timeline, who moved what to whom, and the critical path.

Internal: names may change in any release.
"""

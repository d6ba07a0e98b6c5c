"""The communication server that executes the tasks of Mc2Msg and Hccl.

Internal: names may change in any release.
"""

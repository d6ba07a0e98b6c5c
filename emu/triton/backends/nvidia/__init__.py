"""What programs look up in the back end of NVIDIA's GPUs to choose the sizes of their blocks.

Internal: names may change in any release.
"""

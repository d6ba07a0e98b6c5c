"""The tile IR: what kernels written for accelerators become before they are native code.

``types`` and ``ops`` say what there is, ``ir`` holds it and builds it, ``verify`` checks it, ``text``
writes and reads it, ``reference`` defines what each operation means, slowly, in NumPy. ``passes``
rewrite it; ``cpu`` and ``cuda`` compile it.
"""

"""The tile IR: the form of an accelerator kernel between its source and native code.

``types`` and ``ops`` define the types and operations, ``ir`` the program and its builder; ``verify`` checks it,
``text`` prints and parses it, ``reference`` defines the meaning of each operation, slowly, in NumPy. ``passes``
rewrite it; ``cpu`` and ``cuda`` compile it.
"""

__all__: list[str] = []  # the names are in its modules

"""From global to local shapes: the program that each device runs.

``localization`` holds what is known while a module is converted and how old
values become new ones, ``builder`` makes StableHLO operations; the other modules
convert one kind of operations each, and ``conversion`` is the pass.
"""

"""The planners of forms of all families of operations; importing it registers them."""

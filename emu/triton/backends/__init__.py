"""Where programs look for the names of devices: there is one back end, the CPU's."""

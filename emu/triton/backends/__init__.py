"""Names of devices, where programs look for them; the one device is the CPU."""

"""What a PE sees: the World, symmetric arrays, one-sided transfers, waits, collectives."""

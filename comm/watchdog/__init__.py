"""Detection of deadlocks: what each PE waits for, and whether anything still moves."""

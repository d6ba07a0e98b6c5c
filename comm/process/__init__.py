"""PEs as operating-system processes: launch, input and output, results, crashes."""

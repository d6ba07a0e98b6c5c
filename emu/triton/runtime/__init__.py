"""What runs a kernel: its source, its arguments, its launch."""

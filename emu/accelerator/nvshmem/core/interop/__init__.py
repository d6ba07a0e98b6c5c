"""``nvshmem.core.interop``: torch tensors and arrays in symmetric memory."""

"""Sharding rules: which dimension of which tensor goes with which factor."""

"""The sdy dialect: attributes, operations, verifier, canonical forms."""

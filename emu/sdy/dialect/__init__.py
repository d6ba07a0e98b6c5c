"""The sdy dialect: attributes, operations, verifier, canonical forms.

Internal: names may change in any release.
"""

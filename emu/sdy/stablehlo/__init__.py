"""The StableHLO dialect (with the parts of CHLO and MHLO that come with it)."""

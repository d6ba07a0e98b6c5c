"""From CHLO, which front ends write, to StableHLO, for which Shardy has rules."""

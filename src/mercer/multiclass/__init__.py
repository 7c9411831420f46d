"""Several classes from machines for two: pairs, coupling, decision values, calibration and thresholds."""

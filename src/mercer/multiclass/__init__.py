"""Classification with several classes: pairs of classes, coupling, decision values, calibration and thresholds."""

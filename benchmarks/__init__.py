"""Time to a certified optimum, against the other exact kernel machines; see `python -m benchmarks.run --help`."""

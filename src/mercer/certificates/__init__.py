"""Optimality certificates: computed from the problem, the kernel and the point, apart from any solver."""

"""Machines whose dual is no box-constrained quadratic: linear systems, likelihoods, descent, mistakes."""

from mercer.solvers.smooth.perceptron import Separation as Separation

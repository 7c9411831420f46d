"""Explicit feature maps, exact and approximate, as scikit-learn's transformers."""

from mercer.features.fourier import RandomFourier
from mercer.features.gaussian import GaussianBasis
from mercer.features.nystroem import Nystroem
from mercer.features.polynomial import PolynomialBasis, PolynomialMap

__all__ = ["GaussianBasis", "Nystroem", "PolynomialBasis", "PolynomialMap", "RandomFourier"]

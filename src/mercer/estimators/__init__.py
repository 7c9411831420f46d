"""scikit-learn's face of the machines: parameters, documentation and validation, no mathematics."""

from __future__ import annotations

from mercer.estimators.svc import SVC as SVC

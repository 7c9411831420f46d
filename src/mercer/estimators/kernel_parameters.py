"""Access to the parameters of a kernel through the parameters of its estimator."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self

from mercer.kernels import Kernel


class HoldsKernel:
    """An estimator whose kernel parameters can be set by name: ``kernel__gamma``, ``kernel__left__kernel__gamma``.

    Kernels are immutable: setting a parameter gives the estimator a new kernel. A callable with `set_params`, such as
    a Gaussian process kernel of scikit-learn, is copied before it is changed.
    """

    kernel: Any

    def _takes_values(self) -> bool:
        """Whether X holds kernel values."""
        held = self.kernel
        return held.takes_values if isinstance(held, Kernel) else isinstance(held, str) and held == "precomputed"

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator and of its kernel.

        Parameters
        ----------
        **params : dict
            Names as in `get_params`, with their new values.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        inner: dict[str, dict[str, Any]] = {}
        for path in list(params):
            name, _, rest = path.partition("__")
            held = params.get(name, getattr(self, name, None))
            if rest and (isinstance(held, Kernel) or (name == "kernel" and _has_parameters(held))):
                inner.setdefault(name, {})[rest] = params.pop(path)
            elif rest and name == "kernel":
                raise ValueError(
                    f"kernel={held!r} has no parameters of its own to set {path!r}: give a Kernel object, or a "
                    "function that is an object with get_params and set_params."
                )
        super().set_params(**params)  # type: ignore[misc]
        for name, values in inner.items():
            setattr(self, name, _changed(getattr(self, name), values))
        return self


def _has_parameters(held: Any) -> bool:
    return not isinstance(held, type) and hasattr(held, "get_params") and hasattr(held, "set_params")


def _changed(held: Any, values: dict[str, Any]) -> Any:
    """Return a copy of the kernel with these parameters."""
    if isinstance(held, Kernel):
        return held.with_params(**values)
    other = deepcopy(held)
    other.set_params(**values)
    return other

"""Parameters of kernels as parameters of the estimators that hold them."""

from __future__ import annotations

from typing import Any, Self

from mercer.kernels import Kernel


class HoldsKernel:
    """Lets scikit-learn's searches reach into a kernel: ``kernel__gamma``, ``kernel__left__kernel__gamma``.

    A kernel is a value: the estimator gets another one, and none changes that somebody else may hold.
    """

    kernel: Any

    def _takes_values(self) -> bool:
        """Whether X holds kernel values."""
        held = self.kernel
        return held.takes_values if isinstance(held, Kernel) else isinstance(held, str) and held == "precomputed"

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those inside of a kernel too.

        Parameters
        ----------
        **params : dict
            By the names that `get_params` gives them.

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
            if rest and isinstance(held, Kernel):
                inner.setdefault(name, {})[rest] = params.pop(path)
            elif rest and name == "kernel":
                raise ValueError(f"kernel={held!r} has no parameters of its own to set {path!r}: give a Kernel object.")
        super().set_params(**params)  # type: ignore[misc]
        for name, values in inner.items():
            setattr(self, name, getattr(self, name).with_params(**values))
        return self

"""What a notebook shows of a fitted machine besides scikit-learn's diagram: a card with its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mercer.certificates.certificate import Certificate
from mercer.data.result import card


class WithCard:
    """An estimator that shows a card when it is fitted."""

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        facts = self._fit_facts()
        if facts and "text/html" in shown:
            shown["text/html"] += card(f"{type(self).__name__}, fitted", facts)
        return shown

    def _fit_facts(self) -> dict[str, str]:
        """Return what the certificate says, and why the solver was chosen; nothing without a certificate."""
        try:
            claim: Any = getattr(self, "certificate_", None)
            solution: Any = getattr(self, "solution_", None)
        except ValueError:  # not fitted
            return {}
        if not isinstance(claim, Certificate):
            return {}
        first = solution[0] if isinstance(solution, Sequence) and solution else solution
        solver, reason = getattr(first, "solver", ""), getattr(first, "reason", "")
        return {**claim.facts, **({"solver": f"{solver}: {reason}"} if solver else {})}

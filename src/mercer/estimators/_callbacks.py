"""The callbacks of scikit-learn 1.9 or later, such as its progress bar; with earlier versions, nothing is added.

A fit is a task, and each progress report of it a subtask of this task. A callback whose `on_fit_task_end` returns True
ends the fit, as `callback=` does. Only this module uses that interface.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing."""

    with_callbacks = None

_CONTEXT = "_callback_fit_ctx"  # the attribute in which scikit-learn keeps the task of a fit


class SupportsCallbacks(CallbackSupportMixin):
    """An estimator with `set_callbacks`, whose fits and progress reports are tasks; see `sklearn.callback`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if with_callbacks is not None and "fit" in vars(cls):
            cls.fit = _as_task(vars(cls)["fit"])

    def _report_task(self, progress: Any) -> bool:
        """Report progress as a subtask of the fit, and return whether a callback asks for its end."""
        context = vars(self).get(_CONTEXT)
        if context is None:
            return False
        task = context.subcontext(task_name=progress.stage or "step")
        task.call_on_fit_task_begin(estimator=self)
        return bool(task.call_on_fit_task_end(estimator=self))


def _as_task(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `fit` that tells the callbacks of the estimator about its begin and end."""

    @wraps(fit)
    def fit_as_task(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not vars(self).get("_skl_callbacks") or _CONTEXT in vars(self):
            return fit(self, X, *args, **kwargs)
        return managed(self, X, *args, **kwargs)

    @with_callbacks  # type: ignore[untyped-decorator]
    def managed(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        y = args[0] if args else kwargs.get("y")
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self, X=X, y=y)
        fitted = fit(self, X, *args, **kwargs)
        task.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=dict)
        return fitted

    return fit_as_task

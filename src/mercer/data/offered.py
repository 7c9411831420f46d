"""Methods that some objects of a class have, and others refuse with a reason and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


class _Offered:
    def __init__(self, function: Callable[..., Any], check: Callable[[Any], object]) -> None:
        self._function, self._check = function, check
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._function
        self._check(instance)
        return MethodType(self._function, instance)


class offered_if:  # noqa: N801 (a decorator, as `property` is)
    """A decorator of a method that an object has if `check(object)` raises no AttributeError.

    It is `available_if` of scikit-learn, except that the error is that of `check`, which says what to do.
    """

    def __init__(self, check: Callable[[Any], object]) -> None:
        self._check = check

    def __call__(self, function: Method) -> Method:
        """Return the method."""
        return cast(Method, _Offered(function, self._check))

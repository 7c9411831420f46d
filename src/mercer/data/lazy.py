"""Properties that are computed when they are first read, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class lazy_property(Generic[Value]):  # noqa: N801 (a decorator, as `property` is)
    """A property that is computed at the first access and stored in the object's ``__dict__``.

    `functools.cached_property` of Python 3.11 holds a lock of the class during the computation. Threads with different
    objects then wait for each other, and a child process that is forked in this time waits for ever. This class has no
    lock: several threads may compute the value at the same time, and all of them get the same object.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        return vars(instance).setdefault(self._name, self._compute(instance))

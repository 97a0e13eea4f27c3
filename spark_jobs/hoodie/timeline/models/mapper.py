"""Dataclasses as records of the timeline's Avro models (format.md 3.4), both ways by the types of fields.

A field is the record's field of the same name in camel case, unless `avro` says otherwise. Nested classes,
tuples and maps follow the annotations; a null array of a field that is never None is an empty one. Importing
this module needs the standard library only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

from hoodie.timeline.time import InstantTime

R = TypeVar("R", bound="AvroRecord")
F = TypeVar("F", bound="AvroFile")

Check = Callable[[Any, str], object]
_Convert = Callable[[Any], Any]

_AVRO = "avro"
#: metadata of a field that records do not have
NOT_STORED: Mapping[str, Any] = {_AVRO: None}


#: a null is read as it is
_AS_IT_IS = object()


class _Avro(NamedTuple):
    name: str | None = None
    check: Check | None = None
    null: Any = _AS_IT_IS


def avro(name: str | None = None, *, check: Check | None = None, null: Any = _AS_IT_IS) -> Mapping[str, Any]:
    """The metadata of a field. `name`: in the record. `check` is called with each value that is read, and the
    name; it raises TableError. `null`: what a null, or an empty value, is read as.
    """
    return {_AVRO: _Avro(name, check, null)}


def each(check: Check) -> Check:
    """A check of the elements of an array, or of the keys of a map."""

    def every(values: Iterable[Any] | None, name: str) -> None:
        for value in values or ():
            check(value, name)

    return every


class AvroRecord:
    """Base of the dataclasses that are records."""

    def to_record(self) -> dict[str, Any]:
        return {field.name: field.encode(getattr(self, field.attribute)) for field in _fields(type(self))}

    @classmethod
    def from_record(cls: type[R], record: Mapping[str, Any]) -> R:
        """Drops what the class does not have. Raises TableError for a value that a check refuses."""
        values = {}
        for field in _fields(cls):
            value = record[field.name]
            if field.check is not None:
                field.check(value, field.name)
            values[field.attribute] = field.decode(value)
        return cls(**values)


class AvroFile(AvroRecord):
    """Base of a record that is the whole content of a timeline file."""

    #: short name of the Avro model
    model: ClassVar[str]

    @property
    def header(self) -> Mapping[str, str]:
        """Texts beside the record, which Apache Hudi passes over."""
        return {}

    def to_bytes(self) -> bytes:
        """Content of the timeline file. Raises ValueError when a field has a wrong type."""
        from hoodie.codec.avro import write_record

        return write_record(self.model, self.to_record(), self.header)

    @classmethod
    def from_bytes(cls: type[F], data: bytes) -> F:
        """Raises TableError when `data` is torn or another model's."""
        from hoodie.codec.avro import read_record

        return cls.from_record(read_record(cls.model, data))


class _Field(NamedTuple):
    attribute: str
    name: str
    check: Check | None
    encode: _Convert
    decode: _Convert


_FIELDS: dict[type, tuple[_Field, ...]] = {}


def _fields(cls: Any) -> tuple[_Field, ...]:
    known = _FIELDS.get(cls)
    if known is None:
        hints = typing.get_type_hints(cls)
        stored = [(item.name, item.metadata.get(_AVRO, _Avro())) for item in dataclasses.fields(cls)]
        known = _FIELDS[cls] = tuple(
            _Field(
                attribute,
                declared.name or camel_case(attribute),
                declared.check,
                *_converters(hints[attribute], declared.null),
            )
            for attribute, declared in stored
            if declared is not None
        )
    return known


def camel_case(name: str) -> str:
    """A name of Python as the models and Apache Hudi's JSON have it: `file_id` becomes `fileId`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _same(value: Any) -> Any:
    return value


def _converters(hint: Any, null: Any = _AS_IT_IS) -> tuple[_Convert, _Convert]:
    """Of an annotation: value -> part of a record, and back."""
    encode, decode = _by_type(hint)
    return encode, decode if null is _AS_IT_IS else lambda value: decode(value) if value else null


def _by_type(hint: Any) -> tuple[_Convert, _Convert]:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union) and len(parts) == 2 and type(None) in parts:
        encode, decode = _converters(next(part for part in parts if part is not type(None)))
        return _unless_none(encode), _unless_none(decode)
    if origin is tuple:
        encode, decode = _converters(parts[0])
        return (
            lambda values: list(map(encode, values)),
            lambda values: tuple(decode(value) for value in values or () if value is not None),
        )
    if origin is not None and issubclass(origin, Mapping):
        encode, decode = _converters(parts[1])
        return (
            lambda values: {name: encode(value) for name, value in values.items()},
            lambda values: {name: decode(value) for name, value in (values or {}).items()},
        )
    if hint is InstantTime:
        return str, InstantTime
    if isinstance(hint, type) and issubclass(hint, AvroRecord):
        return lambda value: value.to_record(), hint.from_record
    return _same, _same


def _unless_none(convert: _Convert) -> _Convert:
    return _same if convert is _same else lambda value: None if value is None else convert(value)

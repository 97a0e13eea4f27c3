"""Dataclasses as records of the timeline's Avro models (format.md 3.4), both ways by the types of fields.

A field is the record's field of the same name in camel case, unless `avro` says otherwise. Nested classes,
tuples and maps follow the annotations; a null array of a field that is never None is an empty one. Importing
this module needs the standard library only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

import dataclasses
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

from hoodie.format.instant_time import InstantTime

R = TypeVar("R", bound="AvroRecord")

Check = Callable[[Any, str], object]
_Convert = Callable[[Any], Any]

_AVRO = "avro"
#: metadata of a field that records do not have
NOT_STORED: Mapping[str, Any] = {_AVRO: None}


#: a null is read as it is
_AS_IT_IS = object()


class _Avro(NamedTuple):
    name: str | None
    check: Check | None
    null: Any


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
        fields = _fields(type(self))
        record = dict(zip(fields.names, fields.values(self), strict=True))
        for name, encode in fields.encoders:
            record[name] = encode(record[name])
        return record

    @classmethod
    def from_record(cls: type[R], record: Mapping[str, Any]) -> R:
        """What the class does not have is dropped. Raises TableError for a value that a check refuses."""
        fields = _fields(cls)
        for name, check in fields.checks:
            check(record[name], name)
        values = dict(zip(fields.attributes, fields.texts(record), strict=True))
        for attribute, decode in fields.decoders:
            values[attribute] = decode(values[attribute])
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
    def from_bytes(cls: type[R], data: bytes) -> R:
        """Raises TableError when `data` is torn or another model's."""
        from hoodie.codec.avro import read_record

        return cls.from_record(read_record(cls.model, data))  # type: ignore[attr-defined]


class _Fields(NamedTuple):
    """Those of a class, ready for plans of a hundred thousand records."""

    attributes: tuple[str, ...]
    names: tuple[str, ...]
    values: Callable[[object], tuple[Any, ...]]
    texts: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    encoders: tuple[tuple[str, _Convert], ...]
    decoders: tuple[tuple[str, _Convert], ...]
    checks: tuple[tuple[str, Check], ...]


def _fields(cls: type) -> _Fields:
    known = _FIELDS.get(cls)
    if known is None:
        known = _FIELDS[cls] = _made(cls)
    return known


_FIELDS: dict[type, _Fields] = {}


def _made(cls: Any) -> _Fields:
    hints, told = typing.get_type_hints(cls), {}
    for item in dataclasses.fields(cls):
        if (found := item.metadata.get(_AVRO, _Avro(None, None, _AS_IT_IS))) is not None:
            first, *rest = item.name.split("_")
            told[item.name] = found._replace(
                name=found.name or first + "".join(word.capitalize() for word in rest)
            )
    names = tuple(str(each.name) for each in told.values())
    both = {attribute: _converters(hints[attribute], each.null) for attribute, each in told.items()}
    return _Fields(
        attributes=tuple(told),
        names=names,
        values=_several(operator.attrgetter, tuple(told)),
        texts=_several(operator.itemgetter, names),
        encoders=tuple(
            (name, encode)
            for name, (encode, _) in zip(names, both.values(), strict=True)
            if encode is not _same
        ),
        decoders=tuple((name, decode) for name, (_, decode) in both.items() if decode is not _same),
        checks=tuple((str(each.name), each.check) for each in told.values() if each.check is not None),
    )


def _several(getter: Any, names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A getter of one name gives no tuple."""
    get = getter(*names)
    return get if len(names) > 1 else lambda thing: (get(thing),)


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

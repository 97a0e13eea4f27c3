"""The commands of table services, made from their descriptions (hoodie.services.registry)."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import MISSING, Field
from typing import Any

from hoodie.cli.engine import session
from hoodie.cli.output import Answer
from hoodie.services.registry import Service
from hoodie.services.request import choices_of, doc_of, is_positional, metavar_of


def add_fields(command: argparse.ArgumentParser, service: Service) -> None:
    """The options of what this service alone is asked."""
    for name, item in service.request.own().items():
        _add(command, name if is_positional(item) else f"--{name.replace('_', '-')}", item)


def _add(command: argparse.ArgumentParser, flag: str, item: Field[Any]) -> None:
    if item.default is False:
        command.add_argument(flag, action="store_true", help=doc_of(item))
        return
    given: dict[str, Any] = {"help": doc_of(item)}
    if choices_of(item):
        given["choices"] = choices_of(item)
    if metavar_of(item):
        given["metavar"] = metavar_of(item)
    if is_positional(item):
        command.add_argument(flag, **given)
    elif item.default is MISSING:
        command.add_argument(flag, required=True, **given)
    else:
        command.add_argument(flag, default=item.default, **given)


def run(service: Service, args: argparse.Namespace) -> Answer:
    """Run the service, and report what was done or why nothing was."""
    from hoodie.cli.write import options_of, progress_for

    given: dict[str, Any] = {name: getattr(args, name) for name in service.request.own()}
    options = options_of(args)
    with session(args) if service.needs_engine else nullcontext() as backend:
        if backend is not None:
            given["engine"] = backend.engine
        request = service.request(
            table=args.table, options=options, dry_run=args.dry_run, progress=progress_for(args), **given
        )
        result = service.run(request).to_dict()
    return Answer.of(result, service.text)

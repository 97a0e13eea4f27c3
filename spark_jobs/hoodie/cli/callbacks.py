"""`hoodie callbacks resend`."""

from __future__ import annotations

import argparse
from typing import Any

import hoodie
from hoodie.cli.output import Answer
from hoodie.cli.write import options_of
from hoodie.text import plural


def resend(args: argparse.Namespace) -> Answer:
    """Deliver what is kept. Exit code 1 when a message was not delivered."""
    result = hoodie.resend_callbacks(args.table, options=options_of(args), dry_run=args.dry_run).to_dict()
    return Answer.of(result, _text, 1 if result["status"] == "failed" else 0)


def _text(result: dict[str, Any]) -> str:
    if result["status"] == "skipped":
        return f"Nothing to send: {result['reason']}"
    if result["status"] == "planned":
        return f"Would send {plural(len(result['left']), 'message')}: {', '.join(result['left']) or 'none'}"
    lines = [f"Sent {plural(len(result['delivered']), 'message')}: {', '.join(result['delivered'])}"]
    return "\n".join(
        [*(lines if result["delivered"] else []), *([result["reason"]] if result["reason"] else [])]
    )

"""What operators and sensors ask of classes that derive from them, when these are made."""

from __future__ import annotations

from airflow_hoodie.exceptions import HoodieConfigurationError


def check_templates(cls: type) -> None:
    """Raises HoodieConfigurationError where a class renders less than its bases.

    Its other fields would reach the job as templates, and the secrets in them would not be hidden.
    """
    for base in cls.__bases__:
        given, own = getattr(base, "template_fields", ()), getattr(cls, "template_fields", ())
        if left := [name for name in given if name not in own]:
            raise HoodieConfigurationError(
                f"{cls.__name__}.template_fields has not {', '.join(left)}, which {base.__name__} renders; "
                f"begin it with *{base.__name__}.template_fields"
            )

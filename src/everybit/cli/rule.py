"""`everybit rule`: print a rule's page, or what a pasted error message means."""

from __future__ import annotations

import click

from everybit.cli.output import emit


@click.command("rule")
@click.argument("key", metavar="ID|SLUG|MESSAGE", required=False)
@click.option("--all", "show_all", is_flag=True, help="List every rule.")
def command(key: str | None, show_all: bool) -> None:
    """Explain a rule: what it means and what to do.

    An error message of torch, safetensors, Transformers or DCP about a file, pasted in quotes, is
    answered with what is really wrong: its last line, or the whole traceback.

    \b
    Examples:
      everybit rule MEM601
      everybit rule tensor-bytes-changed
      everybit rule "UnpicklingError: invalid load key, 'v'."
      everybit rule --all
    """
    from everybit.core.rule import all_rules, rule

    if (key is not None) == show_all:
        raise click.UsageError("give one rule (ID or slug), or --all")
    if key is not None:
        emit(_explain(key) if _is_message(key) else rule(key).page)
        return
    rules = all_rules()
    slugs = max(len(each.slug) for each in rules)
    emit(
        "".join(
            f"{each.id}  {each.slug:<{slugs}}  {each.severity:<7}  {each.certainty:<6}"
            f"  {each.title}\n"
            for each in rules
        )
    )


def _is_message(key: str) -> bool:
    """Whether an argument is a message: ids and slugs have neither spaces nor such marks."""
    words = key.strip()
    return any(char.isspace() or char in ":()'\"[]." for char in words) or words.endswith("Error")


def _explain(message: str) -> str:
    from everybit.core.errors import UsageError
    from everybit.core.explain import explain_error
    from everybit.core.rule import rule, rule_ids

    explanation = explain_error(message)
    if explanation is None:
        raise UsageError(
            "this is no message that everybit knows of a damaged or foreign file",
            todo="`everybit verify FILE` tests the file itself",
        )
    known = [key for key in explanation.rules if key in rule_ids()]
    pages = "".join(f"  {key}  {rule(key).slug:<22}  {rule(key).title}\n" for key in known)
    return f"{explanation.paragraph()}\n{pages}"

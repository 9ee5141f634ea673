"""`everybit rule`: print a rule's page."""

from __future__ import annotations

import click

from everybit.cli.output import emit


@click.command("rule")
@click.argument("key", metavar="ID|SLUG", required=False)
@click.option("--all", "show_all", is_flag=True, help="List every rule.")
def command(key: str | None, show_all: bool) -> None:
    """Explain a rule: what it means and what to do.

    \b
    Examples:
      everybit rule MEM601
      everybit rule tensor-bytes-changed
      everybit rule --all
    """
    from everybit.core.rule import all_rules, rule

    if (key is not None) == show_all:
        raise click.UsageError("give one rule (ID or slug), or --all")
    if key is not None:
        emit(rule(key).page)
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

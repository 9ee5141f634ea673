"""What the process that fetches batches can see of their contents: nothing is drawn or written."""

from everybit.probe.contents.probe import ContentsProbe
from everybit.probe.contents.survey import Survey, survey

__all__ = ["ContentsProbe", "Survey", "survey"]

"""A worker of a drill on the built-in models: `python -m everybit.drill.worker`.

`EVERYBIT_DRILL_SETTINGS` holds the settings of the Guard as JSON.
"""

from __future__ import annotations

import json
import os

SETTINGS_VARIABLE = "EVERYBIT_DRILL_SETTINGS"


def main() -> None:
    """Answer trials until stdin ends."""
    from everybit.drill.executor import answer_lines
    from everybit.drill.trying import SETTINGS, run_trial

    settings = json.loads(os.environ.get(SETTINGS_VARIABLE, "null")) or SETTINGS
    answer_lines(lambda trial: run_trial(trial, settings))


if __name__ == "__main__":
    main()

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
    from everybit.drill.ranked import preload, run_ranked
    from everybit.drill.ranks import RanksFailedError, Zygote
    from everybit.drill.trial import Fate, Outcome, Trial
    from everybit.drill.trying import SETTINGS, run_trial

    settings = json.loads(os.environ.get(SETTINGS_VARIABLE, "null")) or SETTINGS
    # Forked here, where no backward pass has run: autograd's threads do not survive it.
    zygote = Zygote(
        lambda line: json.dumps(run_ranked(Trial.from_json(json.loads(line)), settings).to_json()),
        begin=preload,
    )

    def run(trial: Trial) -> Outcome:
        if trial.ranks == 1:
            return run_trial(trial, settings)
        try:
            return Outcome.from_json(json.loads(zygote(json.dumps(trial.to_json()))))
        except RanksFailedError as error:
            return Outcome(trial=trial, fate=Fate.UNTRIED, detail=str(error))

    answer_lines(run)


if __name__ == "__main__":
    main()

"""Twin runs: the same training twice with one planted difference, and what `diff` says of it.

`settings` is what a run can be told, `models` the two small models, `training` one run, `kinds` the
planted differences with the right answers, `campaign` runs them and keeps the score.
"""

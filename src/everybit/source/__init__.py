"""Training code as text: what its names mean, which calls it makes, and what is wrong with them.

Files are read and parsed, never imported or executed. `reading` gives the text of a file or
notebook, `project` its neighbours, `module` what a check asks: `resolve` (which function is
this), `calls` (who calls what with which constants), `classes`, `parents`. A check is one file in
`checks`; `linting` runs them and turns their hits into findings.
"""

"""Where findings and numbers go while a run goes on: callbacks, a webhook, trackers.

Law: no sink blocks the job for long, changes its numbers, or takes it down. What fails says so in
one warning; a tracker or callback that failed is told no more.
"""

from everybit.sinks.opening import check_sinks, open_sinks

__all__ = ["check_sinks", "open_sinks"]

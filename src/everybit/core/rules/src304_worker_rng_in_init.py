"""A random generator made in a dataset's constructor is drawn from in every worker.

What:
    A `numpy.random.Generator`, `RandomState`, `random.Random` or `torch.Generator` is made in a
    dataset's `__init__` and drawn from where samples are made.

Why it matters:
    Each DataLoader worker gets a copy of the generator in the same state, so all workers draw the
    same numbers; and the copies are made anew each epoch, so every epoch draws them again. The
    augmentation of the run is a fraction of what it seems to be. The *global* streams of NumPy,
    `random` and torch are seeded for each worker by PyTorch and are fine.

Evidence:
    The class, the attribute, the constructor, the method that draws from it, and the number of
    workers as far as a DataLoader is in sight.

What to do:
    Seed from the sample: `numpy.random.default_rng((seed, epoch, index))` in `__getitem__`. Or
    make the generator where it is first used in the worker, from
    `torch.utils.data.get_worker_info().seed`, or in a `worker_init_fn`. Or draw from the global
    stream.

Known false alarms:
    A dataset that is never given to a DataLoader with workers; where no DataLoader is in sight
    the finding is a `note`. Nothing is said where a method seeds the generator again, where the
    DataLoader has a `worker_init_fn` that reaches the dataset, or where every DataLoader in sight
    has no workers.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC304",
    slug="worker-rng-in-init",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Seed a generator from the sample's index and the epoch, or make it inside the worker.",
    doc=__doc__,
)

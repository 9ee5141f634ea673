# expect: SRC301@8
from accelerate import Accelerator


def main(scheduler_state):
    accelerator = Accelerator()
    accelerator.register_for_checkpointing(scheduler_state)
    accelerator.load_state("step_100")

# expect: SRC301@5
from accelerate import Accelerator

accelerator = Accelerator()
accelerator.load_state("step_100", load_kwargs={"weights_only": False})

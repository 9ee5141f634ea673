# expect: none  (without registered objects accelerate loads with weights_only=True)
from accelerate import Accelerator

accelerator = Accelerator()
accelerator.save_state("step_100")
accelerator.load_state("step_100")

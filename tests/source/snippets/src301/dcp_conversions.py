# expect: SRC301@4, SRC301@5
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp

dcp_to_torch_save("step_100", "step_100.pt")
torch_save_to_dcp("step_100.pt", "step_100")

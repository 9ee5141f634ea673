# expect: SRC307@6
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict


def restore(model, state):
    set_model_state_dict(model, state, options=StateDictOptions(strict=False))

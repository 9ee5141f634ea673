# expect: SRC306@9
import io
import pickle

import torch


def snapshot(model):
    state = {k: v.to("cpu", non_blocking=True) for k, v in model.state_dict().items()}
    out = io.BytesIO()
    total = sum(float(v.sum()) for v in state.values())
    return out, total

# expect: none  (torch.cuda.synchronize comes before the read)
import torch


def predict(model, x):
    logits = model(x)
    host = logits.to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    return host.numpy()

# expect: SRC301@4
import torch as th

weights = th.load("weights.pt", weights_only=False)

# expect: SRC301@4
from model import Net

net = Net.load_from_checkpoint("last.ckpt", weights_only=False)

# expect: SRC301@6, SRC301@7
from lightning.fabric import Fabric

fabric = Fabric(accelerator="cpu")
state = {"model": None}
fabric.load("run.ckpt", state, weights_only=False)
fabric.load_raw("weights.ckpt", None, weights_only=False)
fabric.load("other.ckpt", state, weights_only=True)

# expect: SRC301@9
from lightning.pytorch import LightningModule


class Net(LightningModule):
    pass


net = Net.load_from_checkpoint("https://example.org/net.ckpt")
